//! Figures of stored runs that were wrong, and that later programs measure rightly. A run says by its version which
//! corrections it was measured with.

use study::counts::CONTAINERS;
use study::results::Run;
use study::{Load, Study, Workload};

/// Patterns of db_bench.
const PATTERNS: [&str; 9] = [
    "fillseq",
    "fillrandom",
    "overwrite",
    "readrandom",
    "multireadrandom",
    "readseq",
    "readreverse",
    "readwhilewriting",
    "readwhilescanning",
];

/// Patterns that do several operations by one call, or have a helper beside them.
const BATCHED: [&str; 5] =
    ["multireadrandom", "readseq", "readreverse", "readwhilewriting", "readwhilescanning"];

/// What of a run's figures is wrong, or means something else than it does now; nothing for a run that was measured with the
/// corrections. Without its trials a run does not show whether ranks have measured it.
pub fn affected(run: &Run) -> Vec<&'static str> {
    let study = Study::from_stored(&run.study).ok();
    let any = |fits: &dyn Fn(&Study, &Workload) -> bool| {
        study.as_ref().is_some_and(|study| study.workloads.iter().any(|one| fits(study, one)))
    };
    let is_served = |one: &Workload| matches!(&one.load, Load::App { name } if is_database(name));
    let counts_warmup = any(&|study, one| is_served(one) && is_warm(study, one));
    let loads: Vec<&Load> = study.iter().flat_map(|study| &study.workloads).map(|one| &one.load).collect();
    let is_paced = study.as_ref().is_some_and(|study| {
        let of_workload = study.workloads.iter().any(|workload| workload.rate.is_some());
        of_workload || study.study.rate.is_some() || !study.study.offered.is_empty()
    });
    let app =
        |fits: fn(&str) -> bool| loads.iter().any(|load| matches!(load, Load::App { name } if fits(name)));
    let is_sql = app(is_sql);
    let is_ycsb = app(|name| name.starts_with("ycsb"));
    let has_many_jobs = loads.iter().filter_map(|load| load.wml()).any(|text| sections(text) > 1);
    let is_on_lmdb = study.as_ref().is_some_and(|study| {
        let swept = study.parameters.get("engine").into_iter().flatten();
        let own = study.workloads.iter().flat_map(|workload| [&workload.set, &workload.parameters]);
        let own = own.filter_map(|sweeps| sweeps.get("engine")).flatten();
        swept.chain(own).any(|engine| engine == "lmdb")
    });
    let delayed = |by_fio: bool| any(&|study, one| has_delay(one) && is_by(study, one, by_fio));
    let by_fio = |fits: fn(&str) -> bool| {
        any(&|study, one| is_by(study, one, true) && one.load.wml().is_some_and(fits))
    };
    let fio_waits =
        |study: &Study, one: &Workload| is_by(study, one, true) && (is_warm(study, one) || has_delay(one));
    let is_sliced = study.as_ref().is_some_and(|study| study.study.interleave.is_some());
    let text = |fits: fn(&str) -> bool| loads.iter().filter_map(|load| load.wml()).any(fits);
    let took_from_number = any(&|study, one| is_warm(study, one) && is_of_a_number(study, one));
    let is_crowd = run.cells.iter().flat_map(|cell| &cell.parameters).any(|one| one.name == CONTAINERS)
        || run.trials.iter().any(|trial| !trial.extras.ranks.is_empty());
    // the version since which each is measured rightly
    let all = [
        (2, is_crowd, "the machine's and others' figures are the sum of what each container or rank saw"),
        (2, has_many_jobs, "all jobs of a job file shared one budget: counts and rates of each are wrong"),
        (3, delayed(false), "a job's startdelay was part of its interval: its rates are too low"),
        (
            3,
            delayed(true),
            "all of fio's jobs were divided by the longest one's time, whatever their startdelay: the total is too high",
        ),
        (
            3,
            text(verifies),
            "writes and syncs of a job that verifies were divided by the reading back, too: their rates are too low",
        ),
        (
            3,
            is_paced && text(draws_iters),
            "drawn `iters` counted as one: more was offered than the rate says",
        ),
        (
            3,
            is_paced && text(|text| sections(text) > 0),
            "what a job's operations waited for once they were due is missing: the tail is too short",
        ),
        (3, took_from_number, "the warm-up took of the number of operations: rates are wrong"),
        (2, is_on_lmdb, "reads of LMDB did not read values: their rates are too high"),
        (2, is_paced && !is_sql, "each waiting thread did one operation more at the end: rates are too high"),
        (2, is_sql || is_ycsb, "operations under way at the end are missing: the tail is too short"),
        (2, is_ycsb, "updates wrote whole records; they write one field now, unless `writeallfields` is set"),
        (
            3,
            counts_warmup,
            "counters of servers, processors and devices include the warm-up: they are too high",
        ),
        (
            3,
            any(&fio_waits),
            "fio's counters of processors and devices include `startdelay` and `ramp_time`: they are too high",
        ),
        (
            3,
            is_sliced && text(is_by_the_clock),
            "a load that is due by the clock worked off its backlog after each pause",
        ),
        (
            4,
            by_fio(|text| has(text, "group_reporting")),
            "of a group with `group_reporting` fio tells the longest job's time: totals and rates are wrong",
        ),
        (
            4,
            any(&|study, one| fio_waits(study, one) && one.load.wml().is_some_and(|text| sections(text) > 1)),
            "fio's jobs that begin or warm up at different times: the interval was too long, the total is too low",
        ),
        (
            4,
            is_paced && any(&is_warm),
            "the lateness of operations (`due_time_lateness`) includes the warm-up",
        ),
        (
            4,
            is_crowd && text(verifies),
            "a container or rank that read nothing back is missing from its operations' time",
        ),
        (
            5,
            is_paced && app(|name| BATCHED.contains(&name)),
            "the rate counted calls instead of operations, or what ran beside the load, too: it was another one",
        ),
        (
            5,
            app(|name| name == "readwhilescanning"),
            "the total and its latencies are mostly those of the scan beside it",
        ),
        (
            5,
            app(|name| name == "tokubench"),
            "where files were few for the threads, fewer were made than asked for, by fewer threads",
        ),
        (
            5,
            app(|name| name == "io500" || name == "ior"),
            "the time of a stonewall (ior's -D) began before the files were opened: too little was moved where that took long",
        ),
        (
            5,
            app(|name| name == "ycsb"),
            "reads of workload D of records that were not there yet counted as reads",
        ),
    ];
    let is_wrong = |(corrected, is_affected, _): &(u32, bool, &str)| run.version < *corrected && *is_affected;
    all.into_iter().filter(is_wrong).map(|(.., what)| what).collect()
}

