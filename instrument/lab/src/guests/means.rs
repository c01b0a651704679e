//! What a session has for its guests, and how long it waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::options::Event;
use guest::GuestError;
use journal::{Journal, PrivateTree};

use crate::runner::Progress;
use crate::site::Site;

/// How long a guest may take to boot: five seconds are usual, on a machine that does nothing else.
pub(super) const BOOT_PATIENCE: Duration = Duration::from_secs(180);
/// How often the user's wish is looked at.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// What a session has for its guests.
pub(crate) struct Means<'a> {
    pub(crate) site: &'a Site,
    pub(crate) journal: &'a Arc<Journal>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a mut dyn FnMut(Progress),
}

impl Means<'_> {
    pub(super) fn tell(&mut self, text: &str) {
        tell(self.progress, text);
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// A private directory that goes with its guest.
    pub(super) fn tree(&self) -> Result<PrivateTree, GuestError> {
        let work = &self.site.builder.work_dir;
        std::fs::create_dir_all(work).map_err(GuestError::at(work.as_str()))?;
        let work = work.canonicalize_utf8().map_err(GuestError::at(work.as_str()))?;
        Ok(PrivateTree::new(self.journal, &work)?)
    }
}

/// Tells the user a line.
pub(super) fn tell(progress: &mut dyn FnMut(Progress), text: &str) {
    progress(Progress::Engine(Event::Line { text: text.to_string() }));
}
