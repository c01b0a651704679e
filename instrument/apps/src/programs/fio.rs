//! fio itself (Jens Axboe), as Debian has it: a job file, its JSON kept with the trial, its figures as the trial's.
//!
//! Latencies are those of fio's `lat`: from before the submission to the completion, as loadline measures service time. fio
//! keeps them in bins of 1/64 of a power of two (values below 128 ns are exact), so that a percentile of its is up to 1.6 % off.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use stats::metric::names;
use stats::{Direction, Histogram, OpClass, OpOutcome};

use super::run::{Program, program};
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// What runs when nobody gives a job.
const DEFAULT: &str = "[randread]\nrw=randread\nsize=16m\ntime_based\nruntime=1\n";
/// The job file beside fio's own files.
const FILE: &str = "loadline-job.fio";
/// A larger JSON is kept without its bins: the trial's raw output has room for 1 MiB.
const JSON_BYTES_MAX: usize = 900 << 10;
/// Directions of a job in fio's JSON, as names of operations here.
const DIRECTIONS: [(&str, &str, Direction); 2] =
    [("read", "read", Direction::Read), ("write", "write", Direction::Write)];

/// Values of `rw` by which a job reads nothing but what it verifies.
const ONLY_WRITE: [&str; 4] = ["write", "randwrite", "trimwrite", "randtrimwrite"];

/// Counters of what others took of the machine, and the time that they took it in.
const OF_OTHERS: [&str; 4] = [
    names::COUNTED_SECONDS,
    names::OTHERS_CPU_SECONDS,
    names::STOLEN_CPU_SECONDS,
    names::MEMORY_PRESSURE_SECONDS,
];

/// The option by which a job waits for those before it.
const WAITS: &str = "stonewall";

/// fio with a job.
#[derive(Debug)]
pub struct Fio {
    job: String,
}

impl Fio {
    /// Parameter `job`: the text of a job file. Options that could leave the directory are refused ([`fiojob::external`]).
    ///
    /// # Errors
    /// A job file that is not passed on.
    pub fn new(parameters: &mut Parameters) -> Result<Fio, AppError> {
        let job = parameters.word("job", DEFAULT);
        passed(&job, &[])?;
        Ok(Fio { job })
    }

    fn program(folder: &Path) -> Result<Program, AppError> {
        // fio writes files beside its own (verify states) into its current directory
        let fio = program("fio", "fio")?.args(["--output-format=json+", "--eta=never"]);
        let mut directory = std::ffi::OsString::from("--directory=");
        // a colon separates directories, a backslash keeps it from that
        directory.push(folder.to_string_lossy().replace('\\', "\\\\").replace(':', "\\:"));
        Ok(fio.arg(directory).in_folder(folder))
    }
}

fn passed(job: &str, set: &[(String, String)]) -> Result<fiojob::External, AppError> {
    fiojob::external(job, set).map_err(|error| AppError::Parameter(error.render("job")))
}

/// Whether a job does things, or nothing, before what it measures begins.
fn waits(job: &fiojob::External) -> bool {
    job.ramp_seconds > 0.0 || job.delay_seconds > 0.0
}

/// Whether what a counter grew by while fio ran is a figure of the trial. fio does not tell when its interval begins, so that
/// counters of a job that waits or warms up would be of something else; only what others took of the machine holds all the same.
fn is_counted(job: &fiojob::External, counter: &str) -> bool {
    !waits(job) || OF_OTHERS.contains(&counter)
}

impl Load for Fio {
    fn phases(&self) -> u32 {
        2
    }

    fn seconds_guess(&self) -> f64 {
        let job = fiojob::external(&self.job, &[]).ok();
        job.and_then(|job| Some(job.seconds? + job.ramp_seconds + job.delay_seconds)).unwrap_or(60.0)
    }

    fn takes_time(&self) -> bool {
        true
    }

