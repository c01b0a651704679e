//! The side of every rank: comes to rank 0, answers for its clock, hears what is to be done.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::connection::Connection;
use crate::error::ClusterError;
use crate::leader::{ANSWER_PATIENCE, Hello};
use crate::rendezvous;
use crate::wire::{self, Kind};

/// A rank's connection to rank 0.
#[derive(Debug)]
pub struct Member {
    rank: u32,
    out: Arc<Mutex<Connection>>,
    heard: Receiver<LeaderMessage>,
}

/// What rank 0 says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderMessage {
    /// Something for those who use this crate.
    Data(Vec<u8>),
    /// The planned end.
    Bye,
    /// Rank 0 is gone.
    Gone(String),
}

impl Member {
    /// Finds rank 0 by the file at `path`, and waits until all have come. `overhear` sees each message the moment it arrives, in a thread of its own.
    ///
    /// # Errors
    /// Rank 0 is not reached within `patience`, or refuses.
    pub fn join(
        path: &Path,
        hello: &Hello,
        clock: Clock,
        patience: Duration,
        overhear: impl Fn(&LeaderMessage) + Send + 'static,
    ) -> Result<Member, ClusterError> {
        let until = Instant::now() + patience;
        let found = rendezvous::find(path, patience, |stream, card| {
            // a connection that has ended by now shows when it is spoken to
            let _ = stream.set_nodelay(true).and_then(|()| (&stream).write_all(card.secret.as_bytes()));
            admitted(stream.into(), hello, until)
        })?;
        let stream = found.map_err(|why| ClusterError::NoLeader {
            rank: hello.rank,
            host: hello.host.clone(),
            patience,
            why,
        })?;
        Member::on(stream, hello.rank, clock, overhear)
    }

    /// The same over a connection to rank 0 that is there already.
    ///
    /// # Errors
    /// As [`Member::join`].
    pub fn from_connection(
        connection: Connection,
        hello: &Hello,
        clock: Clock,
        patience: Duration,
        overhear: impl Fn(&LeaderMessage) + Send + 'static,
    ) -> Result<Member, ClusterError> {
        let gone = || ClusterError::Lost { name: "rank 0".into(), why: "is gone".into() };
        let connection = admitted(connection, hello, Instant::now() + patience)?.ok_or_else(gone)?;
        Member::on(connection, hello.rank, clock, overhear)
    }

    fn on(
        stream: Connection,
        rank: u32,
        clock: Clock,
        overhear: impl Fn(&LeaderMessage) + Send + 'static,
    ) -> Result<Member, ClusterError> {
        let lost = |error: io::Error| ClusterError::Lost { name: "rank 0".into(), why: error.to_string() };
        stream.set_read_timeout(None).map_err(lost)?;
        let reader = stream.try_clone().map_err(lost)?;
        let out = Arc::new(Mutex::new(stream));
        let (sender, heard) = channel();
        let answers = out.clone();
        let listen = move || {
            loop {
                let told = match next(&reader, &answers, clock) {
                    Ok(Some(told)) => told,
                    Ok(None) => continue,
                    Err(error) => LeaderMessage::Gone(error.to_string()),
                };
                overhear(&told);
                let last = !matches!(told, LeaderMessage::Data(_));
                if sender.send(told).is_err() || last {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("rank 0".into()).spawn(listen).map_err(lost)?;
        Ok(Member { rank, out, heard })
    }

    /// Its number.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Waits for what rank 0 says next.
    pub fn receive(&self) -> LeaderMessage {
        self.heard.recv().unwrap_or_else(|_| LeaderMessage::Gone("its connection ended".into()))
    }

    /// The same, for so long at most.
    pub fn hear_within(&self, patience: Duration) -> Option<LeaderMessage> {
        match self.heard.recv_timeout(patience) {
            Ok(told) => Some(told),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(LeaderMessage::Gone("its connection ended".into())),
        }
    }

    /// Says something to rank 0.
    ///
    /// # Errors
    /// Rank 0 is gone.
    pub fn send(&self, what: &[u8]) -> Result<(), ClusterError> {
        send(&self.out, Kind::Data, what)
            .map_err(|error| ClusterError::Lost { name: "rank 0".into(), why: error.to_string() })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).end();
    }
}

fn send(out: &Mutex<Connection>, kind: Kind, payload: &[u8]) -> io::Result<()> {
    let stream = out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    wire::send(&mut &*stream, kind, payload)
}

/// The next message; pings are answered here, at once.
fn next(mut reader: &Connection, out: &Mutex<Connection>, clock: Clock) -> io::Result<Option<LeaderMessage>> {
    Ok(match wire::receive(&mut reader)? {
        (Kind::Ping, _) => {
            send(out, Kind::Pong, &clock.now_ns().to_le_bytes())?;
            None
        }
        (Kind::Data, payload) => Some(LeaderMessage::Data(payload)),
        (Kind::Bye, _) => Some(LeaderMessage::Bye),
        (kind, _) => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{kind:?} was not expected")));
        }
    })
}

/// Says hello and waits for all others; `None`: this is not our rank 0.
fn admitted(stream: Connection, hello: &Hello, until: Instant) -> Result<Option<Connection>, ClusterError> {
    let greet = || -> io::Result<(Kind, Vec<u8>)> {
        stream.set_write_timeout(Some(ANSWER_PATIENCE))?;
        wire::send(&mut &stream, Kind::Hello, &serde_json::to_vec(hello)?)?;
        // rank 0 itself says when its patience is over
        let left = until.saturating_duration_since(Instant::now()) + ANSWER_PATIENCE;
        stream.set_read_timeout(Some(left))?;
        wire::receive(&mut &stream)
    };
    match greet() {
        Ok((Kind::Welcome, _)) => Ok(Some(stream)),
        Ok((Kind::Refused, why)) => Err(ClusterError::Disagree(String::from_utf8_lossy(&why).into_owned())),
        _ => Ok(None),
    }
}
