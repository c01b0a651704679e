//! Reads a study from its text, embeds the workload files it names, checks it.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;

use super::claim::{Published, Rule};
use super::counts::CONTAINERS;
use super::error::TextError;
use super::load::RawWorkload;
use super::nearest::did_you_mean;
use super::offered::OFFERED;
use super::text_position::TextPosition;
use super::variant::{Expanded, expand};
use super::{Claim, Load, Selector, Study, StudyError, StudyVariant, Sweeps, Workload, names};
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
        let place = TextPosition { file: "stored study", text };
        let study = Study::read(&place, &|file| {
            let message = format!("the stored study names the file {file} instead of holding its text");
            Err(StudyError::Argument(message))
        })?;
        check(&study, &place)?;
        Ok(study)
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
        Study::parse_for(text, file, read, &StudyVariant::default())
    }

    /// As [`Study::parse`], for a machine, a scale and a device.
    ///
    /// # Errors
    /// As [`Study::parse`]; a scale that does not exist, a formula that cannot be worked out.
    pub fn parse_for(
        text: &str,
        file: &str,
        read: &dyn Fn(&str) -> Result<String, StudyError>,
        scene: &StudyVariant,
    ) -> Result<Study, StudyError> {
        let Expanded { text, scale, variables } = expand(text, file, scene)?;
        let place = TextPosition { file, text: &text };
        let mut study = Study::read(&place, read)?;
        if !variables.is_empty() {
            let value = |(name, value)| (name, toml::Value::String(value));
            study.variables = variables.into_iter().map(value).collect();
        }
        if let Some(evaluation) = &mut study.evaluation {
            evaluation.scale = scale.or(evaluation.scale.take());
        }
        if !scene.stacks.is_empty() && study.rows.iter().all(|row| row.stack.is_none()) {
            study.stacks.clone_from(&scene.stacks);
        }
        study.hide_secrets()?;
        check(&study, &place)?;
        names::check(&study, &place)?;
        Ok(study)
    }

    /// Reads a study without formulas; it is not checked.
    fn read(
        place: &TextPosition<'_>,
        read: &dyn Fn(&str) -> Result<String, StudyError>,
    ) -> Result<Study, StudyError> {
        let TextPosition { file, text } = place;
        let mut written: Study<RawWorkload> =
            toml::from_str(text).map_err(|error| TextError::of_toml(file, text, &error))?;
        if written.study.title.is_empty() {
            written.study.title = stem_of(file).unwrap_or_default();
        }
        written.resolve(place, read)
    }

    /// Checks a study that was put together in memory.
    pub(super) fn checked(mut self) -> Result<Study, StudyError> {
        self.hide_secrets()?;
        check(&self, &TextPosition { file: "command line", text: "" })?;
        Ok(self)
    }
}

impl Study<RawWorkload> {
    /// The study whose workloads hold their loads.
    fn resolve(
        self,
        place: &TextPosition<'_>,
        read: &dyn Fn(&str) -> Result<String, StudyError>,
    ) -> Result<Study, StudyError> {
        let resolve = |(at, written)| resolve(written, at, &self.parameters, place, read);
        let workloads = self.workloads.into_iter().enumerate().map(resolve).collect::<Result<_, _>>()?;
        Ok(Study {
            workloads,
            stacks: self.stacks,
            study: self.study,
            parameters: self.parameters,
            evaluation: self.evaluation,
            // one of them has been chosen
            scale: BTreeMap::new(),
            variables: self.variables,
            rows: self.rows,
            columns: self.columns,
            tables: self.tables,
            regimes: self.regimes,
            published: self.published,
            claims: self.claims,
        })
    }
}