/// Whether an application is a load on a SQL server.
fn is_sql(name: &str) -> bool {
    name == "tpcc" || name.starts_with("oltp-")
}

/// Whether it is one on a database of any kind.
fn is_database(name: &str) -> bool {
    is_sql(name) || name.starts_with("ycsb") || PATTERNS.contains(&name)
}

/// Variables of a workload, and of all.
fn variables<'a>(study: &'a Study, of: &'a Workload) -> impl Iterator<Item = (&'a String, &'a Vec<String>)> {
    study.parameters.iter().chain(of.set.iter()).chain(of.parameters.iter())
}

/// Whether a text, job file or script, has a line that begins with a word.
fn has(text: &str, word: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with(word))
}

/// Whether a job begins later than others, or than the run.
fn has_delay(of: &Workload) -> bool {
    of.load.wml().is_some_and(|text| has(text, "startdelay"))
}

/// Whether fio itself runs a job file (it tells each job's own time), or loadline.
fn is_by(study: &Study, of: &Workload, fio: bool) -> bool {
    let with = |(name, values)| (name == "with").then_some(values);
    let mut all = variables(study, of).filter_map(with).flatten().peekable();
    if all.peek().is_none() { !fio } else { all.any(|with| (with == "fio") == fio) }
}

/// Whether its operations are due at times of their own.
fn is_by_the_clock(text: &str) -> bool {
    ["eventgen", "rate=", "rate_iops", "startdelay"].iter().any(|word| has(text, word))
}

/// Whether a job reads back what it has written.
fn verifies(text: &str) -> bool {
    has(text, "verify=")
}

/// Whether a script draws how often its operations are repeated.
fn draws_iters(text: &str) -> bool {
    text.contains("iters=$")
}

/// Whether a load has a warm-up.
fn is_warm(study: &Study, of: &Workload) -> bool {
    let told = of.warmup.or(study.study.warmup).map(|seconds| seconds.0 > 0.0);
    told.unwrap_or_else(|| {
        of.load.wml().is_some_and(|text| has(text, "ramp_time") || in_run(text, "warmup="))
    })
}

