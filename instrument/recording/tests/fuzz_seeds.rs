//! What the fuzz target begins with, and every input that once failed, through its entry point: see `fuzz/`.

#[path = "../../../fuzz/entries/program_recording.rs"]
mod entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_program_recording_panics_or_takes_much_memory() {
    seeds::replay("program_recording", entry::run);
}
