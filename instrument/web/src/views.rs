//! One function for each page. A page that cannot be had is a page too, with what is wrong and what to do.

use analysis::compare::ComparisonBasis;
use analysis::trend::{self, SeriesFilter, Trend};
use axum::extract::{Path, State as Given};
use axum::http::{Uri, header};
use axum::response::{Html, IntoResponse, Response};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use lab::Store;
use lab::store::StoreError;
use report::web::{ASSETS, Filter, List, RunLine, SeriesLine};
use stats::Thresholds;
use study::results::{MetricName, Run};

use crate::index::{Entry, Index, Labels};
use crate::query::{Query, encoded};
use crate::so_far::so_far;
use crate::state::{Page, Refusal, State, failed, id, with_index};

/// Runs of one page of the list.
const PAGE_RUNS: usize = 100;
/// Runs that began within so many seconds count as one point of a trend, unless the address says otherwise; as `trend` does.
const EVERY_SECONDS: f64 = 3600.0;

fn page(text: String) -> Response {
    Html(text).into_response()
}

/// All runs.
pub async fn runs(Given(state): Given<State>, uri: Uri) -> Page {
    let query = Query::of(&uri);
    let filter = Filter {
        words: query.text("q"),
        workload: query.text("workload"),
        stack: query.text("stack"),
        from: query.text("from"),
        to: query.text("to"),
    };
    let number = match query.get("page") {
        None => 1,
        Some(word) => word
            .parse::<usize>()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| Refusal::BadInput(format!("page={word}: pages are numbered from 1")))?,
    };
    let (from, to) = (day("from", &filter.from)?, day("to", &filter.to)?);
    let list = with_index(&state, move |index| {
        let any_study = filter.workload.is_empty() && filter.stack.is_empty();
        if !any_study {
            index.learn_all(u64::MAX)?;
        }
        let (entries, labels) = index.listed()?;
        let fits = |entry: &&Entry| {
            let began = entry.fixed.started.to_zoned(TimeZone::UTC).date();
            let asks = |labels: &Labels| {
                labels.workloads.contains(&filter.workload) && labels.stacks.contains(&filter.stack)
            };
            lab::store::is_meant(&filter.words, &entry.id, entry.name.as_deref(), &entry.fixed.title)
                && (any_study || labels.get(&entry.fixed.study_hash).is_some_and(asks))
                && from.is_none_or(|from| began >= from)
                && to.is_none_or(|to| began <= to)
        };
        let first = (number - 1).saturating_mul(PAGE_RUNS);
        let fitting: Vec<&Entry> = entries.iter().rev().filter(fits).collect();
        let (stored, found) = (entries.len(), fitting.len());
        let shown: Vec<Entry> = fitting.into_iter().skip(first).take(PAGE_RUNS).cloned().collect();
        let link = |number: usize| {
            let said = [
                ("q", &filter.words),
                ("workload", &filter.workload),
                ("stack", &filter.stack),
                ("from", &filter.from),
                ("to", &filter.to),
            ];
            let said = said.into_iter().filter(|(_, value)| !value.is_empty());
            let said: String = said.map(|(name, value)| format!("&{name}={}", encoded(value))).collect();
            format!("/?page={number}{said}")
        };
        Ok(List {
            lines: shown.iter().map(|entry| line(index, entry)).collect::<Result<_, _>>()?,
            found,
            stored,
            newer: (number > 1).then(|| link(number - 1)),
            older: (found > first.saturating_add(PAGE_RUNS)).then(|| link(number + 1)),
            filter,
        })
    });
    Ok(page(report::web::runs(list.await?).map_err(failed)?))
}

fn day(name: &str, text: &str) -> Result<Option<Date>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let date =
        text.parse().map_err(|_| Refusal::BadInput(format!("{name}={text}: write a day as 2026-11-20")))?;
    Ok(Some(date))
}

fn line(index: &mut Index, entry: &Entry) -> Result<RunLine, StoreError> {
    index.learn(&entry.id, &entry.fixed.study_hash)?;
    let Labels { workloads, stacks } = index.labels(&entry.fixed.study_hash);
    Ok(RunLine {
        id: entry.id.clone(),
        name: entry.name.clone(),
        title: entry.fixed.title.clone(),
        started: entry.fixed.started,
        is_finished: entry.is_finished,
        is_extended: entry.is_extended,
        done: entry.done,
        planned: entry.planned,
        workloads,
        stacks,
    })
}

async fn load(state: &State, word: &str) -> Result<Run, Refusal> {
    let word = id(word)?.to_string();
    with_index(state, move |index| Ok(index.store().load_run(&word)?)).await
}

