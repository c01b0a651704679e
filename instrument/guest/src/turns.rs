//! Which of QEMU's threads runs when, in a deterministic guest: never two at a time, and the main loop first.
//!
//! When the guest has nothing to do, its processor's thread tells the main loop, which has time jump to the next timer
//! (`icount_start_warp_timer` of QEMU 7.2). It looks at each of its rounds whether the processor is halted, and there is
//! one round more than are asked for, since its own jump wakes it again. Where that round comes late, it may meet the processor just after the
//! next `hlt`, before the instructions since it last looked at the clock were counted: the jump is too long by these, and a
//! trial ends some 50 ns later or sooner than another one. Seen in one of 20 to 50 trials beside others.
//!
//! So all threads share one processor, and the main loop is before the others: each of its rounds is over before the guest
//! executes its next instruction.

use host::class::{self, Class};
use host::process::Stat;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::json;

use crate::GuestError;
use crate::monitor::Monitor;

/// Field of /proc/PID/stat that tells on which processor a thread ran last (proc_pid_stat(5)).
const PROCESSOR: usize = 39;

/// Has the guest that the monitor is of, and that waits so far, go on in this order. Where a thread of QEMU may not go before
/// the others, the guest's processor is put behind all of this machine: it is as exact, and slow beside other work.
///
/// # Errors
/// The kernel refuses both, or QEMU does not answer.
pub(crate) fn begin(monitor: &mut Monitor<'_>) -> Result<(), GuestError> {
    let processors = monitor.command("query-cpus-fast", &json!({}))?;
    let processor = processors[0]["thread-id"].as_i64().and_then(|number| i32::try_from(number).ok());
    let processor =
        processor.ok_or_else(|| GuestError::Damaged(format!("QEMU's processors: {processors}")))?;
    let main = monitor.pid();
    share_one_processor(main)?;
    class::set(main, Class::RealTimeAlone)
        .or_else(|_| class::set(processor, Class::Idle))
        .map_err(GuestError::at("the order of QEMU's threads"))?;
    monitor.command("cont", &json!({})).map(drop)
}

/// Puts all threads of a process on the processor that its first one is on.
fn share_one_processor(process: i32) -> Result<(), GuestError> {
    let folder = format!("/proc/{process}/task");
    let stat = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&stat).map_err(GuestError::at(stat.as_str()))?;
    let number = Stat::parse(&text).and_then(|stat| stat.field(PROCESSOR));
    let mut one = CpuSet::new();
    one.set(number.ok_or_else(|| GuestError::Damaged(format!("{stat}: {text}")))?);
    for entry in std::fs::read_dir(&folder).map_err(GuestError::at(folder.as_str()))?.flatten() {
        let thread = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        match sched_setaffinity(thread, &one) {
            // it has ended meanwhile
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(GuestError::at("the processor of QEMU's threads")(error.into())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_of_a_process_are_put_on_one_processor() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let number = i32::try_from(child.id()).expect("a number");
        share_one_processor(number).expect("it lives");
        let allowed = rustix::thread::sched_getaffinity(Pid::from_raw(number)).expect("it lives");
        child.kill().expect("it lives");
        child.wait().expect("it lived");
        assert_eq!(allowed.count(), 1);
        assert!(share_one_processor(number).is_err(), "it is gone");
    }
}
