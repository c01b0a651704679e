//! Reads a study from its text, embeds the workload files it names, checks it.

use std::path::Path;

use toml::Spanned;

use super::error::TextError;
use super::load::Written;
use super::nearest::nearest;
use super::{Claim, Load, Selector, Study, StudyError, Sweeps, Workload};
use crate::plan;

/// Trials of one cell.
const TRIALS_MAX: u32 = 10_000;
/// Cells times trials.
const PLAN_MAX: u64 = 1_000_000;

impl Study {
    /// Reads a study that names no other files: a stored one.
    ///
    /// # Errors
    /// A text that is no study (with the place), a study that contradicts itself.
    pub fn from_stored(text: &str) -> Result<Study, StudyError> {
        Study::parse(text, "stored study", &|file| {
            let message = format!("the stored study names the file {file} instead of holding its text");
            Err(StudyError::Argument(message))
        })
    }

    /// Reads a study; `read` gives the text of a workload file as the study names it. `file` is the study's
    /// name in messages.
    ///
    /// # Errors
    /// As [`Study::from_stored`]; a file that `read` cannot read.
    pub fn parse(
        text: &str,
        file: &str,
        read: &dyn Fn(&str) -> Result<String, StudyError>,
    ) -> Result<Study, StudyError> {
        let mut written: Study<Written> =
            toml::from_str(text).map_err(|error| TextError::of_toml(file, text, &error))?;
        if written.study.title.is_empty() {
            written.study.title = stem_of(file).unwrap_or_default();
        }
        let place = Place { file, text };
        let study = written.resolve(&place, read)?;
        check(&study, &place)?;
        Ok(study)
    }

    /// Checks a study that was put together in memory.
    pub(super) fn checked(self) -> Result<Study, StudyError> {
        check(&self, &Place { file: "command line", text: "" })?;
        Ok(self)
    }
}

impl Study<Written> {
    /// The study whose workloads hold their loads.
    fn resolve(
        self,
        place: &Place<'_>,
        read: &dyn Fn(&str) -> Result<String, StudyError>,
    ) -> Result<Study, StudyError> {
        let Study { stacks, study, parameters, workloads, published, claims } = self;
        let resolve = |(at, written)| resolve(written, at, &parameters, place, read);
        let workloads = workloads.into_iter().enumerate().map(resolve).collect::<Result<_, _>>()?;
        Ok(Study { stacks, study, parameters, workloads, published, claims })
    }
}

/// A study's text, for errors.
struct Place<'a> {
    file: &'a str,
    text: &'a str,
}

impl Place<'_> {
    fn error(&self, span: Option<std::ops::Range<usize>>, message: impl Into<String>) -> TextError {
        TextError::new(self.file, self.text, span.filter(|span| !span.is_empty()), message)
    }

    /// An error at the `nth` table `[[name]]`.
    fn at_table(&self, name: &str, nth: usize, message: impl Into<String>) -> TextError {
        let header = format!("[[{name}]]");
        let start = self.text.match_indices(&header).nth(nth).map(|(at, _)| at);
        self.error(start.map(|at| at..at + header.len()), message)
    }

    /// An error at the first line that begins with `key`.
    fn at_key(&self, key: &str, message: impl Into<String>) -> TextError {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let rest = line.trim_start();
            let is_key = rest.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']));
            if is_key || rest.trim_end() == format!("[{key}]") {
                let at = start + line.len() - rest.len();
                return self.error(Some(at..at + rest.trim_end().len()), message);
            }
            start += line.len();
        }
        self.error(None, message)
    }
}

