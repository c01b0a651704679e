//! Ranks as threads with clocks of their own: they meet, agree, find each other's clocks, and say who is gone.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cluster::leader::{ExpectedRanks, Hello};
use cluster::member::LeaderMessage;
use cluster::rendezvous::{self, PublishedEndpoint};
use cluster::{Clock, ClusterError, Launch, Leader, Member, RankEvent};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(300);

struct Meeting {
    _dir: tempfile::TempDir,
    path: PathBuf,
    listener: TcpListener,
    published: PublishedEndpoint,
}

fn launch(rank: u32, size: u32) -> Launch {
    Launch { rank, size, on_this_host: Some(size), launcher: "loadline", job: Some("1".into()) }
}

fn meeting(size: u32) -> Meeting {
    let dir = tempfile::tempdir().unwrap();
    let own = launch(0, size);
    let path = rendezvous::file(dir.path(), &own, "plan");
    let (listener, addresses) = rendezvous::listen(&own).unwrap();
    let published = rendezvous::publish(&path, addresses).unwrap();
    Meeting { _dir: dir, path, listener, published }
}

fn hello(rank: u32, size: u32, plan: &str) -> Hello {
    Hello {
        rank,
        size,
        host: format!("node{rank}"),
        clock: String::new(),
        plan: plan.into(),
        facts: vec![("kernel".into(), if rank == 1 { "6.1" } else { "6.18" }.into())],
    }
}

fn join(path: &Path, rank: u32, size: u32, clock: Clock) -> Result<Member, ClusterError> {
    Member::join(path, &hello(rank, size, "plan"), clock, PATIENCE, |_| ())
}

/// A rank that echoes what it is told until the end.
fn echo(path: &Path, rank: u32, size: u32, clock: Clock) -> JoinHandle<LeaderMessage> {
    let path = path.to_path_buf();
    std::thread::spawn(move || {
        let member = join(&path, rank, size, clock).unwrap();
        loop {
            match member.receive() {
                LeaderMessage::Data(what) => member.send(&what).unwrap(),
                end => return end,
            }
        }
    })
}

fn expected(size: u32) -> ExpectedRanks {
    ExpectedRanks { size, plan: "plan".into(), patience: PATIENCE }
}

fn gather(meeting: &Meeting, size: u32) -> Result<Leader, ClusterError> {
    Leader::gather(&meeting.listener, &meeting.published, &expected(size))
}

