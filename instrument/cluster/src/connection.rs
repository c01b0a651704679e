//! A stream between two ranks, whatever carries it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connected stream socket of any family: a TCP connection, or the end of a pair whose other end something else carries.
#[derive(Debug)]
pub struct Connection(UnixStream);

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Self {
        // what follows asks for no family: read, write, time-outs, shutdown
        Connection(UnixStream::from(OwnedFd::from(stream)))
    }
}

impl From<UnixStream> for Connection {
    fn from(stream: UnixStream) -> Self {
        Connection(stream)
    }
}

impl Connection {
    /// How long a read may take.
    ///
    /// # Errors
    /// The system's.
    pub fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(patience)
    }

    /// How long a write may take.
    ///
    /// # Errors
    /// The system's.
    pub fn set_write_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(patience)
    }

    /// Ends it for both sides, whoever else holds it.
    pub fn end(&self) {
        // one that has ended already needs no end
        let _ = self.0.shutdown(Shutdown::Both);
    }

    /// The same connection once more.
    ///
    /// # Errors
    /// The system's.
    pub fn try_clone(&self) -> io::Result<Connection> {
        self.0.try_clone().map(Connection)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Read for &Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }
}

impl Write for &Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
