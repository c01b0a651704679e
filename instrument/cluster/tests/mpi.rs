//! Ranks that speak through MPI: this program starts itself under mpirun. Built with the feature `mpi` only.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use cluster::leader::{ExpectedRanks, Hello};
use cluster::member::LeaderMessage;
use cluster::{Clock, ClusterError, Launch, Leader, Member, RankEvent, Tunnel};
use needs::Need;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Larger than a piece, and than what any library sends unasked.
const LONG_BYTES: usize = 3_000_000;
/// How long nobody says anything, as while ranks measure.
const QUIET: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let done = match Launch::of_environment() {
        Ok(Some(launch)) => rank(&launch),
        Ok(None) => return start(),
        Err(error) => Err(error.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// What is tried, each under a launcher of its own: name, ranks, whether that ends well, and what is said. The name is the
/// word on a rank's command line.
const TRIES: [(&str, &str, bool, &str); 3] = [
    ("echo", "3", true, "3 ranks: all is said and heard"),
    // the launcher may end rank 0 before it can speak, and then names the rank itself
    ("die", "2", false, "Exit code:    3"),
    ("disagree", "2", false, "is about to run something else than rank 0"),
];

fn start() -> ExitCode {
    let mpirun = Need::Tool { program: "mpirun", package: "openmpi-bin" };
    let cases = TRIES.map(|(name, ranks, succeeds, says)| {
        needs::Case::new(name, &[mpirun], move || match launched(name, ranks) {
            Ok((ended_well, told)) => {
                let is_right = ended_well == succeeds && told.contains(says);
                told.lines()
                    .filter(|line| !is_right || line.contains(says))
                    .for_each(|line| println!("{line}"));
                is_right
            }
            Err(error) => {
                println!("{error}");
                false
            }
        })
    });
    needs::run(env!("CARGO_PKG_NAME"), "mpi", cases.into())
}

/// Whether a launch of this program ended well, and what it said.
fn launched(name: &str, ranks: &str) -> std::io::Result<(bool, String)> {
    let mut mpirun = Command::new("mpirun");
    mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    mpirun.args(["-n", ranks, "--oversubscribe", "--bind-to", "none", "--timeout", "60"]);
    let output = mpirun.arg(std::env::current_exe()?).arg(name).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.success(), text(&output.stdout) + &text(&output.stderr)))
}

fn rank(launch: &Launch) -> Result<(), String> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let said = |error: ClusterError| error.to_string();
    let (tunnel, ends) = Tunnel::open(launch).map_err(said)?;
    let plan = if what == "disagree" { format!("plan of {}", launch.rank) } else { "plan".to_string() };
    let hello = Hello {
        rank: launch.rank,
        size: launch.size,
        host: format!("node{}", launch.rank),
        clock: String::new(),
        plan: plan.clone(),
        facts: Vec::new(),
    };
    let dies = what == "die" && launch.rank == 1;
    let own = ends.own;
    let serve = move || -> Result<(), ClusterError> {
        let member = Member::from_connection(own, &hello, Clock::system(), PATIENCE, |_| ())?;
        loop {
            match member.receive() {
                LeaderMessage::Data(_) if dies => std::process::exit(3),
                LeaderMessage::Data(what) => member.send(&what)?,
                LeaderMessage::Bye => return Ok(()),
                LeaderMessage::Gone(why) => return Err(ClusterError::Lost { name: "rank 0".into(), why }),
            }
        }
    };
    if launch.rank > 0 {
        let served = serve().map_err(said);
        drop(tunnel);
        return served;
    }
    let own = std::thread::spawn(serve);
    let expected = ExpectedRanks { size: launch.size, plan, patience: PATIENCE };
    let led = Leader::from_connections(ends.ranks, &expected).and_then(lead);
    let served = own.join().map_err(|_| "rank 0's own side panicked")?;
    drop(tunnel);
    led.map_err(said)?;
    served.map_err(said)
}

/// Rank 0: says something long to all, hears it back, is quiet, finds the clocks.
fn lead(mut leader: Leader) -> Result<(), ClusterError> {
    let wrong = |what: String| ClusterError::Launch(what);
    let size = leader.size();
    let long = |rank: u32| -> Vec<u8> { (0..LONG_BYTES).map(|at| (at as u32 * 31 + rank) as u8).collect() };
    for rank in 0..size {
        leader.send(rank, &long(rank))?;
    }
    for _ in 0..size {
        match leader.receive(Instant::now() + PATIENCE)? {
            RankEvent::Said(rank, what) if what == long(rank) => {}
            RankEvent::Lost(rank) => return Err(wrong(format!("rank {rank} is gone"))),
            RankEvent::Said(rank, what) => {
                return Err(wrong(format!("{} wrong bytes of {rank}", what.len())));
            }
            RankEvent::Nothing => return Err(wrong("nobody answers".into())),
        }
    }
    let before = cpu_seconds();
    std::thread::sleep(QUIET);
    let quiet = cpu_seconds() - before;
    // one that polls takes all of it; a rank asks a hundred times a second
    if quiet > QUIET.as_secs_f64() / 10.0 {
        return Err(wrong(format!("{quiet:.3} s of a CPU were used in {QUIET:?} of silence")));
    }
    let mut bound_ns = 0;
    for rank in 0..size {
        let offset = leader.offset(rank)?;
        if offset.ns.abs() > offset.bound_ns {
            return Err(wrong(format!("one clock: {offset:?}")));
        }
        bound_ns = bound_ns.max(offset.bound_ns);
    }
    println!(
        "{size} ranks: all is said and heard; {quiet:.4} s of a CPU in {} s of silence, clocks known to {} us",
        QUIET.as_secs(),
        bound_ns / 1000
    );
    Ok(())
}

/// What this process has used of a CPU.
fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
