//! Work whose amount is known, and loads that compete.

use std::ffi::OsStr;
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};

/// Adds so many times, each addition after the one before.
pub fn spin(additions: u64) {
    let mut sum = 0_u64;
    for _ in 0..additions {
        sum = black_box(sum + 1);
    }
    black_box(sum);
}

/// How long a spin is to take.
const SPIN_SECONDS: f64 = 0.02;
/// Spins of each side that say what they cost.
const SPINS: usize = 15;

/// Additions of two commands, one of which has more to do.
#[derive(Debug, Clone, Copy)]
pub struct Spins {
    /// Additions of the one.
    pub work: u64,
    /// Additions of the other.
    pub more: u64,
    /// Processor time of the other by that of the one, as measured: medians, in turns.
    pub cpu_ratio: f64,
}

impl Spins {
    /// A spin of about a fiftieth of a second, and one that has `share` more to do.
    pub fn calibrated(share: f64) -> Spins {
        const TRIED: u64 = 2_000_000;
        let tried = (0..SPINS).map(|_| cpu_seconds(TRIED)).fold(f64::INFINITY, f64::min);
        let work = (TRIED as f64 * SPIN_SECONDS / tried.max(1e-6)) as u64;
        let more = (work as f64 * (1.0 + share)) as u64;
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for _ in 0..SPINS {
            one.push(cpu_seconds(work));
            other.push(cpu_seconds(more));
        }
        let cpu_ratio = crate::pairs::median(&other) / crate::pairs::median(&one);
        Spins { work, more, cpu_ratio }
    }
}

/// Processor time of this thread for so many additions.
fn cpu_seconds(additions: u64) -> f64 {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
    };
    let begin = now();
    spin(additions);
    now() - begin
}

/// Programs that want processors, until they are dropped. Each has a process group of its own, which ends as a whole.
pub struct Competing(Vec<Child>);

/// Starts `number` processes that want all of a processor each.
///
/// # Errors
/// They cannot be started.
pub fn compete(number: usize) -> anyhow::Result<Competing> {
    let this = std::env::current_exe()?;
    let mut competing = Competing(Vec::new());
    for _ in 0..number {
        competing.start(Command::new(&this).args(["spin", &u64::MAX.to_string()]))?;
    }
    Ok(competing)
}

/// Runs a line for the shell over and over; what it says is thrown away.
///
/// # Errors
/// The shell cannot be started.
pub fn beside(line: &OsStr) -> anyhow::Result<Competing> {
    let mut competing = Competing(Vec::new());
    competing.start(Command::new("sh").args(["-c", "while :; do eval \"$1\"; done", "beside"]).arg(line))?;
    Ok(competing)
}

impl Competing {
    fn start(&mut self, command: &mut Command) -> anyhow::Result<()> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.0.push(quiet.process_group(0).spawn()?);
        Ok(())
    }
}

impl Drop for Competing {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}
