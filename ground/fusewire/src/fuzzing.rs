//! For fuzz targets: requests reach a file system by the code that serves `/dev/fuse`, without a kernel.

use std::io;
use std::sync::Arc;

use crate::classic::Worker;
use crate::device::Device;
use crate::serve::FileSystem;
use crate::wire::OUT_HEADER_BYTES;

/// Longest answer in bytes, as of a mount with the default size of requests.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Serves requests given as bytes. The answers go to `/dev/null`.
///
/// # Errors
/// `/dev/null` cannot be opened.
pub fn server<F: FileSystem>(fs: Arc<F>) -> io::Result<impl FnMut(&[u8])> {
    let nowhere = std::fs::File::options().write(true).open("/dev/null")?;
    let device = Arc::new(Device(nowhere.into()));
    let worker = Worker { device, fs, duty: None, request_bytes_max: ANSWER_BYTES_MAX };
    let mut told = vec![0; ANSWER_BYTES_MAX + OUT_HEADER_BYTES];
    Ok(move |request: &[u8]| worker.one(request, &mut told))
}
