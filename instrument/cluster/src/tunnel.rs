//! Connections through MPI, for sites where nothing else may carry messages. A thread moves what the ranks say between sockets of
//! this process and MPI. Only that thread knows of MPI, so that whoever speaks and listens does it as over TCP.
//!
//! An MPI library waits by polling, which costs a whole CPU. So the thread never waits within MPI: it sleeps, and looks whether
//! something has come; the longer it is quiet the more seldom, 100 times a second at last.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use crate::connection::Connection;
use crate::error::ClusterError;
use crate::launch::Launch;

#[cfg(feature = "mpi")]
mod bridge;
#[cfg(not(feature = "mpi"))]
mod bridge {
    //! Without the feature there is no way.

    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::Sender;

    use crate::error::ClusterError;
    use crate::launch::Launch;

    pub(super) fn run(_: &Launch, _: Vec<(u32, UnixStream)>, ready: &Sender<Result<(), ClusterError>>) {
        // nobody else holds the other end
        let _ = ready.send(Err(ClusterError::NoMpi));
    }
}

/// The way through MPI, as long as it lives.
#[derive(Debug)]
pub struct Tunnel {
    thread: Option<JoinHandle<()>>,
}

/// The near ends of connections.
#[derive(Debug)]
pub struct TunnelEnds {
    /// At rank 0: one of each rank, its own included. Elsewhere none.
    pub ranks: Vec<Connection>,
    /// This rank's connection to rank 0.
    pub own: Connection,
}

impl Tunnel {
    /// Starts MPI and connects all ranks to rank 0. Every rank must do so.
    ///
    /// # Errors
    /// This program was built without MPI; MPI sees another launch than the environment tells of; no sockets.
    pub fn open(launch: &Launch) -> Result<(Tunnel, TunnelEnds), ClusterError> {
        let pair = || UnixStream::pair().map_err(ClusterError::Listen);
        let (own, far) = pair()?;
        let mut links = Vec::new();
        let mut ranks = Vec::new();
        if launch.rank == 0 {
            ranks.push(Connection::from(far));
            for rank in 1..launch.size {
                let (near, far) = pair()?;
                ranks.push(near.into());
                links.push((rank, far));
            }
        } else {
            links.push((0, far));
        }
        let (ready, begun) = channel();
        let launch = launch.clone();
        let carry = move || bridge::run(&launch, links, &ready);
        let thread =
            std::thread::Builder::new().name("mpi".into()).spawn(carry).map_err(ClusterError::Listen)?;
        let tunnel = Tunnel { thread: Some(thread) };
        begun.recv().unwrap_or_else(|_| Err(ClusterError::Launch("MPI has ended".into())))?;
        Ok((tunnel, TunnelEnds { ranks, own: own.into() }))
    }
}

impl Drop for Tunnel {
    /// Waits until all ranks have said all: the connections must have ended.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
