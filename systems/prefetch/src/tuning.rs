//! The constants of the policy, all of them: what it is not told and does not measure.

/// One request at most, bytes (32 KiB to 1 MiB): any kernel reads so much ahead in one call.
pub const CHUNK: u64 = 128 << 10;
/// The farthest a stream is ahead, bytes (4 to 64 MiB): 8 ms at 1 GB/s.
pub const WINDOW_MAX: u64 = 8 << 20;
/// Streams of a descriptor and thread (2 to 16): a merge of more files has a descriptor for each.
pub const STREAMS: usize = 4;
/// Steps in a row that are an order (2 to 8): one or two agree by chance.
pub const CONFIRM: u32 = 3;
/// So many times in a row is no accident any more (4 to 32).
pub const ROW: u32 = 8;
/// Reads that say something of a file (8 to 256).
pub const SAMPLE: u32 = 32;
/// The most reads that pass without a look, where none has to wait (64 to 1,023).
pub const NAP_MAX: u32 = 511;
/// What a device is taken to deliver until that was seen, bytes/s (10^8 to 10^10): flash.
pub const RATE: u64 = 1_000_000_000;
/// Streams are counted for so long, ns (5 to 100 ms): a time slice and more.
pub const EPOCH_NS: u64 = 20_000_000;
/// Parts of a file that are fetched one by one (16 to 256).
pub const REGIONS: usize = 64;
/// Times what fetching a part takes that its misses must have cost, and that those to come may bring (1 to 16).
pub const PRICE: u64 = 8;
/// A miss may wait for what is fetched so much longer: one part in so many (2 to 50).
pub const QUEUE: u64 = 16;
