//! What a session has for its guests, and how long it waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::options::Event;
use guest::GuestError;
use journal::{Journal, PrivateTree};

use crate::protocol::Message;
use crate::runner::Progress;
use crate::stack_factory::StackFactory;
use crate::trial::supervisor::Observer;

/// How long a guest may take to boot: five seconds are usual where nothing else runs, three minutes were not enough with a quarter of a
/// processor.
pub(super) const BOOT_PATIENCE: Duration = Duration::from_secs(600);
/// What a session has for its guests.
pub(crate) struct GuestContext<'a> {
    pub(crate) site: &'a StackFactory,
    pub(crate) journal: &'a Arc<Journal>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) progress: &'a mut dyn FnMut(Progress),
}

impl GuestContext<'_> {
    pub(super) fn report(&mut self, text: &str) {
        report_progress(self.progress, text);
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
pub(super) fn report_progress(progress: &mut dyn FnMut(Progress), text: &str) {
    progress(Progress::Engine(Event::Line { text: text.to_string() }));
}

/// A guest's trial shows its progress to the user.
impl Observer for GuestContext<'_> {
    fn on_message(&mut self, message: &Message) {
        if let Message::Progress { progress } = message {
            (self.progress)(progress.clone());
        }
    }
}
