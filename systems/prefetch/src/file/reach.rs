//! How far ahead of a file's streams one may go, by how long the ones before were.

/// Ended runs whose lengths are remembered.
const RUNS: usize = 8;

/// What ended streams taught. Zeroes are nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reach {
    runs: [u64; RUNS],
    runs_len: u32,
}

impl Reach {
    /// A run ended after so many bytes.
    pub(super) fn note_run(&mut self, bytes: u64) {
        if let Some(run) = self.runs.get_mut(self.runs_len as usize % RUNS) {
            *run = bytes;
        }
        self.runs_len = self.runs_len.wrapping_add(1);
    }

    /// The length that three quarters of the last runs did not exceed, bytes; unlimited before the first ended.
    pub(super) fn usual_run(&self) -> u64 {
        let len = (self.runs_len as usize).min(RUNS);
        if len == 0 {
            return u64::MAX;
        }
        let mut sorted = self.runs;
        if let Some(known) = sorted.get_mut(..len) {
            known.sort_unstable();
        }
        sorted.get(len * 3 / 4).copied().unwrap_or(u64::MAX)
    }
}
