//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/fuse_limit.rs"]
mod fuse_limit_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_fuse_limit_panics_or_takes_much_memory() {
    seeds::replay("fuse_limit", fuse_limit_entry::run);
}
