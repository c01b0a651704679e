//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/kernel_text.rs"]
mod kernel_text_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_kernel_text_panics_or_takes_much_memory() {
    seeds::replay("kernel_text", kernel_text_entry::run);
}