    fn programs(&self) -> &'static [&'static str] {
        &["fio"]
    }

    fn provide(&self, _home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        program("fio", "fio").map(drop)
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        if place.pace.rate.is_some() {
            let message =
                "fio runs as fast as its job says: write rate_iops into the job file, or leave --rate out";
            return Err(AppError::Parameter(message.into()));
        }
        let milliseconds = |seconds: f64| format!("{}ms", (seconds * 1000.0).round().max(1.0));
        let mut set: Vec<(String, String)> = Vec::new();
        if let Some(seconds) = place.pace.seconds {
            set.push(("runtime".into(), milliseconds(seconds)));
            set.push(("time_based".into(), "1".into()));
        }
        if let Some(seconds) = place.pace.warmup_seconds.filter(|seconds| *seconds > 0.0) {
            set.push(("ramp_time".into(), milliseconds(seconds)));
        }
        let path = place.root.join(FILE);
        let job = passed(&self.job, &set)?;
        std::fs::write(&path, &job.text).map_err(at(&path))?;
        let fio = Fio::program(place.root)?;
        if phase == 0 {
            bench.report("fio lays its files out");
            return fio.arg("--create_only=1").arg(&path).output().map(drop);
        }
        bench.check()?;
        let before = bench.counters();
        let output = fio.arg(&path).output()?;
        let grown = before.growth_until(&bench.counters());
        bench.counters_grew(grown.into_iter().filter(|metric| is_counted(&job, &metric.name)));
        if waits(&job) {
            bench.note("no CPU time and no device's bytes: fio's own counters hold its startdelay and ramp_time, too");
        }
        let json = json_of(&output.stdout)?;
        // standard error is what is kept with the trial
        host::note!("{}", stored_json(&json));
        let told = FioReport::of(&json)?;
        told.must_be_measured(&job)?;
        bench.note(format!(
            "{}: latencies in bins of 1/64 of a power of two, up to 1.6 % off; its JSON is in the trial's raw output",
            told.version
        ));
        for (name, milliseconds) in &told.own_milliseconds {
            bench.own_seconds(name, *milliseconds as f64 / 1000.0);
        }
        for (name, value) in &told.means_ns {
            bench.metric(format!("{name}/mean_latency"), "ns", *value);
        }
        bench.counted(told.seconds, told.ops.into_iter());
        Ok(())
    }
}

/// The JSON of fio's output; warnings may stand before it.
fn json_of(output: &[u8]) -> Result<Value, AppError> {
    let from = output.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let wrong = |error: serde_json::Error| {
        let begin = String::from_utf8_lossy(&output[..output.len().min(200)]).trim().to_string();
        AppError::Protocol(format!("what fio told is no JSON ({error}); it begins with `{begin}`"))
    };
    let mut values = serde_json::Deserializer::from_slice(&output[from..]).into_iter();
    values.next().unwrap_or(Ok(Value::Null)).map_err(wrong)
}

/// The JSON as it is kept.
fn stored_json(json: &Value) -> String {
    let whole = json.to_string();
    if whole.len() <= JSON_BYTES_MAX {
        return whole;
    }
    let mut json = json.clone();
    for job in json["jobs"].as_array_mut().into_iter().flatten() {
        for way in ["read", "write", "trim", "sync"] {
            if let Some(latencies) = job[way]["lat_ns"].as_object_mut() {
                latencies.remove("bins");
            }
        }
    }
    json.to_string()
}

/// What fio told.
#[derive(Debug)]
struct FioReport {
    version: String,
    /// From the begin of its first job to the end of its last.
    seconds: f64,
    ops: Vec<OpOutcome>,
    /// Of several jobs, and of one that reads back what it wrote, the length of each operation's own interval. Jobs of one name
    /// share it: from the begin of the first to the end of the last.
    own_milliseconds: Vec<(String, u64)>,
    /// Mean latencies as fio worked them out itself, by operation.
    means_ns: Vec<(String, f64)>,
    /// Jobs of whose operations fio tells no latency.
    without_latencies: Vec<String>,
}

