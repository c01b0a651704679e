//! A load that the ranks of a launcher run together: what rank 0 tells them, and what each of them does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use camino::Utf8Path;
use cluster::leader::{ExpectedRanks, Hello};
use cluster::member::LeaderMessage;
use cluster::rendezvous::{self, PATIENCE};
use cluster::{Clock, ClusterError, Connection, Launch, Leader, Member, Tunnel};
use journal::{Cgroup, Journal};
use serde::{Deserialize, Serialize};
use stats::{Ended, Outcome};

use crate::limit;
use crate::protocol::{Message, Release, Request};
use crate::trial::executor::Failure;
use crate::trial::process::{Process, Program};
use crate::trial::supervisor::{NO_RESULT, Observer, Supervision, Supervisor, WorkersOutcome};

/// The file on the target by which a rank sees that it looks at the same directory as rank 0.
pub(crate) const TOKEN: &str = "loadline-token";

/// How often a rank that waits for rank 0 looks at its worker.
const TICK: Duration = Duration::from_millis(50);
/// So much of a host's name stands in the name of what is made there.
const HOST_CHARS: usize = 40;

/// How ranks use the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetSharing {
    /// Each rank has files of its own, in a directory of its own.
    #[default]
    PerRank,
    /// All ranks work on one set of files, which rank 0 makes.
    Shared,
}

/// What rank 0 says. A rank answers with its worker's [`Message`]s, of which [`Message::Ended`] is the last.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(crate) enum LeaderCommand {
    /// Get ready for this.
    Run {
        /// The load.
        request: Box<Request>,
        /// Where the token is.
        token: PathBuf,
        /// What stands in it.
        secret: String,
        /// The most memory that its worker may use: its part of its host's.
        memory_bytes: Option<u64>,
    },
    /// Write back what lies there and drop the caches of this host.
    Cool {
        /// A directory on the file system.
        root: PathBuf,
    },
    /// Go on from the gate.
    Proceed(Release),
    /// End what runs.
    Abort,
}

/// What carries the ranks' messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// TCP connections to rank 0.
    #[default]
    Tcp,
    /// MPI, where this program was built with it.
    Mpi,
}

/// All ranks, as rank 0 holds them.
#[derive(Debug)]
pub struct RankGroup {
    pub(crate) leader: Leader,
    pub(crate) share: TargetSharing,
    /// It ends after the connections of the leader.
    _tunnel: Option<Tunnel>,
    own: Option<JoinHandle<Result<(), ClusterError>>>,
}

/// Where and why ranks meet.
#[derive(Debug, Clone)]
pub struct RendezvousConfig {
    /// A directory that all ranks see.
    pub folder: PathBuf,
    /// This rank among all.
    pub launch: Launch,
    /// How they speak.
    pub transport: Transport,
    /// What they are about to do: equal for all.
    pub plan: String,
    /// The home of results: what a rank makes on its host is in a journal there.
    pub home: PathBuf,
    /// The program that becomes the rank's worker.
    pub program: Program,
}