/// Whether a number of operations ends a load.
fn is_of_a_number(study: &Study, of: &Workload) -> bool {
    let is_number = |(name, values): (&String, &Vec<String>)| {
        ["operationcount", "reads"].contains(&name.as_str()) && values.iter().any(|value| value != "0")
    };
    of.ops.or(study.study.ops).is_some()
        || of.load.wml().is_some_and(|text| in_run(text, "ops="))
        || variables(study, of).any(is_number)
}

/// Whether the command that runs a script has a parameter.
fn in_run(text: &str, parameter: &str) -> bool {
    let mut runs = text
        .lines()
        .map(|line| line.split_whitespace())
        .filter_map(|mut words| (words.next() == Some("run")).then_some(words));
    runs.any(|mut words| words.any(|word| word.starts_with(parameter)))
}

/// Sections of a job file of fio beside the global ones; a script has none.
fn sections(text: &str) -> usize {
    let headings = text.lines().map(str::trim).filter(|line| line.starts_with('[') && line.ends_with(']'));
    headings.filter(|line| *line != "[global]").count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::results::VERSION;

    #[test]
    fn counters_of_databases_included_the_warm_up_until_version_2() {
        let at =
            |version, text: &str| affected(&Run { version, ..stored(&format!("stacks = ['ext4']\n{text}")) });
        let warm = "[study]\nwarmup = 60\n[[workload]]\napp =";
        for app in ["tpcc", "oltp-insert", "ycsb-b", "readrandom"] {
            let found = at(2, &format!("{warm} '{app}'"));
            assert!(matches!(found[..], [what] if what.contains("include the warm-up")), "{app}: {found:?}");
            assert!(at(2, &format!("[[workload]]\napp = '{app}'")).is_empty(), "{app} without a warm-up");
            assert!(at(VERSION, &format!("{warm} '{app}'")).is_empty(), "{app}");
        }
        assert!(at(2, &format!("{warm} 'compile'")).is_empty());
    }

    /// A run of a study, as version 1 stored it.
    fn stored(study: &str) -> Run {
        let study = Study::from_stored(study).unwrap();
        Run {
            version: 1,
            id: "a".into(),
            title: String::new(),
            started: jiff::Timestamp::UNIX_EPOCH,
            finished: None,
            seed: 1,
            command_line: Vec::new(),
            loadline: "0.1.0".into(),
            study: study.to_toml(),
            study_hash: study.hash(),
            planned_trials: 1,
            shard: None,
            parts: Vec::new(),
            cells: study::plan::cells(&study),
            published: Vec::new(),
            trials: Vec::new(),
        }
    }

    /// A doubt goes with the version that mended its cause, not with the first that mended anything.
    #[test]
    fn each_doubt_ends_with_its_own_correction() {
        let told = |version, text: &str| {
            affected(&Run { version, ..stored(&format!("stacks = ['ext4']\n{text}")) }).join("; ")
        };
        let iters = "[study]\nrate = 9.0\n[[workload]]\nname = 'w'\ntext = 'flowop read iters=$n'";
        assert!(told(2, iters).contains("`iters`") && !told(2, iters).contains("waiting thread"));
        assert!(told(1, iters).contains("waiting thread"));
        assert_eq!(told(3, iters), "");
        let job = |with: &str| {
            let text = "[g]\ngroup_reporting\nstartdelay=1\nstonewall\nramp_time=2";
            format!("[[workload]]\nname = 'w'\ntext = '''{text}'''\nparameters = {{ with = [{with}] }}")
        };
        let both = told(2, &job("'loadline', 'fio'"));
        for part in ["a job's startdelay", "longest one's", "fio's counters", "`group_reporting`"] {
            assert!(both.contains(part), "{part}: {both}");
        }
        assert!(!told(2, &job("'fio'")).contains("a job's startdelay"));
        assert!(!told(2, &job("'loadline'")).contains("fio"));
        let fixed = told(3, &job("'fio'"));
        assert!(fixed.contains("group_reporting") && !fixed.contains("counters"));
        // jobs of one file that begin at different times, by what the file says or by the study's warm-up
        let jobs = |first: &str, with: &str| {
            let text = format!("[a]\nrw=read\n[b]\n{with}rw=read");
            format!("[[workload]]\nname = 'w'\ntext = '''{text}'''\nparameters = {{ with = ['fio'] }}{first}")
        };
        let differs = |text: &str| told(3, text).contains("at different times");
        assert!(differs(&jobs("", "startdelay=1\n")) && differs(&jobs("", "ramp_time=1\n")));
        assert!(differs(&jobs("\nwarmup = 2.0", "")) && !differs(&jobs("", "")));
        assert!(!differs(&job("'fio'")), "one job");
        let paced = |with: &str| format!("[study]\nrate = 9.0\n{with}[[workload]]\nname = 'w'\ntext = 'run'");
        assert!(told(3, &paced("warmup = 1.0\n")).contains("due_time_lateness"));
        assert_eq!(told(3, &paced("")), "");
        assert_eq!(told(VERSION, &job("'fio'")), "");
        let app = |rate: &str, name: &str| format!("[study]\nseed = 1\n{rate}[[workload]]\napp = '{name}'");
        assert!(told(4, &app("rate = 9.0\n", "readseq")).contains("calls instead"));
        assert!(told(4, &app("", "readwhilescanning")).contains("the scan"));
        assert!(
            told(4, &app("", "tokubench")).contains("fewer")
                && told(4, &app("", "io500")).contains("stonewall")
        );
        assert_eq!(told(4, &app("", "readseq")) + &told(5, &app("rate = 9.0\n", "readseq")), "");
        let sliced = "[study]\ninterleave = 0.02\n[[workload]]\nname = 'w'\ntext = 'eventgen rate=10'";
        assert!(told(2, sliced).contains("backlog"));
    }

    #[test]
    fn runs_of_before_are_affected_where_their_figures_were_wrong() {
        for (study, told) in [
            ("[study]\ncontainers = [4]\n[[workload]]\nname = 'w'\ntext = 'run'", Some("each container")),
            (
                "[[workload]]\nname = 'w'\ntext = '''[global]\nbs=4k\n[a]\nrw=read\n[b]\nrw=write'''",
                Some("one budget"),
            ),
            ("[[workload]]\nname = 'w'\ntext = '''[global]\nbs=4k\n[a]\nrw=read'''", None),
            ("[[workload]]\napp = 'readrandom'\nset = { engine = 'lmdb' }", Some("LMDB")),
            ("[parameters]\nengine = ['lmdb', 'sqlite']\n[[workload]]\napp = 'readrandom'", Some("LMDB")),
            ("[study]\nrate = 10.0\n[[workload]]\nname = 'w'\ntext = 'run'", Some("waiting thread")),
            ("[[workload]]\napp = 'tpcc'", Some("under way")),
            ("[[workload]]\napp = 'ycsb-a'", Some("one field")),
            ("[[workload]]\nname = 'w'\ntext = '''[a]\nrw=read\nstartdelay=2'''", Some("startdelay")),
            (
                "[[workload]]\nname = 'w'\ntext = '''[a]\nstartdelay=2'''\nset = { with = 'fio' }",
                Some("the longest one's"),
            ),
            ("[[workload]]\nname = 'w'\ntext = '''[a]\nrw=write\nverify=md5'''", Some("too low")),
            ("[study]\nrate = 9.0\n[[workload]]\nname = 'w'\ntext = 'flowop read iters=$n'", Some("`iters`")),
            (
                "[study]\noffered = [9.0]\n[[workload]]\nname = 'w'\ntext = '''[a]\nrw=read'''",
                Some("once they were due"),
            ),
            (
                "[study]\nwarmup = 2\n[[workload]]\nname = 'w'\nops = 100\ntext = 'run'",
                Some("number of operations"),
            ),
            (
                "[study]\nwarmup = 2\n[[workload]]\napp = 'readseq'\nset = { reads = 9 }",
                Some("number of operations"),
            ),
            ("[[workload]]\nname = 'w'\ntext = 'run 9 ops=7 warmup=1'", Some("number of operations")),
            ("[study]\nops = 9\n[[workload]]\nname = 'w'\ntext = 'run'", None),
            ("[study]\nwarmup = 2\n[[workload]]\nname = 'w'\ntext = 'run'", None),
            ("[[workload]]\nname = 'w'\ntext = 'run'", None),
        ] {
            let mut run = stored(&format!("stacks = ['ext4']\n{study}"));
            let found = affected(&run);
            match told {
                Some(told) => assert!(found.iter().any(|what| what.contains(told)), "{study}: {found:?}"),
                None => assert!(found.is_empty(), "{study}: {found:?}"),
            }
            run.version = VERSION;
            assert!(affected(&run).is_empty(), "{study}");
        }
    }
}
