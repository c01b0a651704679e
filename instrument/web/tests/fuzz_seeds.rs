//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/entries/web_pages.rs"]
mod web_pages_entry;

#[test]
fn no_seed_of_web_pages_panics_or_takes_much_memory() {
    seeds::replay("web_pages", web_pages_entry::run);
}
