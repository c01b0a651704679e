//! Keeps the inodes in memory within bounds. The kernel forgets what it knows only when its own memory is short,
//! and until then each of its inodes has one here: so it is asked to forget some.

use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fusewire::{Notifier, WorkerThrottle};

use crate::fs::Fs;

/// How often the inodes are counted.
const INTERVAL: Duration = Duration::from_millis(50);
/// Files whose names the kernel is asked to drop before the inodes are counted again.
const ROUND: usize = 2048;

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

/// The thread that asks.
pub(crate) struct MemoryPruner {
    stop: Arc<Stop>,
    duty: Option<Arc<WorkerThrottle>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryPruner {
    /// Starts asking whenever there are more than `most` inodes in memory. A thread of its own does it: the kernel
    /// may hold the request back until others have been answered.
    pub fn start(
        fs: Arc<Fs>,
        notifier: Notifier,
        most: usize,
        duty: Option<Arc<WorkerThrottle>>,
    ) -> MemoryPruner {
        let stop = Arc::<Stop>::default();
        let (stopped, looked) = (stop.clone(), duty.clone());
        let run = move || prune(&fs, &notifier, most, looked.as_deref(), &stopped);
        // Without a thread memory is not bounded, but nothing fails.
        let thread = std::thread::Builder::new().name("betrfs-prune".into()).spawn(run).ok();
        if thread.is_none()
            && let Some(duty) = &duty
        {
            // Nobody would call back those who rest.
            duty.end();
        }
        MemoryPruner { stop, duty, thread }
    }
}

/// Whether the threads' rest is over.
fn look(duty: Option<&WorkerThrottle>) {
    if let Some(duty) = duty {
        duty.look();
    }
}

/// Asks the kernel to drop the names of `files`. What it does not know, or somebody uses, stays.
fn drop_names(fs: &Fs, notifier: &Notifier, files: &[u64]) {
    // All at once, which leaves directories unlocked; an older kernel takes one name at a time.
    if files.is_empty() || notifier.prune(files).is_ok() {
        return;
    }
    for (parent, name) in files.iter().flat_map(|file| fs.names_of(*file)) {
        let _ = notifier.invalidate_entry(parent, &name);
    }
}

fn prune(fs: &Fs, notifier: &Notifier, most: usize, duty: Option<&WorkerThrottle>, stop: &Stop) {
    let mut turn = 0;
    loop {
        let asked = stop.asked.lock().unwrap_or_else(|e| e.into_inner());
        let asked = stop.changed.wait_timeout_while(asked, INTERVAL, |asked| !*asked);
        if asked.is_ok_and(|(asked, _)| *asked) {
            return;
        }
        look(duty);
        let mut fruitless = 0;
        // A little below, so that not every new inode wakes the work.
        while fs.inodes_in_memory() > most && fruitless < 64 {
            let before = fs.inodes_in_memory();
            let cold = fs.cold(turn, ROUND);
            turn += 1;
            drop_names(fs, notifier, &cold);
            // Files that somebody holds open stay, and directories: who has many of these must not keep this busy.
            fruitless = if fs.inodes_in_memory() < before { 0 } else { fruitless + 1 };
            look(duty);
            if *stop.asked.lock().unwrap_or_else(|e| e.into_inner()) {
                return;
            }
        }
    }
}

impl Drop for MemoryPruner {
    fn drop(&mut self) {
        *self.stop.asked.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.stop.changed.notify_all();
        if let Some(duty) = &self.duty {
            duty.end();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
