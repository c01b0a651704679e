//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/fiojob.rs"]
mod fiojob_entry;
#[path = "../../../fuzz/entries/iolog.rs"]
mod iolog_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_fiojob_panics_or_takes_much_memory() {
    seeds::replay("fiojob", fiojob_entry::run);
}

#[test]
fn no_seed_of_iolog_panics_or_takes_much_memory() {
    seeds::replay("iolog", iolog_entry::run);
}
