//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/crash_recording.rs"]
mod crash_recording_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_crash_recording_panics_or_takes_much_memory() {
    seeds::replay("crash_recording", crash_recording_entry::run);
}