impl FioReport {
    fn of(json: &Value) -> Result<FioReport, AppError> {
        let jobs = json["jobs"].as_array().filter(|jobs| !jobs.is_empty());
        let jobs = jobs.ok_or_else(|| AppError::Protocol("fio's JSON holds no jobs".into()))?;
        let timings = JobTiming::of_all(json, jobs)?;
        let (mut whole, mut lengths) = (Interval::default(), BTreeMap::<String, Interval>::new());
        let names: BTreeSet<&str> = jobs.iter().filter_map(|job| job["jobname"].as_str()).collect();
        // clones have one name: they are one kind of operation
        let (mut order, mut sums) = (Vec::new(), BTreeMap::<String, (OpOutcome, f64)>::new());
        let mut without_latencies = Vec::new();
        for (job, timing) in jobs.iter().zip(&timings) {
            let name = job["jobname"].as_str().unwrap_or("job");
            if let Some(error) = job["error"].as_i64().filter(|error| *error != 0) {
                let why = std::io::Error::from_raw_os_error(i32::try_from(error).unwrap_or(0));
                return Err(AppError::Protocol(format!("fio's job {name} ended with an error: {why}")));
            }
            let parts = ["read", "write", "trim", "sync"].map(|way| &job[way]);
            let has_latency =
                |part: &&Value| part["lat_ns"]["bins"].as_object().is_some_and(|bins| !bins.is_empty());
            if parts.iter().any(|part| number(&part["total_ios"]) > 0) && !parts.iter().any(has_latency) {
                without_latencies.push(name.to_string());
            }
            let JobTiming { begin, length } = timing;
            whole.add(*begin, length.all);
            for (word, length) in [("read", length.reads), ("write", length.writes), ("fsync", length.writes)]
            {
                lengths.entry(format!("{name}-{word}")).or_default().add(*begin, length);
            }
            for (way, word, direction) in DIRECTIONS {
                let part = &job[way];
                let one = outcome(format!("{name}-{word}"), word, direction, part);
                add(&mut order, &mut sums, one, mean_ns(part));
            }
            let sync = &job["sync"];
            let one = outcome(format!("{name}-fsync"), "fsync", Direction::Neither, sync);
            add(&mut order, &mut sums, one, mean_ns(sync));
        }
        let milliseconds = whole.milliseconds();
        if milliseconds == 0 || order.is_empty() {
            return Err(AppError::Protocol("fio told of no operation".into()));
        }
        let version = json["fio version"].as_str().unwrap_or("fio").to_string();
        let sorted: Vec<(OpOutcome, f64)> = order.iter().filter_map(|name| sums.remove(name)).collect();
        let begins: BTreeSet<u64> = timings.iter().map(|timing| timing.begin).collect();
        let is_split = timings.iter().any(|timing| timing.length.is_split());
        let length =
            |(op, _): &(OpOutcome, f64)| Some((op.name.clone(), lengths.get(&op.name)?.milliseconds()));
        Ok(FioReport {
            version,
            seconds: milliseconds as f64 / 1000.0,
            own_milliseconds: if names.len() > 1 || begins.len() > 1 || is_split {
                sorted.iter().filter_map(length).collect()
            } else {
                Vec::new()
            },
            means_ns: sorted.iter().map(|(op, sum)| (op.name.clone(), sum / op.ops as f64)).collect(),
            ops: sorted.into_iter().map(|(op, _)| op).collect(),
            without_latencies,
        })
    }

    /// Refuses figures of the ramp: fio tells them as the result of a job that is done before `ramp_time` is over, without a latency.
    fn must_be_measured(&self, job: &fiojob::External) -> Result<(), AppError> {
        let is_off = |line: &str| ["gtod_reduce=1", "disable_lat=1"].contains(&line);
        let ramps = job.ramp_seconds > 0.0 && !job.text.lines().any(is_off);
        let Some(name) = self.without_latencies.first().filter(|_| ramps) else { return Ok(()) };
        Err(AppError::Protocol(format!(
            "nothing was measured of fio's job {name}, which was done before its ramp_time was over; give the job more to do \
             (io_size, or time_based with runtime), or a shorter ramp_time"
        )))
    }
}

/// When a job measured, in milliseconds since fio let its jobs go.
#[derive(Debug)]
struct JobTiming {
    begin: u64,
    length: JobMilliseconds,
}

