//! Rank 0's side: a connection to every rank, its own load's included.

use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Offset, ROUNDS};
use crate::connection::Connection;
use crate::error::ClusterError;
use crate::rendezvous::PublishedEndpoint;
use crate::wire::{self, Kind};

/// How long the rest of a frame may take once it has begun, and an answer to a ping: a rank that is stopped answers neither.
pub const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// How long a connection may take to show that it knows the secret: ranks send it at once, and the others wait behind one who
/// does not.
const SECRET_PATIENCE: Duration = Duration::from_secs(2);

/// What a rank says of itself when it comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its number.
    pub rank: u32,
    /// How many ranks it knows of.
    pub size: u32,
    /// Its host's name.
    pub host: String,
    /// See [`crate::host::clock_id`].
    pub clock: String,
    /// What it is about to do: equal for all ranks.
    pub plan: String,
    /// Facts of its machine that should be equal, by name.
    pub facts: Vec<(String, String)>,
}

/// A rank that has come.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: Connection,
    hello: Hello,
    lost: Option<String>,
}

/// All ranks, seen from rank 0.
#[derive(Debug)]
pub struct Leader {
    peers: Vec<Peer>,
    clock: Clock,
}

/// What was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankEvent {
    /// A rank says something.
    Said(u32, Vec<u8>),
    /// A rank is gone: it died, or it does not speak as it should. Told once.
    Lost(u32),
    /// Nothing until the time was up.
    Nothing,
}

/// Whom rank 0 waits for.
#[derive(Debug, Clone)]
pub struct ExpectedRanks {
    /// How many ranks there are.
    pub size: u32,
    /// What all are about to do.
    pub plan: String,
    /// How long they are awaited.
    pub patience: Duration,
}

