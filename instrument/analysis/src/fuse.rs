//! What the requests of a FUSE file system cost, by kind and by flowop, as plain data. Crate `probe` fills it in.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use stats::Histogram;

/// How far the clocks of a trace and of a load may be apart, in nanoseconds: 5 in a million over some ten seconds.
const CLOCKS_APART_NS: u64 = 50_000;

/// The kernel's names of the requests by number (`enum fuse_opcode` in include/uapi/linux/fuse.h), without the prefix; `-`
/// for numbers that are not used.
const NAMES: &str = "- LOOKUP FORGET GETATTR SETATTR READLINK SYMLINK - MKNOD MKDIR UNLINK RMDIR RENAME LINK OPEN READ WRITE \
    STATFS RELEASE - FSYNC SETXATTR GETXATTR LISTXATTR REMOVEXATTR FLUSH INIT OPENDIR READDIR RELEASEDIR FSYNCDIR GETLK \
    SETLK SETLKW ACCESS CREATE INTERRUPT BMAP DESTROY IOCTL POLL NOTIFY_REPLY BATCH_FORGET FALLOCATE READDIRPLUS RENAME2 \
    LSEEK COPY_FILE_RANGE SETUPMAPPING REMOVEMAPPING SYNCFS TMPFILE STATX";

/// The kernel's name of a request, or its number.
pub fn name_of(opcode: u32) -> String {
    let known = NAMES.split_whitespace().nth(opcode as usize).filter(|name| *name != "-");
    known.map_or_else(|| format!("opcode {opcode}"), str::to_owned)
}

/// A request that was answered; times in nanoseconds of the trace clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub opcode: u32,
    /// The thread that sent it; of a kernel thread, its number too.
    pub tid: u32,
    /// When it was sent.
    pub sent_ns: u64,
    /// When the daemon took it, if that could be seen.
    pub taken_ns: Option<u64>,
    /// When the answer was there.
    pub ended_ns: u64,
}

/// One execution of a flowop by a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The flowop, as an index of the flowops' names.
    pub flowop: usize,
    /// When it began, in nanoseconds.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// The times of requests of one kind, in nanoseconds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Of these, those that the daemon was seen to take.
    pub split: u64,
    /// Sum over those from when they were sent until the daemon took them.
    pub queue_ns: u64,
    /// Sum over those from when the daemon took them until the answer was there.
    pub daemon_ns: u64,
    /// Sum over all, from when they were sent until the answer was there.
    pub total_ns: u64,
    /// Half of them took at most so long.
    pub p50_ns: u64,
    /// 99 % of them.
    pub p99_ns: u64,
    /// All of them.
    pub max_ns: u64,
    #[serde(skip)]
    histogram: Histogram,
}

impl Times {
    fn add(&mut self, request: &Request) {
        self.count += 1;
        let total = request.ended_ns.saturating_sub(request.sent_ns);
        self.total_ns += total;
        self.histogram.record(total);
        if let Some(taken) = request.taken_ns {
            self.split += 1;
            self.queue_ns += taken.saturating_sub(request.sent_ns);
            self.daemon_ns += request.ended_ns.saturating_sub(taken);
        }
    }

    fn finish(&mut self) {
        let quantile = |q| self.histogram.quantile(q).unwrap_or(0);
        (self.p50_ns, self.p99_ns) = (quantile(0.5), quantile(0.99));
        self.max_ns = self.histogram.max().unwrap_or(0);
    }

    /// Mean time in the queue, in nanoseconds, of those that the daemon was seen to take.
    pub fn queue_mean_ns(&self) -> Option<f64> {
        (self.split > 0).then(|| self.queue_ns as f64 / self.split as f64)
    }

    /// Mean time in the daemon, as [`Times::queue_mean_ns`].
    pub fn daemon_mean_ns(&self) -> Option<f64> {
        (self.split > 0).then(|| self.daemon_ns as f64 / self.split as f64)
    }

    /// Mean time from end to end, in nanoseconds.
    pub fn total_mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ns as f64 / self.count as f64)
    }
}