impl JobTiming {
    /// What a job does in its `ramp_time` does not count. Time that jobs spent so while none measured, after one had, is left out.
    fn of_all(json: &Value, jobs: &[Value]) -> Result<Vec<JobTiming>, AppError> {
        let mut group = None;
        let plan = |job: &Value| {
            // of clones, which are of one group, only the first waits
            let is_first = group.replace(number(&job["groupid"])) != Some(number(&job["groupid"]));
            Ok(JobPlan {
                delay: wait_milliseconds(json, job, "startdelay")?,
                has_wall: is_first && option(json, job, WAITS).is_some_and(|set| set != "0"),
                ramp: wait_milliseconds(json, job, "ramp_time")?,
                length: JobMilliseconds::of(json, job),
            })
        };
        let plans = jobs.iter().map(plan).collect::<Result<Vec<JobPlan>, AppError>>()?;
        let begins = JobPlan::begins(&plans);
        let ramps: Vec<Range<u64>> =
            begins.iter().zip(&plans).map(|(begin, plan)| *begin..begin + plan.ramp).collect();
        let measured: Vec<Range<u64>> =
            ramps.iter().zip(&plans).map(|(ramp, plan)| ramp.end..ramp.end + plan.length.all).collect();
        let first = measured.iter().map(|span| span.start).min().unwrap_or(0);
        let edges: BTreeSet<u64> =
            ramps.iter().chain(&measured).flat_map(|span| [span.start, span.end]).collect();
        let edges: Vec<u64> = edges.range(first..).copied().collect();
        let is_within = |spans: &[Range<u64>], at: u64| spans.iter().any(|span| span.contains(&at));
        let left_out: Vec<&[u64]> = edges
            .windows(2)
            .filter(|part| is_within(&ramps, part[0]) && !is_within(&measured, part[0]))
            .collect();
        let timing = |(plan, span): (JobPlan, Range<u64>)| {
            let before = left_out.iter().filter(|part| part[1] <= span.start).map(|part| part[1] - part[0]);
            JobTiming { begin: span.start - before.sum::<u64>(), length: plan.length }
        };
        Ok(plans.into_iter().zip(measured).map(timing).collect())
    }
}

/// What says when a job begins.
#[derive(Debug)]
struct JobPlan {
    delay: u64,
    has_wall: bool,
    ramp: u64,
    length: JobMilliseconds,
}

impl JobPlan {
    /// When fio lets each job go (backend.c, `run_threads`): again and again it goes through those that have not begun, passes
    /// over one whose `startdelay` is not over, and goes no further at a `stonewall` while any job runs.
    fn begins(plans: &[JobPlan]) -> Vec<u64> {
        let mut begins: Vec<Option<u64>> = vec![None; plans.len()];
        // a job that did nothing has ended when fio looks again
        let end = |begin: u64, plan: &JobPlan| begin + (plan.ramp + plan.length.all).max(1);
        let mut now = 0;
        loop {
            let ends: Vec<u64> =
                begins.iter().zip(plans).filter_map(|(begin, plan)| Some(end((*begin)?, plan))).collect();
            let mut is_busy = ends.iter().any(|end| *end > now);
            for (begin, plan) in begins.iter_mut().zip(plans).filter(|(begin, _)| begin.is_none()) {
                if plan.delay > now {
                    continue;
                }
                if plan.has_wall && is_busy {
                    break;
                }
                *begin = Some(now);
                is_busy = true;
            }
            // when something changes next
            let moments = begins
                .iter()
                .zip(plans)
                .map(|(begin, plan)| begin.map_or(plan.delay, |begin| end(begin, plan)));
            now = moments.filter(|moment| *moment > now).min().unwrap_or(now);
            if begins.iter().all(Option::is_some) {
                return begins.into_iter().flatten().collect();
            }
        }
    }
}

/// A span of time in milliseconds since fio let its jobs go.
#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    begin: u64,
    end: u64,
}

impl Interval {
    /// Grows to hold another one.
    fn add(&mut self, begin: u64, length: u64) {
        if length == 0 {
            return;
        }
        self.begin = if self.end == 0 { begin } else { self.begin.min(begin) };
        self.end = self.end.max(begin + length);
    }

    fn milliseconds(&self) -> u64 {
        self.end - self.begin
    }
}

/// How long a job ran, and how long of that each way was at work.
#[derive(Debug)]
struct JobMilliseconds {
    all: u64,
    reads: u64,
    writes: u64,
}

impl JobMilliseconds {
    /// A job that reads and writes does so at once; where only `verify` reads, the reading comes after the writing. fio tells the
    /// two apart, but not what `verify_backlog` reads between writes: it counts that as time of the writes.
    fn of(json: &Value, job: &Value) -> JobMilliseconds {
        let [reads, writes] = ["read", "write"].map(|way| number(&job[way]["runtime"]));
        let set = |name: &str| option(json, job, name);
        let only_writes =
            set("rw").is_some_and(|rw| ONLY_WRITE.contains(&rw.split(':').next().unwrap_or(rw)));
        let all = if only_writes { reads + writes } else { reads.max(writes) };
        let is_told_apart = set("verify").is_some() && set("verify_backlog").is_none_or(|every| every == "0");
        if is_told_apart && reads > 0 && writes > 0 {
            JobMilliseconds { all, reads, writes }
        } else {
            JobMilliseconds { all, reads: all, writes: all }
        }
    }