/// The workload that the table number `at` means; `swept` are the parameters of every workload.
fn resolve(
    mut written: Written,
    at: usize,
    swept: &Sweeps,
    place: &Place<'_>,
    read: &dyn Fn(&str) -> Result<String, StudyError>,
) -> Result<Workload, StudyError> {
    let error = |message: String| place.at_table("workload", at, message);
    written.modernize(swept).map_err(error)?;
    let both = |span, one: &str, other: &str| {
        place.error(Some(span), format!("a workload has both `{one}` and `{other}`; give one"))
    };
    match (written.file.take(), written.text.take(), written.app.take()) {
        (Some(_), _, Some(app)) => Err(both(app.span(), "file", "app").into()),
        (_, Some(_), Some(app)) => Err(both(app.span(), "text", "app").into()),
        (Some(file), Some(_), _) => Err(both(file.span(), "file", "text").into()),
        (None, None, None) => Err(error("a workload needs `file`, `text` or `app`".into()).into()),
        (Some(file), None, None) => {
            let text = read(file.as_ref()).map_err(|error| match error {
                StudyError::Read { path, source } => place
                    .error(Some(file.span()), format!("the workload file cannot be read: {path}: {source}"))
                    .help("paths are relative to the study")
                    .into(),
                other => other,
            })?;
            let file = file.into_inner();
            let name = written.name.take().or_else(|| stem_of(&file)).unwrap_or_default();
            Ok(written.with(name, Load::Wml { text, origin: Some(file) }))
        }
        (None, Some(text), None) => {
            let named = written.name.take().filter(|name| !name.is_empty());
            let name = named.ok_or_else(|| error("a workload with `text` needs a `name`".into()))?;
            let origin = written.origin.take();
            Ok(written.with(name, Load::Wml { text, origin }))
        }
        (None, None, Some(app)) => {
            let app = app.into_inner();
            let name = written.name.take().unwrap_or_else(|| app.clone());
            Ok(written.with(name, Load::App { name: app }))
        }
    }
}

/// The stem of a file's name.
pub(super) fn stem_of(file: &str) -> Option<String> {
    Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned())
}

fn check(study: &Study, place: &Place<'_>) -> Result<(), StudyError> {
    check_settings(study, place)?;
    check_workloads(study, place)?;
    if study.stacks.is_empty() {
        return Err(place
            .at_key("stacks", "no stack is named")
            .help("e.g. stacks = [\"ext4\", \"xfs\"]")
            .into());
    }
    for (at, stack) in study.stacks.iter().enumerate() {
        if study.stacks[..at].iter().any(|other| other.label() == stack.label()) {
            return Err(place.at_key("stacks", format!("the stack {} stands twice", stack.label())).into());
        }
    }
    let trials = plan::cells(study).len() as u64 * u64::from(study.study.trials);
    if trials > PLAN_MAX {
        let message = format!("the study has {trials} trials; the limit is {PLAN_MAX}");
        return Err(place.error(None, message).into());
    }
    for published in &study.published {
        one_cell(study, &published.as_ref().cell)
            .map_err(|problem| explain(study, place, published.span(), &published.as_ref().cell, problem))?;
    }
    study.claims.iter().try_for_each(|claim| check_claim(study, place, claim))
}

fn check_settings(study: &Study, place: &Place<'_>) -> Result<(), StudyError> {
    let settings = &study.study;
    if !(1..=TRIALS_MAX).contains(&settings.trials) {
        let message = format!("trials = {} is out of range; 1 to {TRIALS_MAX}", settings.trials);
        return Err(place.at_key("trials", message).into());
    }
    // TOML's integers are signed; a larger seed could not be stored.
    if i64::try_from(settings.seed).is_err() {
        return Err(place.at_key("seed", "the seed is out of range; 0 to 2^63 - 1").into());
    }
    let rates =
        settings.rate.iter().chain(study.workloads.iter().filter_map(|workload| workload.rate.as_ref()));
    if let Some(rate) = rates.into_iter().find(|rate| !(rate.is_finite() && **rate > 0.0)) {
        return Err(place.at_key("rate", format!("rate = {rate} is out of range; it is above 0")).into());
    }
    if settings.timeout.is_some_and(|timeout| timeout.0 <= 0.0) {
        return Err(place.at_key("timeout", "a time-out of 0 leaves no time for any trial").into());
    }
    Ok(())
}

