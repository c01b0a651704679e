//! The thread that speaks MPI.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::point_to_point::Source;
use mpi::request::scope;
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{Destination, Equivalence};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::ClusterError;
use crate::launch::Launch;

/// What all messages carry; nobody else speaks here.
const TAG: i32 = 0;
/// The most that one message holds: small enough that no library asks for its whole receipt before it is taken.
const PIECE_BYTES: usize = 32 << 10;
/// The shortest sleep. Right after a message the next one comes soon.
const REST_LEAST: Duration = Duration::from_micros(20);
/// The longest sleep: looking takes a few microseconds, so that it costs less than a thousandth of a CPU.
const REST_MOST: Duration = Duration::from_millis(10);
/// It sleeps for this part of the time that it has been quiet: a message is late by no more than that share of the wait.
const REST_SHARE: u32 = 16;
/// How long the others may take to say their last word. One that hangs would keep all in MPI_Finalize.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// A connection of this process and the rank to which it leads.
struct Link {
    rank: u32,
    socket: UnixStream,
    /// Came from there, and the socket has not taken it yet.
    waiting: VecDeque<u8>,
    /// The other side has said its last word.
    there_ended: bool,
    /// This side has, and the other was told.
    here_ended: bool,
}

/// Carries messages until all connections have ended on both sides. `ready` hears when MPI is there.
pub(super) fn run(launch: &Launch, links: Vec<(u32, UnixStream)>, ready: &Sender<Result<(), ClusterError>>) {
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        let _ = ready.send(Err(ClusterError::Launch("MPI was started twice".into())));
        return;
    };
    let world = universe.world();
    let (rank, size) = (world.rank() as u32, world.size() as u32);
    if (rank, size) != (launch.rank, launch.size) {
        let _ = ready.send(Err(ClusterError::Launch(format!(
            "MPI says rank {rank} of {size}, {} says rank {} of {}: the launcher and the MPI library that loadline was \
             built with do not belong together",
            launch.launcher, launch.rank, launch.size
        ))));
        return;
    }
    let begun = links.into_iter().map(|(rank, socket)| {
        socket.set_nonblocking(true)?;
        Ok(Link { rank, socket, waiting: VecDeque::new(), there_ended: false, here_ended: false })
    });
    let mut links: Vec<Link> = match begun.collect::<io::Result<_>>() {
        Ok(links) => links,
        Err(error) => {
            let _ = ready.send(Err(ClusterError::Listen(error)));
            return;
        }
    };
    // a sleep of 20 us would else take 50 more; a refusal leaves it so
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
    let _ = ready.send(Ok(()));
    if !carry(&world, &mut links) {
        // whoever read standard error may have gone
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"loadline: a rank did not end: all are ended\n",
        );
        world.abort(1);
    }
}

/// Whether all connections have ended as they should.
fn carry(world: &SimpleCommunicator, links: &mut [Link]) -> bool {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut heard = Instant::now();
    let mut over: Option<Instant> = None;
    loop {
        let mut moved = receive(world, links);
        for at in 0..links.len() {
            moved |= deliver(&mut links[at]);
            while let Some(piece) = collect(&mut links[at], &mut buffer) {
                moved = true;
                send(world, links, at, piece);
            }
        }
        if links.iter().all(|link| link.here_ended && link.there_ended) {
            return true;
        }
        if links.iter().all(|link| link.here_ended)
            && over.get_or_insert_with(Instant::now).elapsed() > END_PATIENCE
        {
            return false;
        }
        if moved {
            heard = Instant::now();
        }
        rest(links, (heard.elapsed() / REST_SHARE).clamp(REST_LEAST, REST_MOST));
    }
}

/// Takes what has come through MPI.
fn receive(world: &SimpleCommunicator, links: &mut [Link]) -> bool {
    let mut moved = false;
    while let Some((message, status)) = world.any_process().immediate_matched_probe_with_tag(TAG) {
        let length = usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(0);
        let mut piece = vec![0_u8; length];
        message.matched_receive_into(&mut piece[..]);
        let Some(link) =
            links.iter_mut().find(|link| i64::from(link.rank) == i64::from(status.source_rank()))
        else {
            continue;
        };
        moved = true;
        // the last word is empty
        link.there_ended |= piece.is_empty();
        link.waiting.extend(piece);
    }
    moved
}

/// Gives the socket what waits for it; whoever has left does not want it.
fn deliver(link: &mut Link) -> bool {
    let mut moved = false;
    while !link.waiting.is_empty() {
        match (&link.socket).write(link.waiting.as_slices().0) {
            Ok(taken) => {
                link.waiting.drain(..taken);
                moved = true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return moved,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => link.waiting.clear(),
        }
    }
    if link.there_ended {
        // it hears that nothing more will come
        let _ = link.socket.shutdown(std::net::Shutdown::Write);
    }
    moved
}

/// What this side says next; empty: its last word. `None`: nothing now.
fn collect<'b>(link: &mut Link, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    if link.here_ended {
        return None;
    }
    match (&link.socket).read(buffer) {
        Ok(length) => {
            link.here_ended = length == 0;
            Some(&buffer[..length])
        }
        Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => None,
        Err(_) => {
            link.here_ended = true;
            Some(&buffer[..0])
        }
    }
}

/// Sends a piece. What comes meanwhile is taken: two that send to each other wait for that.
fn send(world: &SimpleCommunicator, links: &mut [Link], at: usize, piece: &[u8]) {
    let Ok(rank) = i32::try_from(links[at].rank) else { return };
    scope(|scope| {
        let mut request = world.process_at_rank(rank).immediate_send_with_tag(scope, piece, TAG);
        while let Err(unfinished) = request.test() {
            request = unfinished;
            receive(world, links);
            std::thread::yield_now();
        }
    });
}

/// Sleeps so long, or until a socket has something to say or takes what waits.
fn rest(links: &[Link], rest: Duration) {
    let mut fds: Vec<PollFd<'_>> = links
        .iter()
        .filter_map(|link| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !link.here_ended);
            flags.set(PollFlags::OUT, !link.waiting.is_empty());
            // one that is asked nothing would still tell of its end, at once and for ever
            (!flags.is_empty()).then(|| PollFd::from_borrowed_fd(link.socket.as_fd(), flags))
        })
        .collect();
    let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(rest.subsec_nanos()) };
    // an interrupted sleep is a short one
    let _ = poll(&mut fds, Some(&limit));
}
