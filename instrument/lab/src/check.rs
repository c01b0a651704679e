//! Resolves the loads of a study before its first trial, so that a mistake shows then.

use std::ops::Deref;

use study::plan;
use study::results::Cell;
use study::{Study, StudyError};

use crate::interleave;
use crate::load::{self, ResolvedWorkload};

/// The loads of a study: one for each workload with each combination of its parameters.
#[derive(Debug)]
pub struct Loads(Vec<ResolvedWorkload>);

/// Resolves every workload of `study` with every combination of its parameters, for this machine. Sizes that depend on
/// `$free` are worked out for `machine.free_bytes`, since the target does not exist yet.
///
/// # Errors
/// As [`load::prepare`]; a load that is to go in slices and cannot.
pub fn workloads(study: &Study, machine: wml::Machine) -> Result<Loads, StudyError> {
    let mut loads = Loads(Vec::new());
    for cell in plan::cells(study) {
        if loads.of(&cell).is_some() {
            continue;
        }
        let Some(workload) = plan::workload_of(study, &cell) else { continue };
        let load = load::prepare(workload, &cell.parameters, &study.study, machine)?;
        on_this_machine(study, &load)?;
        if study.study.turns.as_ref().is_some_and(|turns| turns.slices.is_some()) {
            interleave::slices(study, &load).map_err(|why| whole_trials(&load, why))?;
        }
        loads.0.push(load);
    }
    Ok(loads)
}

/// Refuses guests for a load that reads a file of this machine.
fn on_this_machine(study: &Study, load: &ResolvedWorkload) -> Result<(), StudyError> {
    let Some(app) = load.app().filter(|app| app.reads_host_files()) else { return Ok(()) };
    let Some(stack) = plan::stacks(study).into_iter().find(|stack| stack.guest().is_some()) else {
        return Ok(());
    };
    let workload = load.workload.clone();
    let report = format!(
        "workload {workload}: the load `{}` reads a file of this machine, which the guest of {} does not have; leave out the guest",
        app.name(),
        stack.label()
    );
    Err(StudyError::Workload { workload, report })
}

/// A load does not go in slices, and why.
fn whole_trials(load: &ResolvedWorkload, why: &str) -> StudyError {
    let workload = load.workload.clone();
    let report = format!(
        "workload {workload}: it does not go in slices, since {why}; leave out --slices: whole trials do"
    );
    StudyError::Workload { workload, report }
}

impl Loads {
    /// The load of a cell.
    pub fn of(&self, cell: &Cell) -> Option<&ResolvedWorkload> {
        self.0.iter().find(|load| load.workload == cell.workload && load.parameters == cell.parameters)
    }
}

impl Deref for Loads {
    type Target = [ResolvedWorkload];

    fn deref(&self) -> &[ResolvedWorkload] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICES: &str = "\n[study.turns]\nbudget = 60.0\ntarget = 0.01\nslices = 0.1";

    /// What is said of a text's load; `settings` are the study's.
    fn checked(text: &str, settings: &str) -> Result<(), String> {
        let study = format!(
            "stacks = ['ext4', 'xfs']\n[study]\n{settings}\n[[workload]]\nname = 'w'\ntext = \"\"\"{text}\"\"\""
        );
        let study = Study::from_stored(&study).unwrap();
        workloads(&study, load::machine(None, 1 << 30)).map(drop).map_err(|error| error.to_string())
    }

    fn job(rw: &str, more: &str) -> String {
        format!("[a]\nrw={rw}\nsize=1m\nbs=4k\n{more}\n")
    }

    #[test]
    fn what_is_read_back_has_no_rate() {
        let verified = job("randwrite", "verify=md5");
        let rated = ["rate = 100.0", "offered = [\"max\", \"50%\"]"];
        for settings in rated {
            let told = checked(&verified, settings).unwrap_err();
            assert!(
                told.contains("no rate can be offered; leave out the rate, or set do_verify=0"),
                "{told}"
            );
            for text in [job("randwrite", "verify=md5\ndo_verify=0"), job("randwrite", "")] {
                assert_eq!(checked(&text, settings), Ok(()), "{text}");
            }
        }
        assert_eq!(checked(&verified, ""), Ok(()), "as fast as it goes");
    }

    #[test]
    fn what_is_due_by_the_clock_does_not_go_in_slices() {
        let script = |events: &str, limiter: &str| {
            format!(
                "{events}define file name=f,path=/x,size=1m,prealloc\ndefine process name=p {{ thread name=t {{ \
                 flowop read name=r,filename=f,iosize=4k,fd=1\nflowop {limiter}\n }} }}\nrun 60\n"
            )
        };
        let job = |more: &str| job("randread", &format!("time_based\nruntime=9\n{more}"));
        let limited = script("eventgen rate=100\n", "eventlimit name=l");
        for (text, more, why) in [
            (limited.as_str(), "", "`eventgen`"),
            (&script("eventgen rate=100\n", "iopslimit name=l,target=r"), "", "`eventgen`"),
            (&script("eventgen rate=100\n", "bwlimit name=l"), "", "`eventgen`"),
            (&job("rate=1m"), "", "`rate_iops`"),
            (&job("rate_iops=100"), "", "`rate_iops`"),
            (&job("startdelay=2"), "", "`startdelay`"),
            (&job(""), "rate = 100.0", "at a rate"),
        ] {
            let told = checked(text, &format!("{more}{SLICES}")).unwrap_err();
            assert!(told.contains("does not go in slices, since") && told.contains(why), "{text}: {told}");
            assert!(told.contains("leave out --slices"), "{told}");
        }
        for text in [
            // limiters without events let everything pass
            script("", "eventlimit name=l"),
            script("eventgen rate=100\n", "delay name=d,value=1"),
            job("thinktime=100"),
        ] {
            assert_eq!(checked(&text, SLICES), Ok(()), "{text}");
        }
    }
}
