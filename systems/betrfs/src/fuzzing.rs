//! For fuzz targets: the kernel's requests, as bytes and without a kernel.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fusewire::local::Probe;

use crate::fs::Fs;
use crate::fuse::{Server, Settings};

/// Serves requests to `fs` as a mount with the default options does.
///
/// # Errors
/// `/dev/null`, where the answers go, cannot be opened.
pub fn server(fs: Arc<Fs>) -> io::Result<impl FnMut(&[u8])> {
    let settings = Settings {
        ttl: Duration::from_secs(1),
        writeback: false,
        beat: false,
        readdirplus: true,
        keep_new: true,
        probe: Arc::new(Probe::new("betrfs")),
    };
    fusewire::fuzzing::server(Arc::new(Server::new(fs, settings)))
}
