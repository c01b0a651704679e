//! Which of how many copies this process is, as its launcher says.
//!
//! The innermost launcher counts: a batch script under Slurm has `SLURM_PROCID=0` although nothing was launched yet, and
//! mpirun within a Slurm job leaves Slurm's variables in the environment of its ranks.

use crate::error::ClusterError;

/// Most ranks of a run: rank 0 holds a connection to each, and a process may have some 20,000 open files.
pub const RANKS_MAX: u32 = 16_384;

/// This process among the copies that a launcher started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Its number, from 0.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    /// How many of them are on this host, when the launcher says so.
    pub on_this_host: Option<u32>,
    /// The launcher's name.
    pub launcher: &'static str,
    /// What tells this launch from others, when the launcher says so.
    pub job: Option<String>,
}

/// Variables of one launcher.
struct Names {
    launcher: &'static str,
    rank: &'static str,
    size: &'static str,
    local: &'static [&'static str],
    job: &'static [&'static str],
    /// Without this one it is not meant.
    needs: Option<&'static str>,
}

/// The innermost first.
const LAUNCHERS: [Names; 4] = [
    Names {
        launcher: "Open MPI",
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local: &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
        needs: None,
    },
    Names {
        launcher: "MPICH",
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local: &["MPI_LOCALNRANKS"],
        job: &["PMI_JOBID"],
        needs: None,
    },
    Names {
        launcher: "Slurm",
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local: &[],
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
        needs: Some("SLURM_STEP_ID"),
    },
    Names {
        launcher: "loadline",
        rank: "LOADLINE_RANK",
        size: "LOADLINE_SIZE",
        local: &["LOADLINE_LOCAL_SIZE"],
        job: &["LOADLINE_JOB"],
        needs: None,
    },
];

impl Launch {
    /// What the environment of this process says; `None` when no launcher started it, or only one copy.
    ///
    /// # Errors
    /// Variables that are no numbers or contradict each other.
    pub fn of_environment() -> Result<Option<Launch>, ClusterError> {
        Launch::of(|name| std::env::var(name).ok())
    }

    /// The same of any environment.
    ///
    /// # Errors
    /// As [`Launch::of_environment`].
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Launch>, ClusterError> {
        for names in &LAUNCHERS {
            let Some(rank) = variable(names.rank) else { continue };
            if names.needs.is_some_and(|name| variable(name).is_none()) {
                continue;
            }
            let size = variable(names.size).ok_or_else(|| {
                ClusterError::Launch(format!("{} is set, but {} is not", names.rank, names.size))
            })?;
            let number = |name: &str, text: &str| {
                let wrong = |_| ClusterError::Launch(format!("{name}={text}: a number was expected"));
                text.trim().parse::<u32>().map_err(wrong)
            };
            let (rank, size) = (number(names.rank, &rank)?, number(names.size, &size)?);
            if size == 0 || rank >= size || size > RANKS_MAX {
                return Err(ClusterError::Launch(format!(
                    "{}={rank}, {}={size}: a rank lies below the size, and at most {RANKS_MAX} are possible",
                    names.rank, names.size
                )));
            }
            if size == 1 {
                return Ok(None);
            }
            let on_this_host = names.local.iter().find_map(|name| variable(name)?.trim().parse().ok());
            let job: Vec<String> = names.job.iter().filter_map(|name| variable(name)).collect();
            let job = (!job.is_empty()).then(|| job.join("."));
            return Ok(Some(Launch { rank, size, on_this_host, launcher: names.launcher, job }));
        }
        Ok(None)
    }

    /// Whether all copies are on this host, so that nobody else needs to reach rank 0.
    pub fn is_one_host(&self) -> bool {
        self.on_this_host == Some(self.size)
    }
}

/// Ends this process by `signal` when the launcher dies: Open MPI's ranks live on otherwise when its mpirun is killed.
/// It goes by the thread that started this process (prctl(2), `PR_SET_PDEATHSIG`).
///
/// # Errors
/// The kernel refuses, or the launcher has died already.
pub fn end_with_launcher(signal: rustix::process::Signal) -> Result<(), ClusterError> {
    let failed = |why: &str| ClusterError::Launch(format!("ending with the launcher: {why}"));
    rustix::process::set_parent_process_death_signal(Some(signal))
        .map_err(|error| failed(&error.to_string()))?;
    // it may have died before the call; its orphans belong to process 1, or to a reaper that is none of the launchers
    match rustix::process::getppid() {
        Some(parent) if parent.as_raw_nonzero().get() != 1 => Ok(()),
        _ => Err(failed("it has died already")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<Option<Launch>, ClusterError> {
        Launch::of(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn every_launcher_is_known() {
        let ompi = of(&[
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "8"),
            ("PMIX_NAMESPACE", "77"),
            ("SLURM_PROCID", "0"),
        ]);
        let ompi = ompi.unwrap().unwrap();
        assert_eq!((ompi.rank, ompi.size, ompi.launcher, ompi.is_one_host()), (3, 8, "Open MPI", true));
        let mpich = of(&[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "1")]).unwrap().unwrap();
        assert_eq!((mpich.launcher, mpich.is_one_host(), mpich.job), ("MPICH", false, None));
        let srun = of(&[
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_JOB_ID", "12"),
            ("SLURM_STEP_ID", "0"),
        ]);
        let srun = srun.unwrap().unwrap();
        assert_eq!((srun.rank, srun.job.as_deref()), (1, Some("12.0")));
    }

    #[test]
    fn a_batch_script_is_no_rank() {
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_JOB_ID", "12")]).unwrap(), None);
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]).unwrap(), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for set in [
            &[("PMI_RANK", "2"), ("PMI_SIZE", "2")][..],
            &[("PMI_RANK", "x"), ("PMI_SIZE", "2")],
            &[("PMI_RANK", "0")],
            &[("PMI_RANK", "0"), ("PMI_SIZE", "0")],
        ] {
            let error = of(set).unwrap_err().to_string();
            assert!(error.contains("PMI_"), "{error}");
        }
    }
}
