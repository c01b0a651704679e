//! Which process extends a run: boot, process number and start time, so that a number used again is not
//! mistaken.

use host::{Host, ProcessId};

/// This process, as text for the store.
pub fn this_process() -> String {
    let pid = std::process::id();
    format!("{}:{pid}:{}", boot_id(), start_time(pid).unwrap_or_default())
}

/// The process number of an owner that lives and is not this process.
pub fn other_living_process(owner: &str) -> Option<u32> {
    living_process(owner).filter(|pid| *pid != std::process::id())
}

/// Whether an owner lives, this process or another.
pub fn is_alive(owner: &str) -> bool {
    living_process(owner).is_some()
}

fn living_process(owner: &str) -> Option<u32> {
    let mut parts = owner.split(':');
    let (boot, pid, start) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    let lives = boot == boot_id() && start_time(pid).is_some_and(|time| time == start);
    lives.then_some(pid)
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_string()
}

fn start_time(pid: u32) -> Option<String> {
    ProcessId::read(&Host::system(), pid).map(|process| process.start_ticks.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_does_not_stand_in_its_own_way() {
        assert_eq!(other_living_process(&this_process()), None);
        assert!(is_alive(&this_process()));
    }

    #[test]
    fn a_living_process_is_told_from_a_dead_one() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let owner = format!("{}:{}:{}", boot_id(), child.id(), start_time(child.id()).unwrap());
        let lives = other_living_process(&owner);
        let earlier_boot = other_living_process(&format!("x{owner}"));
        let other_start = other_living_process(&format!("{owner}1"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((lives, earlier_boot, other_start), (Some(child.id()), None, None));
        assert_eq!(other_living_process(&owner), None);
        assert_eq!(other_living_process("nonsense"), None);
    }
}
