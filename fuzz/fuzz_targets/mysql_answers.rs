#![no_main]

#[path = "../entries/mysql_answers.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::run(bytes));