/// The workload that the table number `at` means; `swept` are the parameters of every workload.
fn resolve(
    mut written: RawWorkload,
    at: usize,
    swept: &Sweeps,
    place: &TextPosition<'_>,
    read: &dyn Fn(&str) -> Result<String, StudyError>,
) -> Result<Workload, StudyError> {
    let error = |message: String| place.at_table("workload", at, message);
    written.modernize(swept).map_err(error)?;
    let both = |span, one: &str, other: &str| {
        place.error(Some(span), format!("a workload has both `{one}` and `{other}`; give one"))
    };
    if let Some(simulate) = written.simulate.take() {
        if written.app.is_some() {
            return Err(both(simulate.span(), "app", "simulate").into());
        }
        return simulated(written, &simulate, at, place, read);
    }
    match (written.file.take(), written.text.take(), written.app.take()) {
        (Some(_), _, Some(app)) => Err(both(app.span(), "file", "app").into()),
        (_, Some(_), Some(app)) => Err(both(app.span(), "text", "app").into()),
        (Some(file), Some(_), _) => Err(both(file.span(), "file", "text").into()),
        (None, None, None) => {
            Err(error("a workload needs `file`, `text`, `app` or `simulate`".into()).into())
        }
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

/// A workload with `simulate`: a program by its name, or `wml` and a script.
fn simulated(
    mut written: RawWorkload,
    simulate: &Spanned<String>,
    at: usize,
    place: &TextPosition<'_>,
    read: &dyn Fn(&str) -> Result<String, StudyError>,
) -> Result<Workload, StudyError> {
    let program = simulate.as_ref().clone();
    let is_script = written.file.is_some() || written.text.is_some();
    if (program == "wml") != is_script {
        let what = if is_script {
            "only `simulate = \"wml\"` has a script beside it"
        } else {
            "a workload with `simulate = \"wml\"` needs its script: add `file` or `text`"
        };
        return Err(place.error(Some(simulate.span()), what.to_string()).into());
    }
    if !is_script {
        let name = written.name.take().unwrap_or_else(|| program.clone());
        return Ok(written.with(name, Load::Simulated { program, script: None }));
    }
    // read as any script is, then marked
    let mut workload = resolve(written, at, &Sweeps::default(), place, read)?;
    if let Load::Wml { text, origin } = workload.load {
        workload.load = Load::Simulated { program, script: Some((text, origin)) };
    }
    Ok(workload)
}

/// What is simulated has no place to run at, and nothing else can do without one.
fn check_places(study: &Study, place: &TextPosition<'_>) -> Result<(), StudyError> {
    let is_virtual = |stack: &&spec::StackSpec| stack.fs() == spec::FsKind::Virtual;
    let stacks = plan::stacks(study);
    for (at, workload) in study.workloads.iter().enumerate() {
        let simulated = matches!(workload.load, Load::Simulated { .. });
        let message = match stacks.iter().find(|stack| is_virtual(stack) != simulated) {
            None => continue,
            Some(stack) if simulated => {
                format!("{} is simulated: it runs on `virtual`, not on {stack}", workload.label())
            }
            Some(_) => format!("{}: `virtual` is for workloads with `simulate`", workload.label()),
        };
        return Err(place.at_table("workload", at, message).into());
    }
    Ok(())
}

/// The stem of a file's name.
pub(super) fn stem_of(file: &str) -> Option<String> {
    Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned())
}

fn check(study: &Study, place: &TextPosition<'_>) -> Result<(), StudyError> {
    check_settings(study, place)?;
    check_workloads(study, place)?;
    let rows_name_theirs = !study.rows.is_empty() && study.rows.iter().all(|row| row.stack.is_some());
    if study.stacks.is_empty() && !rows_name_theirs {
        return Err(place
            .at_key("stacks", "no stack is named")
            .help("e.g. stacks = [\"ext4\", \"xfs\"], or --on ext4,xfs on the command line")
            .into());
    }
    for (at, stack) in study.stacks.iter().enumerate() {
        if study.stacks[..at].iter().any(|other| other.label() == stack.label()) {
            return Err(place.at_key("stacks", format!("the stack {} stands twice", stack.label())).into());
        }
    }
    check_places(study, place)?;
    let trials = plan::cells(study).len() as u64 * u64::from(study.study.trials);
    if trials > PLAN_MAX {
        let message = format!("the study has {trials} trials; the limit is {PLAN_MAX}");
        return Err(place.error(None, message).into());
    }
    for published in &study.published {
        let Published::Cell(one) = published.as_ref() else { continue };
        one_cell(study, &one.cell)
            .map_err(|problem| explain(study, place, published.span(), &one.cell, problem))?;
    }
    study.claims.iter().try_for_each(|claim| check_claim(study, place, claim))
}

fn check_settings(study: &Study, place: &TextPosition<'_>) -> Result<(), StudyError> {
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
    check_containers(study, place)?;
    check_offered(study, place)?;
    if settings.timeout.is_some_and(|timeout| timeout.0 <= 0.0) {
        return Err(place.at_key("timeout", "a time-out of 0 leaves no time for any trial").into());
    }
    Ok(())
}

fn check_containers(study: &Study, place: &TextPosition<'_>) -> Result<(), StudyError> {
    if study.study.containers.is_empty() {
        return Ok(());
    }
    let both =
        |key: &str, why: &str| Err(place.at_key(key, why.to_string()).help("leave one of them out").into());
    if study.study.cold {
        return both("cold", "`cold` unmounts the stack, which `containers` hold mounted");
    }
    if study.study.explain {
        return both(
            "explain",
            "`explain` follows the processes of a trial, which `containers` have of their own",
        );
    }
    let variables = study.workloads.iter().flat_map(|workload| [&workload.set, &workload.parameters]);
    if variables.chain([&study.parameters]).any(|sweeps| sweeps.get(CONTAINERS).is_some()) {
        return both(
            "containers",
            "a variable is called `containers`, which is the number of containers here",
        );
    }
    Ok(())
}

fn check_offered(study: &Study, place: &TextPosition<'_>) -> Result<(), StudyError> {
    let settings = &study.study;
    if settings.offered.is_empty() {
        return Ok(());
    }
    let both =
        |key: &str, why: &str| Err(place.at_key(key, why.to_string()).help("leave one of them out").into());
    if settings.rate.is_some() || study.workloads.iter().any(|workload| workload.rate.is_some()) {
        return both("rate", "`rate` is one offered rate, `offered` are several");
    }
    if !settings.containers.is_empty() {
        return both("containers", "`offered` rates are of one load: `containers` have one each");
    }
    let variables = study.workloads.iter().flat_map(|workload| [&workload.set, &workload.parameters]);
    if variables.chain([&study.parameters]).any(|sweeps| sweeps.get(OFFERED).is_some()) {
        return both("offered", "a variable is called `offered`, which is the offered rate here");
    }
    Ok(())
}

fn check_workloads(study: &Study, place: &TextPosition<'_>) -> Result<(), StudyError> {
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

fn check_claim(study: &Study, place: &TextPosition<'_>, claim: &Spanned<Claim>) -> Result<(), StudyError> {
    let (span, Rule::Ratio(rule)) = (claim.span(), &claim.as_ref().rule) else { return Ok(()) };
    for selector in [&rule.ratio.of, &rule.ratio.to] {
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
    place: &TextPosition<'_>,
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
            let near = did_you_mean(name, labels.iter().copied());
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