impl RendezvousConfig {
    fn hello(&self) -> Hello {
        let uname = rustix::system::uname();
        let facts = [
            ("kernel", uname.release().to_string_lossy().into_owned()),
            ("machine", uname.machine().to_string_lossy().into_owned()),
            ("cpus", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ];
        Hello {
            rank: self.launch.rank,
            size: self.launch.size,
            host: cluster::host::name(),
            clock: cluster::host::clock_id(),
            plan: self.plan.clone(),
            facts: facts.map(|(name, value)| (name.to_string(), value)).into(),
        }
    }

    fn file(&self) -> PathBuf {
        rendezvous::file(&self.folder, &self.launch, &self.plan)
    }

    /// Rank 0: waits for the others, and for its own load's side, which is a thread here.
    ///
    /// # Errors
    /// Ranks that do not come or do not agree.
    pub fn gather_ranks(&self, share: TargetSharing) -> Result<RankGroup, ClusterError> {
        let expected = ExpectedRanks { size: self.launch.size, plan: self.plan.clone(), patience: PATIENCE };
        let own = self.clone();
        let start = |serve: Box<dyn FnOnce() -> Result<(), ClusterError> + Send>| {
            std::thread::Builder::new().name("own rank".into()).spawn(serve).ok()
        };
        if self.transport == Transport::Mpi {
            let (tunnel, ends) = Tunnel::open(&self.launch)?;
            let own = start(Box::new(move || own.serve_on(Some(ends.own))));
            let leader = Leader::from_connections(ends.ranks, &expected)?;
            return Ok(RankGroup { leader, share, _tunnel: Some(tunnel), own });
        }
        let (listener, addresses) = rendezvous::listen(&self.launch)?;
        let published = rendezvous::publish(&self.file(), addresses)?;
        let own = start(Box::new(move || own.serve_on(None)));
        let leader = Leader::gather(&listener, &published, &expected)?;
        Ok(RankGroup { leader, share, _tunnel: None, own })
    }

    /// Any rank: does what rank 0 says until the planned end. The calling thread must live as long.
    ///
    /// # Errors
    /// Rank 0 is not reached, refuses, or is gone.
    pub fn serve(&self) -> Result<(), ClusterError> {
        if self.transport == Transport::Tcp {
            return self.serve_on(None);
        }
        // it ends after the connection that it carries
        let (_tunnel, ends) = Tunnel::open(&self.launch)?;
        self.serve_on(Some(ends.own))
    }

    /// The same over a connection that is there already, or over one that is to be found.
    fn serve_on(&self, connection: Option<Connection>) -> Result<(), ClusterError> {
        let stop = Arc::new(AtomicBool::new(false));
        let wish = stop.clone();
        let overhear = move |told: &LeaderMessage| match told {
            LeaderMessage::Data(text) => {
                let order = serde_json::from_slice::<LeaderCommand>(text);
                if !matches!(order, Ok(LeaderCommand::Proceed(_))) {
                    wish.store(matches!(order, Ok(LeaderCommand::Abort)), Ordering::Release);
                }
            }
            LeaderMessage::Bye | LeaderMessage::Gone(_) => wish.store(true, Ordering::Release),
        };
        let (hello, clock) = (self.hello(), Clock::system());
        let member = match connection {
            Some(connection) => Member::from_connection(connection, &hello, clock, PATIENCE, overhear)?,
            None => Member::join(&self.file(), &hello, clock, PATIENCE, overhear)?,
        };
        loop {
            match member.receive() {
                LeaderMessage::Bye => return Ok(()),
                LeaderMessage::Gone(why) => return Err(ClusterError::Lost { name: "rank 0".into(), why }),
                LeaderMessage::Data(text) => {
                    match serde_json::from_slice(&text) {
                        Ok(LeaderCommand::Run { request, token, secret, memory_bytes }) => {
                            let place = (token.as_path(), secret.as_str());
                            self.run(&member, (*request, memory_bytes), &stop, place)?;
                        }
                        Ok(LeaderCommand::Cool { root }) => {
                            let told = |error| {
                                format!("the caches of host {} were not dropped: {error}", hello.host)
                            };
                            answer(
                                &member,
                                Ok(without_measuring(cool(&root).err().map(told))),
                                String::new(),
                            )?;
                        }
                        // an abort, or the release of a load that has ended already, finds nothing to end
                        _ => {}
                    }
                }
            }
        }
    }
}

impl Drop for RankGroup {
    fn drop(&mut self) {
        let RankGroup { leader, own, .. } = self;
        leader.end();
        if let Some(Err(error)) = own.take().and_then(|thread| thread.join().ok()) {
            tracing::debug!("rank 0's own side: {error}");
        }
    }
}

fn send_message(member: &Member, message: &Message) -> Result<(), ClusterError> {
    let text = serde_json::to_vec(message).map_err(|error| ClusterError::Launch(error.to_string()))?;
    member.send(&text)
}

/// Tells rank 0 what a worker came to.
fn answer(member: &Member, result: Result<Outcome, String>, raw_output: String) -> Result<(), ClusterError> {
    let mut how = String::new();
    send_message(member, &Message::RawOutput { text: raw_output })?;
    match result {
        Ok(outcome) => send_message(member, &Message::Outcome { outcome: Box::new(outcome) })?,
        Err(message) => match message.split_once(NO_RESULT) {
            Some((_, end)) => how = end.to_string(),
            None => send_message(member, &Message::Error { message })?,
        },
    }
    send_message(member, &Message::Ended { how })
}

/// The outcome of what measures nothing.
fn without_measuring(notes: impl IntoIterator<Item = String>) -> Outcome {
    let (ops, metrics, notes) = (Vec::new(), Vec::new(), notes.into_iter().collect());
    Outcome { measured_seconds: 0.0, warmup_seconds: 0.0, ended: Ended::Done, ops, metrics, notes }
}

/// Passes on what a worker tells while it runs.
struct EventRelay<'m>(&'m Member);

