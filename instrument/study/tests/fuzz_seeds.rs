//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/entries/study.rs"]
mod study_entry;

#[test]
fn no_seed_of_study_panics_or_takes_much_memory() {
    seeds::replay("study", study_entry::run);
}