/// Requests by kind: name and times, the kind that took most time first.
pub type Kinds = Vec<(String, Times)>;

/// What a flowop's executions asked.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FlowopShare {
    /// Its name.
    pub name: String,
    /// Executions.
    pub operations: u64,
    /// The time of all of them, in nanoseconds.
    pub total_ns: u64,
    /// The requests they sent and waited for.
    pub requests: Kinds,
}

impl FlowopShare {
    /// Mean time of an execution that was spent in no request: computing, locks, waiting for a CPU; in nanoseconds.
    pub fn elsewhere_mean_ns(&self) -> Option<f64> {
        let in_requests: u64 = self.requests.iter().map(|(_, times)| times.total_ns).sum();
        (self.operations > 0)
            .then(|| self.total_ns.saturating_sub(in_requests) as f64 / self.operations as f64)
    }
}

/// The requests of a traced load.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Account {
    /// All of them.
    pub kinds: Kinds,
    /// Those of each flowop that sent any, in the flowops' order.
    pub flowops: Vec<FlowopShare>,
    /// Those that no flowop sent: read-ahead, written-back pages, the work of other programs.
    pub others: Kinds,
    /// Seconds from the first request to the last answer.
    pub seconds: f64,
}

/// A traced load.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// What was answered, in order of sending.
    pub requests: Vec<Request>,
    /// Requests without an answer within the recording, or of which the beginning is missing.
    pub halves: u64,
    /// Events that the kernel lost.
    pub lost: u64,
    /// The recording was full before the work ended.
    pub ended_early: bool,
}

/// A flowop of the load: its name, executions, and their time in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flowop {
    /// Its name.
    pub name: String,
    /// Executions.
    pub operations: u64,
    /// The time of all of them.
    pub total_ns: u64,
}

#[derive(Default)]
struct Sums(BTreeMap<u32, Times>);

impl Sums {
    fn add(&mut self, request: &Request) {
        self.0.entry(request.opcode).or_default().add(request);
    }

    fn kinds(self) -> Kinds {
        let mut kinds: Kinds = self.0.into_iter().map(|(opcode, times)| (name_of(opcode), times)).collect();
        kinds.iter_mut().for_each(|(_, times)| times.finish());
        kinds.sort_by_key(|(_, times)| std::cmp::Reverse(times.total_ns));
        kinds
    }
}

/// The operation of a thread within which `at_ns` lies, or that is nearest to it as far as clocks may be apart. The
/// operations are in order of time and do not overlap.
fn operation_at(operations: &[Operation], at_ns: u64) -> Option<&Operation> {
    let next = operations.partition_point(|operation| operation.start_ns <= at_ns);
    let before = next.checked_sub(1).and_then(|at| operations.get(at));
    let after = operations.get(next);
    let late = |operation: &&Operation| at_ns.saturating_sub(operation.end_ns);
    let early = |operation: &&Operation| operation.start_ns.saturating_sub(at_ns);
    let before = before.map(|operation| (late(&operation), operation));
    let after = after.map(|operation| (early(&operation), operation));
    let nearest = before.into_iter().chain(after).min_by_key(|(apart, _)| *apart)?;
    (nearest.0 <= CLOCKS_APART_NS).then_some(nearest.1)
}

