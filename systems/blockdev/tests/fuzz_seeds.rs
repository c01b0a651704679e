//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/recording.rs"]
mod recording_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_recording_panics_or_takes_much_memory() {
    seeds::replay("recording", recording_entry::run);
}
