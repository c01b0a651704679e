//! Figures of stored runs that were wrong, and that later programs measure rightly. A run says by its version which
//! corrections it was measured with.

use crate::results::Run;
use crate::study::counts::CONTAINERS;
use crate::study::{Load, Study};

/// From this version on runs are measured with all corrections that are known here.
const CORRECTED: u32 = 2;

/// What of a run's figures is wrong, or means something else than it does now; nothing for a run that was measured with the
/// corrections. Without its trials a run does not show whether ranks have measured it.
pub fn affected(run: &Run) -> Vec<&'static str> {
    if run.version >= CORRECTED {
        return Vec::new();
    }
    let study = Study::from_stored(&run.study).ok();
    let loads: Vec<&Load> = study.iter().flat_map(|study| &study.workloads).map(|one| &one.load).collect();
    let is_paced = study.as_ref().is_some_and(|study| {
        let of_workload = study.workloads.iter().any(|workload| workload.rate.is_some());
        of_workload || study.study.rate.is_some() || !study.study.offered.is_empty()
    });
    let app =
        |fits: fn(&str) -> bool| loads.iter().any(|load| matches!(load, Load::App { name } if fits(name)));
    let is_sql = app(|name| name == "tpcc" || name.starts_with("oltp-"));
    let is_ycsb = app(|name| name.starts_with("ycsb"));
    let has_many_jobs = loads.iter().filter_map(|load| load.wml()).any(|text| sections(text) > 1);
    let is_on_lmdb = study.as_ref().is_some_and(|study| {
        let swept = study.parameters.get("engine").into_iter().flatten();
        let own = study.workloads.iter().flat_map(|workload| [&workload.set, &workload.parameters]);
        let own = own.filter_map(|sweeps| sweeps.get("engine")).flatten();
        swept.chain(own).any(|engine| engine == "lmdb")
    });
    let is_crowd = run.cells.iter().flat_map(|cell| &cell.parameters).any(|one| one.name == CONTAINERS)
        || run.trials.iter().any(|trial| !trial.extras.ranks.is_empty());
    let all = [
        (is_crowd, "the machine's and others' figures are the sum of what each container or rank saw"),
        (has_many_jobs, "all jobs of a job file shared one budget: counts and rates of each are wrong"),
        (is_on_lmdb, "reads of LMDB did not read values: their rates are too high"),
        (is_paced && !is_sql, "each waiting thread did one operation more at the end: rates are too high"),
        (is_sql || is_ycsb, "operations under way at the end are missing: the tail is too short"),
        (is_ycsb, "updates wrote whole records; they write one field now, unless `writeallfields` is set"),
    ];
    all.into_iter().filter(|(is_affected, _)| *is_affected).map(|(_, what)| what).collect()
}

/// Sections of a job file of fio beside the global ones; a script has none.
fn sections(text: &str) -> usize {
    let headings = text.lines().map(str::trim).filter(|line| line.starts_with('[') && line.ends_with(']'));
    headings.filter(|line| *line != "[global]").count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::VERSION;

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
            cells: crate::plan::cells(&study),
            published: Vec::new(),
            trials: Vec::new(),
        }
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
