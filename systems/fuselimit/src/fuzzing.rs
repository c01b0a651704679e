//! For fuzz targets: the kernel's requests, as bytes and without a kernel.

use std::io;
use std::sync::Arc;

use fusewire::local::Probe;

use crate::server::Server;

/// Serves requests to an empty file system of at most `bytes` bytes.
///
/// # Errors
/// `/dev/null`, where the answers go, cannot be opened.
pub fn server(bytes: u64) -> io::Result<impl FnMut(&[u8])> {
    fusewire::fuzzing::server(Arc::new(Server::new(bytes, Arc::new(Probe::new("fuse-limit")))))
}
