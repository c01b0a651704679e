//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#![cfg(feature = "clients")]

#[path = "../../../fuzz/entries/mysql_answers.rs"]
mod mysql_answers_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;

#[test]
fn no_seed_of_mysql_answers_panics_or_takes_much_memory() {
    seeds::replay("mysql_answers", mysql_answers_entry::run);
}
