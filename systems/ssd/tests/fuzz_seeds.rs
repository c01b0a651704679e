//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/entries/ssd_profile.rs"]
mod ssd_profile_entry;

#[test]
fn no_seed_of_ssd_profile_panics_or_takes_much_memory() {
    seeds::replay("ssd_profile", ssd_profile_entry::run);
}