impl Leader {
    /// Waits until all ranks have come and agree.
    ///
    /// # Errors
    /// Ranks that have not come, or that are about to do something else: named.
    pub fn gather(
        listener: &TcpListener,
        published: &PublishedEndpoint,
        expected: &ExpectedRanks,
    ) -> Result<Leader, ClusterError> {
        listener.set_nonblocking(true).map_err(ClusterError::Listen)?;
        let deadline = Instant::now() + expected.patience;
        let mut seats = RankSlots::new(expected);
        while !seats.are_full() {
            match listener.accept() {
                Ok((stream, _)) => {
                    // a stranger, or a rank that died at once, is none of ours
                    let set = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
                    let known = set.and_then(|()| check_secret(stream.into(), &published.card.secret));
                    if let Ok((stream, hello)) = known.and_then(hello) {
                        seats.take(stream, hello)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let Some(left) = deadline.checked_duration_since(Instant::now()) else { break };
                    wait(&mut [PollFd::new(listener, PollFlags::IN)], left).map_err(ClusterError::Listen)?;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(ClusterError::Listen(error)),
            }
        }
        seats.into_leader(&published.path().display().to_string())
    }

    /// The same over connections that are there already: of rank 0, 1, ...
    ///
    /// # Errors
    /// As [`Leader::gather`].
    pub fn from_connections(
        connections: Vec<Connection>,
        expected: &ExpectedRanks,
    ) -> Result<Leader, ClusterError> {
        let mut seats = RankSlots::new(expected);
        for connection in connections {
            // one that does not say who it is is missing
            if let Ok((connection, hello)) = hello(connection) {
                seats.take(connection, hello)?;
            }
        }
        seats.into_leader("MPI")
    }

    /// Lets a stopped rank be found sooner, for tests.
    pub fn with_answer_patience(self, patience: Duration) -> Leader {
        for peer in &self.peers {
            // a refusal leaves the longer patience
            let _ = peer.stream.set_read_timeout(Some(patience));
        }
        self
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.peers.len() as u32
    }

    /// The name of a rank's host.
    pub fn host(&self, rank: u32) -> &str {
        self.peers.get(rank as usize).map_or("?", |peer| &peer.hello.host)
    }

    /// How many ranks are on the host of this one, itself included.
    pub fn ranks_on_host_of(&self, rank: u32) -> u32 {
        (0..self.size()).filter(|other| self.host(*other) == self.host(rank)).count() as u32
    }

    /// The first rank of each host.
    pub fn firsts(&self) -> Vec<u32> {
        let is_first = |rank: &u32| (0..*rank).all(|before| self.host(before) != self.host(*rank));
        (0..self.size()).filter(is_first).collect()
    }

    /// A rank with its host, for messages.
    pub fn name(&self, rank: u32) -> String {
        format!("rank {rank} on host {}", self.host(rank))
    }

    /// Why a rank is gone, if it is.
    pub fn lost(&self, rank: u32) -> Option<&str> {
        self.peers.get(rank as usize)?.lost.as_deref()
    }

    /// The first rank that is gone.
    pub fn first_lost(&self) -> Option<ClusterError> {
        let rank = (0..self.size()).find(|rank| self.lost(*rank).is_some())?;
        Some(self.error(rank))
    }

    /// Facts that are not the same on all hosts: name, and each value with the first host that has it.
    pub fn differing_facts(&self) -> Vec<(String, Vec<(String, String)>)> {
        let Some(first) = self.peers.first() else { return Vec::new() };
        let of = |peer: &Peer, name: &str| {
            peer.hello.facts.iter().find(|(known, _)| known == name).map(|(_, v)| v.clone())
        };
        let mut differing = Vec::new();
        for (name, _) in &first.hello.facts {
            let mut values: Vec<(String, String)> = Vec::new();
            for peer in &self.peers {
                let value = of(peer, name).unwrap_or_default();
                if values.iter().all(|(known, _)| *known != value) {
                    values.push((value, peer.hello.host.clone()));
                }
            }
            if values.len() > 1 {
                differing.push((name.clone(), values));
            }
        }
        differing
    }

    fn error(&self, rank: u32) -> ClusterError {
        ClusterError::Lost { name: self.name(rank), why: self.lost(rank).unwrap_or("is gone").to_string() }
    }

    fn lose(&mut self, rank: u32, why: String) {
        if let Some(peer) = self.peers.get_mut(rank as usize).filter(|peer| peer.lost.is_none()) {
            // it learns of it, if it lives
            peer.stream.end();
            peer.lost = Some(why);
        }
    }

    fn write(&mut self, rank: u32, kind: Kind, payload: &[u8]) -> Result<(), ClusterError> {
        let Some(peer) = self.peers.get(rank as usize) else {
            return Err(ClusterError::Launch(format!("there is no rank {rank}")));
        };
        if peer.lost.is_none()
            && let Err(error) = wire::send(&mut &peer.stream, kind, payload)
        {
            self.lose(rank, describe(&error));
        }
        if self.lost(rank).is_some() { Err(self.error(rank)) } else { Ok(()) }
    }

    /// Says something to a rank.
    ///
    /// # Errors
    /// The rank is gone.
    pub fn send(&mut self, rank: u32, what: &[u8]) -> Result<(), ClusterError> {
        self.write(rank, Kind::Data, what)
    }

    /// Gives a rank up, since it does not do its part.
    pub fn give_up(&mut self, rank: u32, why: &str) {
        self.lose(rank, why.to_string());
    }

    /// Waits until a rank says something or is lost, at most until `deadline`.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn receive(&mut self, deadline: Instant) -> Result<RankEvent, ClusterError> {
        let living: Vec<u32> = (0..self.size()).filter(|rank| self.lost(*rank).is_none()).collect();
        let ready = {
            let mut fds: Vec<PollFd<'_>> = living
                .iter()
                .map(|rank| {
                    PollFd::from_borrowed_fd(self.peers[*rank as usize].stream.as_fd(), PollFlags::IN)
                })
                .collect();
            let left = deadline.saturating_duration_since(Instant::now());
            wait(&mut fds, left).map_err(ClusterError::Listen)?;
            fds.iter().position(|fd| !fd.revents().is_empty())
        };
        let Some(rank) = ready.map(|at| living[at]) else { return Ok(RankEvent::Nothing) };
        Ok(match self.read(rank) {
            Some((Kind::Data, payload)) => RankEvent::Said(rank, payload),
            Some((Kind::Bye, payload)) => {
                self.lose(rank, format!("has ended: {}", String::from_utf8_lossy(&payload)));
                RankEvent::Lost(rank)
            }
            Some((kind, _)) => {
                self.lose(rank, format!("said {kind:?}, which nobody asked for"));
                RankEvent::Lost(rank)
            }
            None => RankEvent::Lost(rank),
        })
    }

    fn read(&mut self, rank: u32) -> Option<(Kind, Vec<u8>)> {
        let peer = self.peers.get(rank as usize).filter(|peer| peer.lost.is_none())?;
        match wire::receive(&mut &peer.stream) {
            Ok(frame) => Some(frame),
            Err(error) => {
                self.lose(rank, describe(&error));
                None
            }
        }
    }

    /// How far a rank's clock is ahead of this one's. Nothing else may be on its way to or from the rank.
    ///
    /// # Errors
    /// The rank is gone, or does not answer.
    pub fn offset(&mut self, rank: u32) -> Result<Offset, ClusterError> {
        let mut rounds = Vec::with_capacity(ROUNDS as usize);
        for _ in 0..ROUNDS {
            let sent = self.clock.now_ns();
            self.write(rank, Kind::Ping, &[])?;
            let answer = self.read(rank);
            let came = self.clock.now_ns();
            match answer {
                Some((Kind::Pong, payload)) if payload.len() == 8 => {
                    let mut bytes = [0; 8];
                    bytes.copy_from_slice(&payload);
                    rounds.push((sent, i64::from_le_bytes(bytes), came));
                }
                Some(_) => {
                    self.lose(rank, "answered something else than the time".into());
                    return Err(self.error(rank));
                }
                None => return Err(self.error(rank)),
            }
        }
        Offset::of_rounds(rounds).ok_or_else(|| self.error(rank))
    }

    /// This side's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

impl Leader {
    /// Tells all that this is the planned end.
    pub fn end(&mut self) {
        for rank in 0..self.size() {
            let _ = self.write(rank, Kind::Bye, &[]);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.end();
    }
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "has died: its connection ended".into()
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "hangs: it did not answer in time".into(),
        _ => format!("is lost: {error}"),
    }
}

fn wait(fds: &mut [PollFd<'_>], left: Duration) -> io::Result<()> {
    let limit =
        Timespec { tv_sec: left.as_secs().min(1 << 30) as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(fds, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Lets a connection go on whose first bytes are the secret. Nothing else is read of one that does not know it.
fn check_secret(stream: Connection, secret: &str) -> io::Result<Connection> {
    let deadline = Instant::now() + SECRET_PATIENCE;
    let mut told = vec![0; secret.len()];
    let mut filled = 0;
    while filled < told.len() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match (&stream).read(&mut told[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => filled += more,
        }
    }
    // all of it is looked at: how long it takes says nothing of where they differ
    let differs = told.iter().zip(secret.as_bytes()).fold(0, |differs, (one, other)| differs | (one ^ other));
    if differs == 0 { Ok(stream) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

fn hello(stream: Connection) -> io::Result<(Connection, Hello)> {
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    stream.set_write_timeout(Some(ANSWER_PATIENCE))?;
    match wire::receive(&mut &stream)? {
        (Kind::Hello, payload) => Ok((stream, serde_json::from_slice(&payload)?)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Places of ranks that come one after the other.
struct RankSlots<'a> {
    expected: &'a ExpectedRanks,
    slots: Vec<Option<Peer>>,
}

impl RankSlots<'_> {
    fn new(expected: &ExpectedRanks) -> RankSlots<'_> {
        RankSlots { expected, slots: (0..expected.size).map(|_| None).collect() }
    }

    fn are_full(&self) -> bool {
        self.slots.iter().all(Option::is_some)
    }

    /// Lets a rank in.
    ///
    /// # Errors
    /// It is about to do something else: then all are told.
    fn take(&mut self, stream: Connection, hello: Hello) -> Result<(), ClusterError> {
        let Some(why) = refusal(&hello, self.expected, &self.slots) else {
            let at = hello.rank as usize;
            self.slots[at] = Some(Peer { stream, hello, lost: None });
            return Ok(());
        };
        let _ = wire::send(&mut &stream, Kind::Refused, why.as_bytes());
        self.refuse(&why);
        Err(ClusterError::Disagree(why))
    }

    fn refuse(&self, why: &str) {
        for peer in self.slots.iter().flatten() {
            // one that is gone needs no reason
            let _ = wire::send(&mut &peer.stream, Kind::Refused, why.as_bytes());
        }
    }

    /// All are there, and are told so.
    ///
    /// # Errors
    /// Some are missing: the others are told. `place` is where they were awaited.
    fn into_leader(self, place: &str) -> Result<Leader, ClusterError> {
        let is_missing = |(_, slot): &(usize, &Option<Peer>)| slot.is_none();
        let missing = self.slots.iter().enumerate().filter(is_missing).map(|(at, _)| at.to_string());
        let missing: Vec<String> = missing.collect();
        if !missing.is_empty() {
            let error = ClusterError::Missing {
                size: self.expected.size,
                count: missing.len(),
                missing: missing.join(", "),
                path: place.to_string(),
                patience: self.expected.patience,
            };
            self.refuse(&error.to_string());
            return Err(error);
        }
        let mut leader = Leader { peers: self.slots.into_iter().flatten().collect(), clock: Clock::system() };
        for rank in 0..leader.size() {
            leader.write(rank, Kind::Welcome, &[])?;
        }
        Ok(leader)
    }
}

/// Why a rank may not take part.
pub(crate) fn refusal(hello: &Hello, expected: &ExpectedRanks, slots: &[Option<Peer>]) -> Option<String> {
    let Hello { rank, size, host, plan, .. } = hello;
    if *size != expected.size || *rank >= *size {
        return Some(format!(
            "rank {rank} on host {host} knows of {size} ranks, rank 0 of {}",
            expected.size
        ));
    }
    if let Some(known) = &slots[*rank as usize] {
        return Some(format!(
            "there are two of rank {rank}: on host {} and on host {host}; two launches meet in one directory, or the \
             launcher and its variables do not belong together (--rendezvous DIR)",
            known.hello.host
        ));
    }
    (*plan != expected.plan).then(|| {
        format!(
            "rank {rank} on host {host} is about to run something else than rank 0 ({plan}, not {}): program, command \
             line and files must be the same on all hosts",
            expected.plan
        )
    })
}
