//! For fuzz targets: a MySQL server's answer, read from bytes.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::packets::Packets;

/// Longest answer in bytes that a socket holds before anybody reads it.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Reads what a server answers to statements that are written out, and to a prepared one whose rows are looked at.
///
/// # Errors
/// The system gives no pair of sockets.
pub fn answers(bytes: &[u8]) -> std::io::Result<()> {
    let bytes = &bytes[..bytes.len().min(ANSWER_BYTES_MAX)];
    for is_prepared in [false, true] {
        let (ours, mut theirs) = UnixStream::pair()?;
        theirs.write_all(bytes)?;
        theirs.shutdown(std::net::Shutdown::Write)?;
        let mut packets = Packets::default();
        let _ = match is_prepared {
            false => packets.query(ours.as_fd(), "SELECT 1"),
            true => {
                let mut take = |row: mysql::Row| drop(row.unwrap());
                packets.execute(ours.as_fd(), 1, &[], &mut Arc::default(), Some(&mut take))
            }
        };
    }
    Ok(())
}
