//! What fuzz targets begin with, and every input that once failed, through their entry points: see `fuzz/`.

#[path = "../../../fuzz/entries/redis_replies.rs"]
mod redis_replies_entry;
#[path = "../../../fuzz/entries/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/entries/ycsb.rs"]
mod ycsb_entry;

#[test]
fn no_seed_of_ycsb_panics_or_takes_much_memory() {
    seeds::replay("ycsb", ycsb_entry::run);
}

#[test]
fn no_seed_of_redis_replies_panics_or_takes_much_memory() {
    seeds::replay("redis_replies", redis_replies_entry::run);
}
