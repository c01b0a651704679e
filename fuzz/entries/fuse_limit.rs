//! Any requests of a kernel are answered by the file system in memory.

#[path = "kernel_requests.rs"]
mod kernel_requests;

use arbitrary::Unstructured;

/// Most bytes of all files.
const BYTES_MAX: u64 = 4 << 20;

pub fn run(bytes: &[u8]) {
    kernel_requests::both_ways(bytes);
    let mut serve = fuselimit::fuzzing::server(BYTES_MAX).expect("/dev/null");
    for request in kernel_requests::requests(&mut Unstructured::new(bytes)) {
        kernel_requests::both_ways(&request);
        serve(&request);
    }
}