/// A run's report.
pub async fn run(Given(state): Given<State>, Path(word): Path<String>) -> Page {
    let run = load(&state, &word).await?;
    let judgements = analysis::judge::claims(&run, &Thresholds::default()).map_err(failed)?;
    Ok(page(report::html::served(&run, &judgements).map_err(failed)?))
}

/// What the devices of a run counted.
pub async fn counters(Given(state): Given<State>, Path(word): Path<String>) -> Page {
    Ok(page(report::web::counters(&load(&state, &word).await?).map_err(failed)?))
}

/// A run's data, as `report --csv` and `sweep --csv` write them.
pub async fn data(Given(state): Given<State>, Path((word, file)): Path<(String, String)>) -> Page {
    let run = load(&state, &word).await?;
    let mut files = report::csv::files(&run);
    let curves = report::load_curve::LoadCurves::of(&run, None);
    files.extend(curves.map(|curves| ("load-curves.csv".to_string(), curves.csv())));
    let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    let found = files.into_iter().find(|(name, _)| *name == file);
    let (file, text) =
        found.ok_or_else(|| Refusal::NotFound(format!("of this run there are {}", names.join(", "))))?;
    let name = format!("attachment; filename=\"{}-{file}\"", run.id);
    let heads =
        [(header::CONTENT_TYPE, "text/csv; charset=utf-8".to_string()), (header::CONTENT_DISPOSITION, name)];
    Ok((heads, text).into_response())
}

/// How far a run is.
pub async fn live(Given(state): Given<State>, Path(word): Path<String>) -> Page {
    let word = id(&word)?.to_string();
    let (run, so_far) = with_index(&state, move |index| {
        let run = index.store().head(&index.store().find(&word)?)?;
        let so_far = so_far(index.store(), &run)?;
        Ok((run, so_far))
    })
    .await?;
    Ok(page(report::web::live(&run, &so_far).map_err(failed)?))
}

/// Two runs, or the stacks of one.
pub async fn compare(Given(state): Given<State>, uri: Uri) -> Page {
    let query = Query::of(&uri);
    let Some(a) = query.get("a") else {
        if query.get("b").is_some() {
            return Err(Refusal::BadInput(
                "choose a baseline too: /compare?a=RUN&b=RUN; with a alone its stacks are compared".into(),
            ));
        }
        return Ok(page(report::web::comparison_asked().map_err(failed)?));
    };
    let a = id(a)?.to_string();
    let b = query.get("b").map(|b| id(b).map(str::to_string)).transpose()?;
    // Of many runs the past is long to go through: the page is kept until the store changes, as those of trends are.
    let made = move |index: &mut Index| {
        let thresholds = Thresholds::default();
        let a = index.store().load_run(&a)?;
        let Some(b) = b else {
            let compared = analysis::compare::compare_stacks(&a, None, MetricName::Throughput, &thresholds);
            return report::web::comparison(&compared, thresholds.margin, &a, None).map_err(failed);
        };
        let b = index.store().load_run(&b)?;
        let consulted = analysis::compare::consulted(index.past()?, &a, &b);
        let machines = index.store().machines(&consulted);
        let past = index.past()?;
        let spread = analysis::compare::spread(past, &machines, &a, &b);
        let known = analysis::compare::machine_history(past, &machines, &a, &b);
        let ground = ComparisonBasis { spread, known, anchor: None };
        let compared = analysis::compare::compare(&a, &b, &ground, MetricName::Throughput, &thresholds);
        report::web::comparison(&compared, thresholds.margin, &a, Some(&b)).map_err(failed)
    };
    let text = with_index(&state, move |index| index.kept(&uri.to_string(), made));
    Ok(page(text.await?))
}

/// All series, or those of one workload or stack over time.
pub async fn trend(Given(state): Given<State>, uri: Uri) -> Page {
    let query = Query::of(&uri);
    if query.get("workload").is_none() && query.get("stack").is_none() {
        let series = with_index(&state, |index| Ok(index.series()?)).await?;
        let line = |(load, stack, runs): (String, String, usize)| {
            let link = format!("/trend?workload={}&stack={}", encoded(&load), encoded(&stack));
            SeriesLine { load, stack, runs, link }
        };
        return Ok(page(report::web::series(series.into_iter().map(line).collect()).map_err(failed)?));
    }
    let asked = SeriesQuery::of(&query)?;
    let made = move |index: &mut Index| {
        let text = report::trend::served(&asked.trends(index)?, &asked.command());
        text.map_err(failed)
    };
    Ok(page(with_index(&state, move |index| index.kept(&uri.to_string(), made)).await?))
}

