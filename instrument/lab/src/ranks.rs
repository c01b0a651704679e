//! A load that the ranks of a launcher run together: what rank 0 tells them, and what each of them does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use apps::span::Span;
use camino::Utf8Path;
use cluster::leader::{Expected, Hello};
use cluster::member::Told;
use cluster::rendezvous::{self, PATIENCE};
use cluster::{Clock, ClusterError, Connection, Launch, Leader, Member, Tunnel};
use journal::{Cgroup, Journal};
use serde::{Deserialize, Serialize};
use stats::Outcome;

use crate::limit;
use crate::protocol::{ARGUMENT, Begin, Message, Request};
use crate::supervise::{Program, supervise_gated};

/// The file on the target by which a rank sees that it looks at the same directory as rank 0.
pub(crate) const TOKEN: &str = "loadline-token";

/// So much of a host's name stands in the name of what is made there.
const HOST_CHARS: usize = 40;

/// How ranks use the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// Each rank has files of its own, in a directory of its own.
    #[default]
    PerRank,
    /// All ranks work on one set of files, which rank 0 makes.
    Shared,
}

/// What rank 0 says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(crate) enum Order {
    /// Get ready for this.
    Run {
        /// The load.
        request: Box<Request>,
        /// Where the token is.
        token: PathBuf,
        /// What stands in it.
        secret: String,
        /// The most memory that its processes may use: its part of its host's.
        memory_bytes: Option<u64>,
    },
    /// Write back what lies there and drop the caches of this host.
    Cool {
        /// A directory on the file system.
        root: PathBuf,
    },
    /// Begin at this moment of the rank's own clock.
    Begin(Begin),
    /// End what runs.
    Abort,
}