#[test]
fn all_meet_and_are_heard() {
    let meeting = meeting(8);
    let ranks: Vec<_> = (0..8).map(|rank| echo(&meeting.path, rank, 8, Clock::system())).collect();
    let mut leader = gather(&meeting, 8).unwrap();
    (0..8).for_each(|rank| leader.send(rank, &[rank as u8; 100_000]).unwrap());
    let mut heard = [false; 8];
    while heard.contains(&false) {
        match leader.receive(Instant::now() + PATIENCE).unwrap() {
            RankEvent::Said(rank, what) => {
                assert_eq!(what, [rank as u8; 100_000]);
                heard[rank as usize] = true;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(leader.receive(Instant::now()).unwrap(), RankEvent::Nothing);
    let differing = leader.differing_facts();
    assert_eq!(differing[0].0, "kernel");
    assert_eq!(differing[0].1[1], ("6.1".to_string(), "node1".to_string()));
    drop(leader);
    ranks.into_iter().for_each(|rank| assert_eq!(rank.join().unwrap(), LeaderMessage::Bye));
    drop(meeting.published);
    assert!(!meeting.path.exists());
}

/// Clocks that are off by up to 100 s and up to 500 ppm fast or slow: every estimate is right within its bound.
#[test]
fn skewed_clocks_are_found() {
    for seed in 0..5 {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let clocks: Vec<Clock> = (0..4)
            .map(|_| {
                let ahead = rng.random_range(-100_000_000_000_i64..100_000_000_000);
                Clock::skewed(ahead, rng.random_range(-500.0..500.0))
            })
            .collect();
        let meeting = meeting(4);
        let ranks: Vec<_> = clocks
            .iter()
            .enumerate()
            .map(|(rank, clock)| echo(&meeting.path, rank as u32, 4, *clock))
            .collect();
        let mut leader = gather(&meeting, 4).unwrap();
        for (rank, clock) in clocks.iter().enumerate() {
            let offset = leader.offset(rank as u32).unwrap();
            let truth = clock.at(offset.at_ns) - offset.at_ns;
            // the rate adds 500 ns within a millisecond of round trip
            let bound = offset.bound_ns + offset.bound_ns / 1000 + 2;
            assert!((offset.ns - truth).abs() <= bound, "seed {seed} rank {rank}: {truth} {offset:?}");
        }
        drop(leader);
        ranks.into_iter().for_each(|rank| assert_eq!(rank.join().unwrap(), LeaderMessage::Bye));
    }
}

#[test]
fn a_rank_that_dies_is_named() {
    let meeting = meeting(3);
    let path = meeting.path.clone();
    let (die, wish) = channel::<()>();
    let dying = std::thread::spawn(move || {
        let member = join(&path, 2, 3, Clock::system()).unwrap();
        let _ = wish.recv();
        drop(member);
    });
    let others: Vec<_> = (0..2).map(|rank| echo(&meeting.path, rank, 3, Clock::system())).collect();
    let mut leader = gather(&meeting, 3).unwrap();
    drop(die);
    assert_eq!(leader.receive(Instant::now() + PATIENCE).unwrap(), RankEvent::Lost(2));
    let error = leader.first_lost().unwrap().to_string();
    assert_eq!(error, "rank 2 on host node2 has died: its connection ended");
    assert!(leader.send(2, b"x").is_err() && leader.offset(2).is_err());
    leader.send(1, b"still here").unwrap();
    assert_eq!(
        leader.receive(Instant::now() + PATIENCE).unwrap(),
        RankEvent::Said(1, b"still here".to_vec())
    );
    drop(leader);
    dying.join().unwrap();
    others.into_iter().for_each(|rank| assert_eq!(rank.join().unwrap(), LeaderMessage::Bye));
}

/// One that answers no ping is lost after the patience, and the others go on.
#[test]
fn a_rank_that_hangs_is_named() {
    use std::io::Write;
    let meeting = meeting(2);
    let card = meeting.published.card.clone();
    let own = echo(&meeting.path, 0, 2, Clock::system());
    let silent = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(card.addresses[0]).unwrap();
        stream.write_all(card.secret.as_bytes()).unwrap();
        let text = serde_json::to_vec(&hello(1, 2, "plan")).unwrap();
        cluster::wire::send(&mut stream, cluster::wire::Kind::Hello, &text).unwrap();
        stream.flush().unwrap();
        stream
    });
    let mut leader = gather(&meeting, 2).unwrap().with_answer_patience(Duration::from_millis(200));
    let stream = silent.join().unwrap();
    let error = leader.offset(1).unwrap_err().to_string();
    assert!(error.starts_with("rank 1 on host node1 hangs"), "{error}");
    // The others may take their time.
    let mut leader = leader.with_answer_patience(PATIENCE);
    assert!(leader.offset(0).is_ok());
    drop((stream, leader));
    assert_eq!(own.join().unwrap(), LeaderMessage::Bye);
}

#[test]
fn ranks_that_disagree_are_refused_everywhere() {
    let meeting = meeting(2);
    let path = meeting.path.clone();
    let own = std::thread::spawn({
        let path = path.clone();
        move || join(&path, 0, 2, Clock::system()).unwrap_err().to_string()
    });
    let other = std::thread::spawn(move || {
        Member::join(&path, &hello(1, 2, "other"), Clock::system(), PATIENCE, |_| ()).unwrap_err().to_string()
    });
    let error = gather(&meeting, 2).unwrap_err().to_string();
    assert!(error.contains("rank 1 on host node1") && error.contains("something else"), "{error}");
    assert_eq!(other.join().unwrap(), error);
    // rank 0's own load may have come before or after; it is not let in either way
    drop(meeting);
    drop(own);
}

#[test]
fn ranks_that_do_not_come_are_named() {
    // On a busy machine rank 0 itself may not have come by then; then all get more time.
    for millis in [500, 5000, 50_000] {
        let meeting = meeting(3);
        let own = std::thread::spawn({
            let path = meeting.path.clone();
            move || join(&path, 0, 3, Clock::system()).map(|_| ()).unwrap_err().to_string()
        });
        let short = ExpectedRanks { patience: Duration::from_millis(millis), ..expected(3) };
        let error = Leader::gather(&meeting.listener, &meeting.published, &short).unwrap_err().to_string();
        assert!(error.contains("1, 2"), "{error}");
        if !error.contains("0, 1, 2") {
            assert_eq!(own.join().unwrap(), error);
            return;
        }
    }
    panic!("rank 0 never came");
}

/// Strangers without the secret do not disturb: one that speaks another language, one that says hello, one that announces a long
/// frame, and one that says nothing at all.
#[test]
fn strangers_are_not_let_in() {
    use std::io::Write;
    let meeting = meeting(1);
    let address = meeting.published.card.addresses[0];
    std::net::TcpStream::connect(address).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut liar = std::net::TcpStream::connect(address).unwrap();
    let text = serde_json::to_vec(&hello(0, 1, "plan")).unwrap();
    cluster::wire::send(&mut liar, cluster::wire::Kind::Hello, &text).unwrap();
    let mut long = std::net::TcpStream::connect(address).unwrap();
    long.write_all(&[0, 0xff, 0xff, 0xff, 0x0f]).unwrap();
    let silent = std::net::TcpStream::connect(address).unwrap();
    let own = echo(&meeting.path, 0, 1, Clock::system());
    let leader = gather(&meeting, 1).unwrap();
    drop((leader, long, silent));
    assert_eq!(own.join().unwrap(), LeaderMessage::Bye);
}

/// Nothing is read of who does not begin with the secret.
#[test]
fn a_stranger_is_cut_off_before_what_it_says_is_read() {
    use std::io::{Read, Write};
    let meeting = meeting(1);
    let mut stranger = std::net::TcpStream::connect(meeting.published.card.addresses[0]).unwrap();
    let text = serde_json::to_vec(&hello(0, 1, "plan")).unwrap();
    let mut said = vec![b'x'; meeting.published.card.secret.len()];
    cluster::wire::send(&mut said, cluster::wire::Kind::Hello, &text).unwrap();
    stranger.write_all(&said).unwrap();
    let own = echo(&meeting.path, 0, 1, Clock::system());
    drop(gather(&meeting, 1).unwrap());
    assert_eq!(own.join().unwrap(), LeaderMessage::Bye);
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(stranger.read(&mut [0; 1]).map_err(|error| error.kind()).unwrap_or(0), 0, "it was answered");
}
