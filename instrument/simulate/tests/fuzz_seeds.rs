//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/loadfile.rs"]
mod loadfile_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_loadfile_panics_or_takes_much_memory() {
    seeds::replay("loadfile", loadfile_entry::run);
}