/// What a rank answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "say")]
pub(crate) enum Answer {
    /// Files and threads are there.
    Ready,
    /// The host is cold, or why it is not.
    Cooled {
        /// What the system says.
        result: Result<(), String>,
    },
    /// It has ended.
    Ended {
        /// When it began and how late that was, in nanoseconds of its clock.
        began: Option<(i64, i64)>,
        /// What was measured, or why nothing was.
        result: Result<Box<Outcome>, String>,
        /// Standard error of the load.
        raw_output: String,
        /// What it did in each phase, by its clock.
        #[serde(default)]
        spans: Vec<Span>,
    },
    /// It is where all tasks meet; answered by [`Order::Begin`].
    Meet {
        /// What it brings.
        value: u64,
        /// It wants to go on at one moment, not at once.
        aligned: bool,
    },
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
pub struct Crew {
    pub(crate) leader: Leader,
    pub(crate) share: Share,
    /// It ends after the connections of the leader.
    _tunnel: Option<Tunnel>,
    own: Option<JoinHandle<Result<(), ClusterError>>>,
}

/// Where and why ranks meet.
#[derive(Debug, Clone)]
pub struct Meeting {
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
}

impl Meeting {
    fn hello(&self) -> Hello {
        let uname = rustix::system::uname();
        let facts = [
            ("kernel", uname.release().to_string_lossy().into_owned()),
            ("machine", uname.machine().to_string_lossy().into_owned()),
            ("cpus", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ];
        Hello {
            secret: String::new(),
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
    pub fn lead(&self, share: Share) -> Result<Crew, ClusterError> {
        let expected = Expected { size: self.launch.size, plan: self.plan.clone(), patience: PATIENCE };
        let own = self.clone();
        let start = |serve: Box<dyn FnOnce() -> Result<(), ClusterError> + Send>| {
            std::thread::Builder::new().name("own rank".into()).spawn(serve).ok()
        };
        if self.transport == Transport::Mpi {
            let (tunnel, ends) = Tunnel::open(&self.launch)?;
            let own = start(Box::new(move || own.serve_on(Some(ends.own))));
            let leader = Leader::over(ends.ranks, &expected)?;
            return Ok(Crew { leader, share, _tunnel: Some(tunnel), own });
        }
        let (listener, addresses) = rendezvous::listen(&self.launch)?;
        let published = rendezvous::publish(&self.file(), addresses)?;
        let own = start(Box::new(move || own.serve_on(None)));
        let leader = Leader::gather(&listener, &published, &expected)?;
        Ok(Crew { leader, share, _tunnel: None, own })
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
        let program = std::env::current_exe().map_err(|error| ClusterError::Launch(error.to_string()))?;
        let program = Program::new(program, &[ARGUMENT]);
        let stop = Arc::new(AtomicBool::new(false));
        let wish = stop.clone();
        let overhear = move |told: &Told| match told {
            Told::Data(text) => {
                let order = serde_json::from_slice::<Order>(text);
                if !matches!(order, Ok(Order::Begin(_))) {
                    wish.store(matches!(order, Ok(Order::Abort)), Ordering::Release);
                }
            }
            Told::Bye | Told::Gone(_) => wish.store(true, Ordering::Release),
        };
        let (hello, clock) = (self.hello(), Clock::system());
        let member = match connection {
            Some(connection) => Member::over(connection, &hello, clock, PATIENCE, overhear)?,
            None => Member::join(&self.file(), &hello, clock, PATIENCE, overhear)?,
        };
        loop {
            match member.hear() {
                Told::Bye => return Ok(()),
                Told::Gone(why) => return Err(ClusterError::Lost { name: "rank 0".into(), why }),
                Told::Data(text) => {
                    let answer = match serde_json::from_slice(&text) {
                        Ok(Order::Run { request, token, secret, memory_bytes }) => {
                            let place = (token.as_path(), secret.as_str());
                            self.run(&member, &program, (*request, memory_bytes), &stop, place)
                        }
                        Ok(Order::Cool { root }) => {
                            let result = cool(&root).map_err(|error| error.to_string());
                            Answer::Cooled { result }
                        }
                        // an abort, or the begin of a load that has ended already, finds nothing to end
                        _ => continue,
                    };
                    say(&member, &answer)?;
                }
            }
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let Crew { leader, own, .. } = self;
        leader.end();
        if let Some(Err(error)) = own.take().and_then(|thread| thread.join().ok()) {
            tracing::debug!("rank 0's own side: {error}");
        }
    }
}

fn say(member: &Member, answer: &Answer) -> Result<(), ClusterError> {
    let text = serde_json::to_vec(answer).map_err(|error| ClusterError::Launch(error.to_string()))?;
    member.say(&text)
}

impl Meeting {
    /// The rank's part of a load, its processes within that limit.
    fn run(
        &self,
        member: &Member,
        program: &Program,
        (mut request, memory_bytes): (Request, Option<u64>),
        stop: &AtomicBool,
        (token, secret): (&Path, &str),
    ) -> Answer {
        let refused = |why: String| Answer::Ended {
            began: None,
            result: Err(why),
            raw_output: String::new(),
            spans: Vec::new(),
        };
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
        request.parent = std::process::id();
        request.waits = true;
        let mut began = None;
        let mut spans = Vec::new();
        let mut hear = |message: Message| match message {
            Message::Began { at_ns, late_ns } => began = Some((at_ns, late_ns)),
            Message::Span { span } => spans.push(span),
            _ => {}
        };
        let mut gate = |message: &Message| {
            let answer = match *message {
                Message::Meet { value, aligned } => Answer::Meet { value, aligned },
                _ => Answer::Ready,
            };
            say(member, &answer).ok()?;
            let Told::Data(text) = member.hear() else { return None };
            match serde_json::from_slice(&text) {
                Ok(Order::Begin(begin)) => Some(begin),
                _ => None,
            }
        };
        let admit = |process: u32| match &group {
            Some(group) => group.add_pid(process).map_err(|error| error.to_string()),
            None => Ok(()),
        };
        let mut departure = supervise_gated(program, &request, None, stop, admit, &mut hear, &mut gate);
        if let Some(group) = group {
            limit::leave(group, &mut departure);
        }
        Answer::Ended {
            began,
            result: departure.result.map(Box::new),
            raw_output: departure.raw_output,
            spans,
        }
    }

    /// A memory group in a journal of this rank's own, which goes with it.
    fn group(&self, bytes: u64) -> Result<Cgroup, String> {
        let home = Utf8Path::from_path(&self.home).ok_or("the home of results is not UTF-8")?;
        // hosts may share that home, where a number of a process says little
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let host: String = cluster::host::name().chars().map(plain).take(HOST_CHARS).collect();
        let name = format!("rank-{}.{host}.{}", self.launch.rank, std::process::id());
        let journal = Journal::open(&Journal::folder(home), &name).map_err(|error| error.to_string())?;
        limit::group(&name, bytes, &journal).map_err(|error| error.to_string())
    }
}

/// Writes back the file system of a directory, and drops the caches of this machine.
fn cool(root: &Path) -> std::io::Result<()> {
    rustix::fs::syncfs(std::fs::File::open(root)?)?;
    host::Host::system().drop_caches()
}
