//! Any requests of a kernel are answered by betrfs; what they leave can be opened again.

#[path = "kernel_requests.rs"]
mod kernel_requests;

use std::sync::Arc;

use arbitrary::Unstructured;
use betrfs::{Fs, Options};

/// Bytes of the device: as small as a store may be with room for what requests write.
const DEVICE_BYTES: u64 = 1 << 20;

pub fn run(bytes: &[u8]) {
    kernel_requests::both_ways(bytes);
    let storage = betree::SimStorage::new(DEVICE_BYTES);
    let mut options = Options::with_store(betree::Options::tiny());
    // Small enough that inodes are forgotten and read again.
    options.idle_nodes_max = 5;
    options.contents_bytes = 16 << 10;
    Fs::format(storage.clone(), &options).expect("a new file system");
    let fs = Arc::new(Fs::open(storage.clone(), &options).expect("which opens"));
    let mut serve = betrfs::fuzzing::server(fs.clone()).expect("/dev/null");
    for request in kernel_requests::requests(&mut Unstructured::new(bytes)) {
        kernel_requests::both_ways(&request);
        serve(&request);
    }
    drop(serve);
    let _ = fs.settle();
    drop(fs);
    Fs::open(storage, &options).expect("it opens again");
}
