//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/entries/spec.rs"]
mod spec_entry;

#[test]
fn no_seed_of_spec_panics_or_takes_much_memory() {
    seeds::replay("spec", spec_entry::run);
}