impl Observer for EventRelay<'_> {
    fn on_message(&mut self, message: &Message) {
        if let Message::Passed { .. } | Message::Span { .. } = message {
            // when rank 0 is gone, that is what is heard next
            let _ = send_message(self.0, message);
        }
    }
}

impl RendezvousConfig {
    /// The rank's part of a load, by a worker within that limit.
    fn run(
        &self,
        member: &Member,
        (mut request, memory_bytes): (Request, Option<u64>),
        stop: &AtomicBool,
        (token, secret): (&Path, &str),
    ) -> Result<(), ClusterError> {
        let refused = |why: String| answer(member, Err(why), String::new());
        match std::fs::read_to_string(token) {
            Ok(found) if found == secret => {}
            Ok(_) => return refused(format!("{}: not the directory that rank 0 sees", token.display())),
            Err(error) => {
                let what = "the target must be a directory that all hosts see";
                return refused(format!("{}: {error}; {what}", token.display()));
            }
        }
        let group = match memory_bytes.map(|bytes| self.group(bytes)).transpose() {
            Ok(group) => group,
            Err(why) => return refused(format!("its memory cannot be limited: {why}")),
        };
        request.parent = Some(std::process::id());
        let (grace, observer) = (self.program.grace, &mut EventRelay(member));
        let mut by = Supervision { stop, deadline: None, grace, straggling: None, observer };
        let worker = Supervisor::new(Process::new(&self.program, request, group.clone()));
        let mut departure = match relayed(member, worker, &mut by) {
            Ok(departure) => departure,
            Err(Failure::Message(why) | Failure::Unavailable { reason: why, .. }) => return refused(why),
        };
        if let Some(group) = group {
            limit::leave(&group, &mut departure);
        }
        answer(member, departure.result, departure.raw_output)
    }

    /// A memory group in a journal of this rank's own, which goes with it.
    fn group(&self, bytes: u64) -> Result<Arc<Cgroup>, String> {
        let home = Utf8Path::from_path(&self.home).ok_or("the home of results is not UTF-8")?;
        // hosts may share that home, where a number of a process says little
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let host: String = cluster::host::name().chars().map(plain).take(HOST_CHARS).collect();
        let name = format!("rank-{}.{host}.{}", self.launch.rank, std::process::id());
        let journal = Journal::open(&Journal::folder(home), &name).map_err(|error| error.to_string())?;
        limit::group(&name, bytes, &journal).map_err(|error| error.to_string())
    }
}

/// Runs a rank's worker. It waits at the gate until rank 0 opens that of all ranks.
fn relayed(
    member: &Member,
    mut worker: Supervisor<Process>,
    by: &mut Supervision<'_>,
) -> Result<WorkersOutcome, Failure> {
    worker.spawn(by)?;
    while let Some(Release { aligned, values, .. }) = worker.until_gate(by)? {
        // when rank 0 is gone, the wish to stop says so
        let _ = send_message(member, &Message::AtGate { value: values.iter().sum(), aligned });
        while worker.at_gate().is_some() {
            let order = match member.hear_within(TICK) {
                Some(LeaderMessage::Data(text)) => serde_json::from_slice(&text).ok(),
                _ => None,
            };
            match order {
                Some(LeaderCommand::Proceed(release)) => worker.open(release, by)?,
                _ => worker.poll_events(Duration::ZERO, by)?,
            }
        }
    }
    worker.depart()
}

/// Writes back the file system of a directory, and drops the caches of this machine.
fn cool(root: &Path) -> std::io::Result<()> {
    rustix::fs::syncfs(std::fs::File::open(root)?)?;
    host::Host::system().drop_caches()
}
