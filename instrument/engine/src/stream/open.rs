//! How a stream opens its files.

use workload::stream::OpenFlags;

/// How a stream opens a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenMode {
    pub flags: OpenFlags,
    pub reads: bool,
    pub writes: bool,
    pub random: bool,
    /// Where the stream's part of it ends.
    pub end: u64,
}
