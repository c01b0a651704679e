//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/entries/units.rs"]
mod units_entry;

#[test]
fn no_seed_of_units_panics_or_takes_much_memory() {
    seeds::replay("units", units_entry::run);
}