/// Sums `requests` up: by kind, and by the flowop that sent them. `threads` are the operations of each thread, by its
/// number, in order of time; they speak of `flowops`.
pub fn account(requests: &[Request], threads: &HashMap<u32, Vec<Operation>>, flowops: &[Flowop]) -> Account {
    let mut kinds = Sums::default();
    let mut others = Sums::default();
    let mut shares: Vec<Sums> = flowops.iter().map(|_| Sums::default()).collect();
    for request in requests {
        kinds.add(request);
        let operation = threads.get(&request.tid).and_then(|own| operation_at(own, request.sent_ns));
        match operation.and_then(|operation| shares.get_mut(operation.flowop)) {
            Some(share) => share.add(request),
            None => others.add(request),
        }
    }
    let share = |(sums, flowop): (Sums, &Flowop)| FlowopShare {
        name: flowop.name.clone(),
        operations: flowop.operations,
        total_ns: flowop.total_ns,
        requests: sums.kinds(),
    };
    let from = requests.iter().map(|request| request.sent_ns).min().unwrap_or(0);
    let to = requests.iter().map(|request| request.ended_ns).max().unwrap_or(from);
    Account {
        kinds: kinds.kinds(),
        flowops: shares
            .into_iter()
            .zip(flowops)
            .map(share)
            .filter(|share| !share.requests.is_empty())
            .collect(),
        others: others.kinds(),
        seconds: to.saturating_sub(from) as f64 / 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u32, tid: u32, sent_us: u64, taken_us: Option<u64>, ended_us: u64) -> Request {
        let taken_ns = taken_us.map(|us| us * 1000);
        Request { opcode, tid, sent_ns: sent_us * 1000, taken_ns, ended_ns: ended_us * 1000 }
    }

    fn operation(flowop: usize, start_us: u64, end_us: u64) -> Operation {
        Operation { flowop, start_ns: start_us * 1000, end_ns: end_us * 1000 }
    }

    fn flowop(name: &str, operations: u64, total_us: u64) -> Flowop {
        Flowop { name: name.into(), operations, total_ns: total_us * 1000 }
    }

    #[test]
    fn requests_are_summed_by_kind_and_by_who_sent_them() {
        let requests = [
            request(16, 7, 110, Some(130), 160),
            request(3, 7, 210, Some(215), 220),
            request(16, 7, 310, None, 350),
            request(15, 9, 400, Some(401), 500),
        ];
        let threads = HashMap::from([(
            7,
            vec![operation(1, 100, 200), operation(0, 205, 230), operation(1, 300, 360)],
        )]);
        let flowops = [flowop("open", 1, 25), flowop("log", 2, 160), flowop("idle", 5, 10)];
        let account = account(&requests, &threads, &flowops);

        let names: Vec<&str> = account.kinds.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["READ", "WRITE", "GETATTR"]);
        let (_, writes) = &account.kinds[1];
        assert_eq!((writes.count, writes.split, writes.total_ns), (2, 1, 90_000));
        assert_eq!(writes.queue_mean_ns(), Some(20_000.0));
        assert_eq!(writes.daemon_mean_ns(), Some(30_000.0));
        let shares: Vec<_> = account
            .flowops
            .iter()
            .map(|f| (f.name.as_str(), f.requests.len(), f.elsewhere_mean_ns()))
            .collect();
        assert_eq!(shares, [("open", 1, Some(15_000.0)), ("log", 1, Some(35_000.0))]);
        assert_eq!(account.others.len(), 1);
        assert_eq!(account.others[0].0, "READ");
        assert_eq!(account.seconds, 390e-6);
    }

    #[test]
    fn clocks_may_be_a_little_apart() {
        let own = [operation(0, 1000, 1100), operation(1, 1200, 1300)];
        let at = |us: u64| operation_at(&own, us * 1000).map(|operation| operation.flowop);
        assert_eq!(at(940), None);
        assert_eq!(at(960), Some(0));
        assert_eq!(at(1050), Some(0));
        assert_eq!(at(1140), Some(0));
        assert_eq!(at(1170), Some(1));
        assert_eq!(at(1345), Some(1));
        assert_eq!(at(1400), None);
        assert!(operation_at(&[], 5).is_none());
    }

    #[test]
    fn kinds_have_the_kernels_names() {
        let known =
            [(1, "LOOKUP"), (16, "WRITE"), (20, "FSYNC"), (35, "CREATE"), (45, "RENAME2"), (52, "STATX")];
        assert!(known.into_iter().all(|(opcode, name)| name_of(opcode) == name));
        assert_eq!(name_of(19), "opcode 19");
        assert_eq!(name_of(4096), "opcode 4096");
    }

    #[test]
    fn nothing_is_no_account() {
        let nothing = account(&[], &HashMap::new(), &[]);
        assert!(nothing.kinds.is_empty() && nothing.others.is_empty() && nothing.seconds == 0.0);
        assert_eq!(Times::default().total_mean_ns(), None);
    }
}