/// The drawing of a single series.
pub async fn trend_svg(Given(state): Given<State>, uri: Uri) -> Page {
    let asked = SeriesQuery::of(&Query::of(&uri))?;
    let drawing = with_index(&state, move |index| {
        index.kept(&uri.to_string(), |index| {
            let trends = asked.trends(index)?;
            let [one] = trends.as_slice() else {
                let number = trends.len();
                let text =
                    format!("a drawing is of one series, and these are {number}: name workload and stack");
                return Err(Refusal::BadInput(text));
            };
            Ok(report::trend::svg(one))
        })
    });
    let drawing = drawing.await?;
    // a file to be kept: its styles are within it, which no page here may have
    let heads = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"trend.svg\""),
    ];
    Ok((heads, drawing).into_response())
}

/// Which series an address asks for.
struct SeriesQuery {
    workload: Option<String>,
    stack: Option<String>,
    anchor: Option<String>,
    metric: MetricName,
    /// The metric, as it was asked for.
    word: String,
    every_seconds: f64,
}

impl SeriesQuery {
    fn of(query: &Query) -> Result<SeriesQuery, Refusal> {
        let [workload, stack, anchor] =
            ["workload", "stack", "anchor"].map(|name| query.get(name).map(str::to_string));
        let word = query.get("metric").unwrap_or("throughput");
        let metric = MetricName::of_word(word).ok_or_else(|| {
            let known =
                "throughput, bandwidth, latency_p50, latency_p99, latency_p999, latency_mean, seconds";
            Refusal::BadInput(format!("metric={word}: there are {known}"))
        })?;
        let every_seconds = match query.get("every_seconds") {
            None => EVERY_SECONDS,
            Some(word) => {
                word.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0).ok_or_else(
                    || Refusal::BadInput(format!("every_seconds={word}: write a number from 0 on")),
                )?
            }
        };
        Ok(SeriesQuery { workload, stack, anchor, metric, word: word.to_string(), every_seconds })
    }

    /// The command that shows the same.
    fn command(&self) -> String {
        let mut command = vec!["loadline".to_string(), "trend".into()];
        command.extend(self.workload.clone());
        for (option, value) in [("--on", &self.stack), ("--anchor", &self.anchor)] {
            command.extend(value.iter().flat_map(|value| [option.to_string(), value.clone()]));
        }
        let every = format!("{}s", self.every_seconds);
        command.extend(["--metric".into(), self.word.clone(), "--every".into(), every]);
        report::format::shell_line(&command)
    }

    fn trends(&self, index: &mut Index) -> Result<Vec<Trend>, Refusal> {
        let (workload, stack) = (self.workload.as_deref(), self.stack.as_deref());
        let (anchor, metric, every_seconds) = (self.anchor.as_deref(), self.metric, self.every_seconds);
        let wanted = SeriesFilter { workload, stack, anchor, metric, every_seconds };
        let (past, asks, store) = index.history()?;
        let mut trends = match metric {
            MetricName::Throughput => trend::trends(asks, past, &wanted),
            // every trial of the runs that have it has to be read
            other => {
                let is = |asked: &std::sync::Arc<trend::DefinedCell>| {
                    workload.is_none_or(|wanted| wanted == asked.cell.workload || wanted == asked.load)
                        && stack.is_none_or(|wanted| wanted == asked.cell.stack)
                };
                let past = store.past_by(other, |run| asks.cells(&run.study_hash).iter().any(is))?;
                trend::trends(asks, &past, &wanted)
            }
        };
        for change in trends.iter_mut().flat_map(|trend| &mut trend.changes) {
            if let (Some(before), Some(after)) =
                (environment(store, &change.runs.0)?, environment(store, &change.runs.1)?)
            {
                change.environment = analysis::diff::diff(&before, &after);
            }
        }
        if trends.is_empty() {
            return Err(Refusal::NotFound("no runs of this cell; /trend lists those that there are".into()));
        }
        Ok(trends)
    }
}

fn environment(store: &Store, run: &str) -> Result<Option<study::environment::Environment>, StoreError> {
    Ok(store.load_run(run)?.trials.into_iter().find_map(|trial| trial.environment))
}

/// How much was read since the server began, for tests and the curious: a line for each count.
pub async fn counts(Given(state): Given<State>) -> Page {
    let counts = with_index(&state, |index| Ok(index.counts())).await?;
    let text = format!(
        "opened {}\nlists {}\nheads {}\ncounted {}\n",
        counts.opened, counts.lists, counts.heads, counts.counted
    );
    Ok(text.into_response())
}

/// Style, script, icon.
pub async fn asset(Path(name): Path<String>) -> Page {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    let asset = found.ok_or_else(|| Refusal::NotFound("there is no such file".into()))?;
    Ok(([(header::CONTENT_TYPE, asset.kind)], asset.text).into_response())
}

/// Any other address.
pub async fn not_found() -> Refusal {
    Refusal::NotFound("there is no such page; / lists all runs".into())
}
