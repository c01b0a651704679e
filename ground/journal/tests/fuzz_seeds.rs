//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/journal.rs"]
mod journal_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_journal_panics_or_takes_much_memory() {
    seeds::replay("journal", journal_entry::run);
}