fn check_workloads(study: &Study, place: &Place<'_>) -> Result<(), StudyError> {
    if study.workloads.is_empty() {
        return Err(place
            .error(None, "no workload is given")
            .help("add [[workload]] with file = \"...\"")
            .into());
    }
    for (at, workload) in study.workloads.iter().enumerate() {
        let error = |message: String| place.at_table("workload", at, message);
        let label = workload.label();
        if label.is_empty() {
            return Err(error("the `name` of a workload is empty".into()).into());
        }
        if study.workloads[..at].iter().any(|other| other.label() == label) {
            return Err(error(format!("two workloads are called {label}; give one another `name`")).into());
        }
        if let Some((name, _)) = workload.set.iter().find(|(_, values)| values.len() != 1) {
            let help = "several values are a sweep: put them under `parameters`";
            return Err(error(format!("`set` gives `{name}` several values")).help(help).into());
        }
        let swept = study.parameters.with(&workload.parameters);
        if let Some((name, _)) = workload.set.iter().find(|(name, _)| swept.get(name).is_some()) {
            return Err(error(format!("`{name}` is both set and swept in {label}")).into());
        }
    }
    Ok(())
}

fn check_claim(study: &Study, place: &Place<'_>, claim: &Spanned<Claim>) -> Result<(), StudyError> {
    let (span, claim) = (claim.span(), claim.as_ref());
    let bounds = [claim.expect, claim.at_least, claim.at_most];
    if bounds.iter().flatten().count() != 1 {
        let message = "a claim has exactly one of `expect`, `at_least` and `at_most`";
        return Err(place.error(Some(span), message).into());
    }
    if bounds.iter().flatten().any(|bound| !(bound.is_finite() && *bound > 0.0)) {
        return Err(place.error(Some(span), "the ratio that a claim speaks of is above 0").into());
    }
    if claim.tolerance.is_some() && claim.expect.is_none() {
        return Err(place.error(Some(span), "`tolerance` belongs to `expect`").into());
    }
    for selector in [&claim.ratio.of, &claim.ratio.to] {
        one_cell(study, selector)
            .map_err(|problem| explain(study, place, span.clone(), selector, problem))?;
    }
    Ok(())
}

/// How many cells a selector chose instead of one.
struct NotOne(Vec<String>);

/// The only cell that a selector chooses.
fn one_cell(study: &Study, selector: &Selector) -> Result<u32, NotOne> {
    let cells = plan::cells(study);
    let chosen = plan::choose(&cells, selector);
    match chosen.as_slice() {
        [one] => Ok(one.id),
        several => Err(NotOne(several.iter().map(|cell| cell.label()).collect())),
    }
}

fn explain(
    study: &Study,
    place: &Place<'_>,
    span: std::ops::Range<usize>,
    selector: &Selector,
    NotOne(chosen): NotOne,
) -> StudyError {
    if !chosen.is_empty() {
        let some = chosen.iter().take(3).map(String::as_str).collect::<Vec<_>>().join("; ");
        let message = format!("this chooses {} cells where it must choose one", chosen.len());
        return place.error(Some(span), message).help(format!("say which: {some} ...")).into();
    }
    let error = place.error(Some(span), "this chooses no cell of the study");
    let labels: Vec<&str> = study.workloads.iter().map(Workload::label).collect();
    let stacks: Vec<String> = study.stacks.iter().map(spec::StackSpec::label).collect();
    let help = match (&selector.workload, &selector.stack) {
        (Some(name), _) if !labels.contains(&name.as_str()) => {
            let near = nearest(name, labels.iter().copied()).map(|near| format!("did you mean `{near}`? "));
            format!(
                "no workload is called `{name}`; {}there are: {}",
                near.unwrap_or_default(),
                labels.join(", ")
            )
        }
        (_, Some(stack)) if !stacks.contains(&stack.label()) => {
            format!("the study has no stack {}; there are: {}", stack.label(), stacks.join(" "))
        }
        _ => "no cell has these parameters".to_string(),
    };
    error.help(help).into()
}