    fn is_split(&self) -> bool {
        self.reads != self.all || self.writes != self.all
    }
}

/// An option of a job, its own or that of all.
fn option<'j>(json: &'j Value, job: &'j Value, name: &str) -> Option<&'j str> {
    [&job["job options"][name], &json["global options"][name]].into_iter().find_map(Value::as_str)
}

/// How long a job waited by one of its options, or did what does not count, before its `runtime` began.
fn wait_milliseconds(json: &Value, job: &Value, name: &str) -> Result<u64, AppError> {
    let Some(told) = option(json, job, name) else { return Ok(0) };
    let seconds = fiojob::seconds(told)
        .map_err(|error| AppError::Protocol(format!("fio told of a {name} that is no time: {error}")))?;
    Ok((seconds * 1000.0).round() as u64)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn mean_ns(part: &Value) -> f64 {
    part["lat_ns"]["mean"].as_f64().unwrap_or(0.0)
}

fn add(order: &mut Vec<String>, sums: &mut BTreeMap<String, (OpOutcome, f64)>, one: OpOutcome, mean: f64) {
    if one.ops == 0 {
        return;
    }
    let sum = mean * one.ops as f64;
    match sums.get_mut(&one.name) {
        Some((known, all)) => {
            known.ops += one.ops;
            known.bytes += one.bytes;
            known.service.merge(&one.service);
            *all += sum;
        }
        None => {
            order.push(one.name.clone());
            sums.insert(one.name.clone(), (one, sum));
        }
    }
}

fn outcome(name: String, kind: &str, direction: Direction, part: &Value) -> OpOutcome {
    let mut service = Histogram::new();
    for (bin, count) in part["lat_ns"]["bins"].as_object().into_iter().flatten() {
        if let Ok(value) = bin.parse() {
            service.record_n(value, number(count));
        }
    }
    OpOutcome {
        // fdatasync of the engines that block is counted in the latencies alone
        ops: number(&part["total_ios"]).max(number(&part["lat_ns"]["N"])),
        bytes: number(&part["io_bytes"]),
        service,
        ..OpOutcome::new(name, kind, OpClass::Io, direction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As fio 3.33 tells of `verify=crc32c`, with `rw` in the section and in `[global]`.
    #[test]
    fn reading_back_comes_after_writing() {
        let seconds = |global: &str, own: &str| {
            let text = format!(
                r#"{{"fio version": "fio-3.33", "global options": {{{global}}}, "jobs": [
                {{"jobname": "x", "error": 0, "job options": {{{own}}},
                "read": {{"io_bytes": 8192, "total_ios": 2, "runtime": 1000, "lat_ns": {{"mean": 0.0}}}},
                "write": {{"io_bytes": 8192, "total_ios": 2, "runtime": 1500, "lat_ns": {{"mean": 10.0}}}},
                "sync": {{"total_ios": 0}}}}]}}"#
            );
            FioReport::of(&json_of(text.as_bytes()).unwrap()).unwrap().seconds
        };
        assert_eq!(seconds("", r#""rw": "randwrite""#), 2.5);
        assert_eq!(seconds(r#""rw": "write:8k""#, ""), 2.5);
        assert_eq!(seconds("", r#""rw": "trimwrite""#), 2.5);
        // both at once
        assert_eq!(seconds(r#""rw": "write""#, r#""rw": "randrw""#), 1.5);
        assert_eq!(seconds("", r#""rw": "readwrite""#), 1.5);
        assert_eq!(seconds("", ""), 1.5);
    }

    /// As fio 3.33 tells of `verify=crc32c, fsync=64` of random writes, and of both ways; of `verify_backlog` it tells the end alone.
    #[test]
    fn writing_and_reading_back_have_their_own_time() {
        let told = |options: &str, reads: u64, writes: u64| {
            let text = format!(
                r#"{{"fio version": "fio-3.33", "jobs": [{{"jobname": "x", "error": 0, "job options": {{{options}}},
                "read": {{"total_ios": 16384, "runtime": {reads}, "lat_ns": {{"mean": 0.0}}}},
                "write": {{"total_ios": 16384, "runtime": {writes}, "lat_ns": {{"mean": 10.0}}}},
                "sync": {{"total_ios": 255, "lat_ns": {{"mean": 10.0}}}}}}]}}"#
            );
            let told = FioReport::of(&json_of(text.as_bytes()).unwrap()).unwrap();
            (told.seconds, told.own_milliseconds)
        };
        let own = |reads: u64, writes: u64| {
            [("x-read", reads), ("x-write", writes), ("x-fsync", writes)]
                .map(|(name, ms)| (name.to_string(), ms))
                .to_vec()
        };
        let verify = r#""rw": "randwrite", "verify": "crc32c""#;
        assert_eq!(told(verify, 179, 831), (1.01, own(179, 831)));
        assert_eq!(told(r#""rw": "randrw", "verify": "crc32c""#, 512, 477), (0.512, own(512, 477)));
        assert_eq!(told(&format!(r#"{verify}, "verify_backlog": "512""#), 2, 827), (0.829, Vec::new()));
        assert_eq!(told(r#""rw": "randrw""#, 500, 499), (0.5, Vec::new()));
    }

    /// As fio 3.33 tells of jobs with `startdelay`: its `runtime` begins behind the delay.
    #[test]
    fn jobs_that_begin_one_after_the_other_take_the_time_of_both() {
        let told = |jobs: &[(&str, &str, u64)]| {
            let mut group = 0;
            let job = |(name, options, milliseconds): &(&str, &str, u64)| {
                group += u64::from(options.contains("stonewall") || options.contains("new_group"));
                format!(
                    r#"{{"jobname": "{name}", "groupid": {group}, "error": 0,
                    "job options": {{"rw": "randread"{options}}},
                    "read": {{"io_bytes": 40960000, "total_ios": 10000, "runtime": {milliseconds}, "lat_ns": {{"mean": 9.0}}}},
                    "write": {{"total_ios": 0, "runtime": 0}}, "sync": {{"total_ios": 0}}}}"#
                )
            };
            let jobs: Vec<String> = jobs.iter().map(job).collect();
            let text = format!(r#"{{"fio version": "fio-3.33", "jobs": [{}]}}"#, jobs.join(","));
            let told = FioReport::of(&json_of(text.as_bytes()).unwrap()).unwrap();
            (told.seconds, told.own_milliseconds)
        };
        let own =
            |of: &[(&str, u64)]| of.iter().map(|(name, ms)| (name.to_string(), *ms)).collect::<Vec<_>>();
        let late = r#", "startdelay": "10""#;
        assert_eq!(
            told(&[("a", "", 10_000), ("b", late, 10_001)]),
            (20.001, own(&[("a-read", 10_000), ("b-read", 10_001)]))
        );
        // what all wait is no part of the load
        let later = r#", "startdelay": "12500ms""#;
        assert_eq!(told(&[("a", later, 3000), ("b", late, 4000)]).0, 5.5);
        // one name, and so one rate
        assert_eq!(
            told(&[("a", "", 1000), ("b", "", 9000), ("a", late, 1000)]),
            (11.0, own(&[("a-read", 11_000), ("b-read", 9000)]))
        );
        // a warm-up that goes on while no other measures any more
        let ramp = r#", "ramp_time": "2""#;
        assert_eq!(told(&[("a", ramp, 1000), ("b", "", 1000)]).0, 2.0);
        // behind a wall the later of both counts, and only what is beyond the wall is waited for
        let wall = r#", "stonewall": "1""#;
        let late = format!(r#"{wall}{late}"#);
        assert_eq!(told(&[("a", "", 10_000), ("b", &late, 10_000)]).0, 20.0);
        assert_eq!(told(&[("a", "", 4000), ("b", &late, 10_000)]).0, 20.0);
        // a later group's warm-up is no part of the load
        let ramp = format!(r#"{wall}{ramp}"#);
        assert_eq!(
            told(&[("a", r#", "ramp_time": "2""#, 1000), ("b", &ramp, 1000), ("a", &ramp, 3000)]),
            (5.0, own(&[("a-read", 5000), ("b-read", 1000)]))
        );
        // a group without a wall measures beside a warm-up
        let beside = r#", "new_group": "1""#;
        assert_eq!(told(&[("a", "", 1000), ("b", &ramp, 5000), ("c", beside, 3000)]).0, 8.0);
        // fio passes over who waits for his delay: a wall does not wait for him, nor do others for his wall
        let later = r#", "startdelay": "20""#;
        assert_eq!(told(&[("a", "", 1000), ("b", later, 5000), ("c", wall, 10_000)]).0, 25.0);
        let later_wall = format!(r#"{wall}{later}"#);
        assert_eq!(told(&[("a", "", 1000), ("b", &later_wall, 5000), ("c", "", 2000)]).0, 25.0);
        assert_eq!(told(&[("a", "", 0), ("b", wall, 5000)]).0, 5.0);
        // nothing else is pending that would wake fio at that time
        assert_eq!(told(&[("a", "", 0), ("b", wall, 5000), ("c", r#", "startdelay": "3""#, 1000)]).0, 5.0);
        // of a group in which one measures at once, nothing is left out
        assert_eq!(told(&[("a", "", 1000), ("b", wall, 5000), ("c", r#", "ramp_time": "2""#, 2000)]).0, 6.0);
    }

    /// As fio 3.33 tells of `fdatasync=1` with psync.
    #[test]
    fn fdatasyncs_count_though_fio_tells_of_none() {
        let text = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "wal", "error": 0,
            "read": {"io_bytes": 0, "total_ios": 0, "runtime": 0, "lat_ns": {"mean": 0.0}},
            "write": {"io_bytes": 8192, "total_ios": 2, "runtime": 5, "lat_ns": {"mean": 10.0, "bins": {"10": 2}}},
            "sync": {"total_ios": 0, "lat_ns": {"mean": 900.0, "N": 2, "bins": {"904": 2}}}}]}"#;
        let told = FioReport::of(&json_of(text.as_bytes()).unwrap()).unwrap();
        let ops: Vec<_> = told.ops.iter().map(|op| (op.name.as_str(), op.ops)).collect();
        assert_eq!(ops, [("wal-write", 2), ("wal-fsync", 2)]);
    }

    /// As fio 3.33 tells of `size=1m`, `rate_iops=200`, `ramp_time=2`: 256 reads, all in the ramp.
    #[test]
    fn what_fio_tells_of_its_ramp_is_no_result() {
        let text = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "x", "error": 0,
            "read": {"io_bytes": 1048576, "total_ios": 256, "runtime": 1276, "iops": 200.6, "lat_ns": {"mean": 0.0, "N": 0}},
            "write": {"io_bytes": 0, "total_ios": 0, "runtime": 0, "lat_ns": {"mean": 0.0, "N": 0}},
            "sync": {"total_ios": 0, "lat_ns": {"mean": 0.0, "N": 0}}}]}"#;
        let told = FioReport::of(&json_of(text.as_bytes()).unwrap()).unwrap();
        let judged = |more: &str| {
            told.must_be_measured(&passed(&format!("[x]\nrw=read\nsize=1m\n{more}"), &[]).unwrap())
        };
        let error = judged("ramp_time=2\n").unwrap_err().to_string();
        assert!(error.contains("before its ramp_time was over; give the job more to do"), "{error}");
        assert!(judged("").is_ok() && judged("ramp_time=2\ngtod_reduce=1\n").is_ok());
        // also where another job was measured
        let bins = r#""lat_ns": {"mean": 150.0, "bins": {"100": 1, "200": 1}}"#;
        let two = JSON.replacen(bins, r#""lat_ns": {"mean": 0.0}"#, 1).replacen(
            r#""bins": {"904": 1}"#,
            r#""N": 0"#,
            1,
        );
        let two = two.replacen(r#""jobname": "a""#, r#""jobname": "b""#, 1);
        let told = FioReport::of(&json_of(two.as_bytes()).unwrap()).unwrap();
        let job =
            passed("[b]\nrw=read\nsize=1m\nramp_time=2\n[a]\nrw=read\nsize=1m\nramp_time=2\n", &[]).unwrap();
        let error = told.must_be_measured(&job).unwrap_err().to_string();
        assert!(error.contains("fio's job b"), "{error}");
        let measured = FioReport::of(&json_of(JSON.as_bytes()).unwrap()).unwrap();
        let job = passed("[a]\nrw=read\nsize=1m\nramp_time=2\n", &[]).unwrap();
        assert!(measured.must_be_measured(&job).is_ok());
    }

    const JSON: &str = r#"fio: a warning
{"fio version": "fio-3.33", "jobs": [
 {"jobname": "a", "error": 0,
  "read": {"io_bytes": 8192, "total_ios": 2, "runtime": 1500, "lat_ns": {"mean": 150.0, "bins": {"100": 1, "200": 1}}},
  "write": {"io_bytes": 0, "total_ios": 0, "runtime": 0, "lat_ns": {"mean": 0.0}},
  "sync": {"total_ios": 1, "lat_ns": {"mean": 900.0, "bins": {"904": 1}}}},
 {"jobname": "a", "error": 0,
  "read": {"io_bytes": 4096, "total_ios": 1, "runtime": 2000, "lat_ns": {"mean": 300.0, "bins": {"300": 1}}},
  "write": {"io_bytes": 0, "total_ios": 0, "runtime": 0, "lat_ns": {"mean": 0.0}},
  "sync": {"total_ios": 0, "lat_ns": {"mean": 0.0}}}]}
fio: a line after it"#;

    #[test]
    fn clones_are_added_and_bins_become_histograms() {
        let told = FioReport::of(&json_of(JSON.as_bytes()).unwrap()).unwrap();
        assert_eq!((told.version.as_str(), told.seconds), ("fio-3.33", 2.0));
        let names: Vec<&str> = told.ops.iter().map(|op| op.name.as_str()).collect();
        assert_eq!(names, ["a-read", "a-fsync"]);
        let read = &told.ops[0];
        assert_eq!((read.ops, read.bytes, read.service.count()), (3, 12288, 3));
        assert_eq!(read.service.max(), Some(300));
        assert_eq!(told.means_ns, [("a-read".to_string(), 200.0), ("a-fsync".to_string(), 900.0)]);
        assert_eq!(told.own_milliseconds, [], "one job has the interval for itself");
        let two = JSON.replacen("\"jobname\": \"a\"", "\"jobname\": \"b\"", 1);
        let told = FioReport::of(&json_of(two.as_bytes()).unwrap()).unwrap();
        let own = [("b-read", 1500), ("b-fsync", 1500), ("a-read", 2000)];
        assert_eq!(told.own_milliseconds, own.map(|(name, ms)| (name.to_string(), ms)));
    }

    #[test]
    fn counters_of_a_warm_up_or_a_delay_are_no_figures() {
        for (more, counted) in [("", true), ("ramp_time=2\n", false), ("startdelay=500ms\n", false)] {
            let job = passed(&format!("[a]\nrw=read\nsize=1m\n[b]\nrw=read\nsize=1m\n{more}"), &[]).unwrap();
            for counter in [names::CPU_USER_SECONDS, names::MACHINE_CPU_SECONDS, "device_written_bytes"] {
                assert_eq!(is_counted(&job, counter), counted, "{more}: {counter}");
            }
            assert!(is_counted(&job, names::OTHERS_CPU_SECONDS) && is_counted(&job, names::COUNTED_SECONDS));
        }
        // the warm-up of the run, too
        let warm =
            passed("[a]\nrw=read\nsize=1m\n", &[("ramp_time".to_string(), "100ms".to_string())]).unwrap();
        assert!(!is_counted(&warm, names::CPU_USER_SECONDS));
    }

    #[test]
    fn errors_of_fio_are_told() {
        let failed = JSON.replacen("\"error\": 0", "\"error\": 28", 1);
        let error = FioReport::of(&json_of(failed.as_bytes()).unwrap()).unwrap_err().to_string();
        assert!(error.contains("fio's job a") && error.contains("No space"), "{error}");
        let error = json_of(b"fio: no such option").unwrap_err().to_string();
        assert!(error.contains("no JSON") && error.contains("no such option"), "{error}");
        assert!(FioReport::of(&Value::Null).is_err());
    }

    #[test]
    fn a_job_that_could_leave_its_directory_is_refused() {
        let set = [("job".to_string(), "[x]\nfilename=/dev/sda\n".to_string())];
        let error = Fio::new(&mut Parameters::new("fio", &set)).unwrap_err().to_string();
        assert!(error.contains("job:2: filename"), "{error}");
        assert!(Fio::new(&mut Parameters::new("fio", &[])).is_ok());
    }
}
