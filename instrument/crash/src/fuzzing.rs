//! For fuzz targets: a device's recording becomes the events whose power losses are explored.

use camino::Utf8Path;

use crate::history::{Contract, History};
use crate::record::{Events, read};

/// Reads the recording at `path` as one of a device that keeps order; how many events it has, if it has an end.
pub fn recording(path: &Utf8Path) -> Option<usize> {
    let contract = Contract::new(ssd::Regime::Streams, false);
    let recording = read(path, Events::new(0, contract)).ok()?;
    let history = History::new(&recording, contract);
    let events = recording.events.len();
    // What the power may take away at each moment; many moments would take long.
    (0..=events).step_by(events / 16 + 1).for_each(|cut| drop(history.open_at(cut)));
    Some(events)
}
