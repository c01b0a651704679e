//! A thread's loop body, flattened: composite flowops become counted loops, names become indices.

use std::collections::HashMap;
use std::sync::Arc;

use stats::outcome::{Direction, OpClass};
use workload::{Draw, FlowOp, Kind, Node, Thread, Value, Workload};

use crate::event::Event;
use crate::limit::Schedule;
use crate::sync::Semaphore;

/// One instruction.
#[derive(Debug, Clone)]
pub enum Instruction {
    /// Execute a flowop, `iters` times.
    Run(usize),
    /// Enter a composite flowop: its body `iters` times; past `end` when that is 0.
    Enter {
        /// Executions.
        iters: Value,
        /// Index of the instruction after the matching [`Instruction::Leave`].
        end: usize,
    },
    /// Once more from `start`, or on.
    Leave {
        /// Index of the first instruction of the body.
        start: usize,
    },
}

/// A flowop ready to run.
#[derive(Debug, Clone)]
pub struct Op {
    /// The flowop.
    pub flow: FlowOp,
    /// Line of the result that it counts in.
    pub line: usize,
    /// Flowops of the same thread that `target` names, for limiters and finish conditions.
    pub watched: Vec<usize>,
    /// Semaphores of the `semblock` that `target` names, or the own ones of a `semblock`: one for each instance.
    pub semaphores: Arc<Vec<Semaphore>>,
    /// The own event of a `block`, or that of the target of a `wakeup`.
    pub event: Option<Arc<Event>>,
    /// The schedule of a limiter; `None`: it lets everything pass.
    pub schedule: Option<Arc<Schedule>>,
    /// Counts in the I/O summary.
    pub is_io: bool,
    /// Any class but composite: counts for `opslimit` and targetless `finishoncount`.
    pub direction: Direction,
}

/// The program of one thread definition.
#[derive(Debug, Clone)]
pub struct Program {
    /// The instructions.
    pub code: Vec<Instruction>,
    /// The flowops that they run.
    pub ops: Vec<Op>,
    /// I/O operations of one pass when nothing is skipped; drawn iteration counts are there with their mean.
    pub io_ops_per_pass: f64,
    /// Largest slot number in use.
    pub slots: usize,
    /// Largest transfer that the fixed attributes ask for; drawn sizes grow the buffer when they exceed it.
    pub transfer_bytes: u64,
    /// Largest one of those that write; 0: nothing writes.
    pub write_bytes: u64,
}

/// A line of the result: flowops of the same name share one.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name.
    pub name: String,
    /// Type, `composite` for composites.
    pub kind: &'static str,
    /// Class.
    pub class: OpClass,
    /// Read, write or neither.
    pub direction: Direction,
}

/// All programs of a workload, and what they share.
#[derive(Debug)]
pub struct Programs {
    /// `[process][thread]`, as defined.
    pub programs: Vec<Vec<Program>>,
    /// Lines of the result, in order of definition.
    pub lines: Vec<Line>,
    /// Some flowop needs the process's totals.
    pub needs_totals: bool,
    /// Every event that a thread may wait on, to wake all at the end.
    pub events: Vec<Arc<Event>>,
}

/// Filebench's class of a flowop.
pub fn class_of(kind: Kind) -> OpClass {
    match kind {
        Kind::AioWrite | Kind::AioWait => OpClass::Aio,
        Kind::SemBlock | Kind::SemPost | Kind::Block | Kind::Wakeup => OpClass::Sync,
        Kind::EventLimit
        | Kind::IopsLimit
        | Kind::OpsLimit
        | Kind::BwLimit
        | Kind::FinishOnCount
        | Kind::FinishOnBytes
        | Kind::Delay
        | Kind::Hog
        | Kind::Print
        | Kind::TestRandVar => OpClass::Other,
        _ => OpClass::Io,
    }
}

/// Whether a flowop counts as a read or a write.
pub fn direction_of(kind: Kind) -> Direction {
    match kind {
        Kind::Read | Kind::ReadWholeFile => Direction::Read,
        Kind::Write | Kind::WriteWholeFile | Kind::AppendFile | Kind::AppendFileRand | Kind::AioWrite => {
            Direction::Write
        }
        _ => Direction::Neither,
    }
}

/// Whether any flowop of `workload` writes data.
pub fn writes_anything(workload: &Workload) -> bool {
    let mut writes = false;
    for thread in workload.threads() {
        visit(&thread.body, &mut |flow| writes |= direction_of(flow.kind) == Direction::Write);
    }
    writes
}

impl Programs {
    /// Flattens every thread of `workload`.
    pub fn compile(workload: &Workload) -> Programs {
        let shared = Shared::collect(workload);
        let mut lines = Lines::default();
        let programs = workload
            .processes
            .iter()
            .map(|process| {
                process.threads.iter().map(|thread| compile_thread(thread, &shared, &mut lines)).collect()
            })
            .collect();
        let events = shared.blocks.into_values().collect();
        Programs { programs, lines: lines.lines, needs_totals: shared.needs_totals, events }
    }
}

#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    by_name: HashMap<String, usize>,
}

impl Lines {
    fn line(&mut self, name: &str, kind: &'static str, class: OpClass, direction: Direction) -> usize {
        *self.by_name.entry(name.to_owned()).or_insert_with(|| {
            self.lines.push(Line { name: name.to_owned(), kind, class, direction });
            self.lines.len() - 1
        })
    }
}

/// What flowops of different threads share by name.
struct Shared {
    semaphores: HashMap<String, Arc<Vec<Semaphore>>>,
    blocks: HashMap<String, Arc<Event>>,
    schedules: HashMap<String, Arc<Schedule>>,
    needs_totals: bool,
    /// Means of the random variables.
    means: Vec<f64>,
}

impl Shared {
    fn collect(workload: &Workload) -> Shared {
        let mut shared = Shared {
            semaphores: HashMap::new(),
            blocks: HashMap::new(),
            schedules: HashMap::new(),
            needs_totals: false,
            means: workload.draws.iter().map(Draw::mean_count).collect(),
        };
        let rate = workload.events_per_second.and_then(Value::fixed).unwrap_or(0) as f64;
        for process in &workload.processes {
            for thread in &process.threads {
                let instances = process.instances.saturating_mul(thread.instances);
                visit(&thread.body, &mut |flow| shared.add(flow, instances, rate));
            }
        }
        shared
    }

    /// The mean of a count.
    fn mean(&self, count: Value) -> f64 {
        match count {
            Value::Int(fixed) => fixed as f64,
            Value::Draw(index) => self.means.get(index).copied().unwrap_or(0.0),
        }
    }

    fn add(&mut self, flow: &FlowOp, instances: u64, rate: f64) {
        let name = || flow.name.clone();
        match flow.kind {
            Kind::SemBlock => {
                let each = (0..instances).map(|_| Semaphore::new(flow.highwater)).collect();
                self.semaphores.insert(name(), Arc::new(each));
            }
            Kind::Block => {
                self.blocks.insert(name(), Arc::default());
            }
            Kind::EventLimit | Kind::IopsLimit | Kind::OpsLimit | Kind::BwLimit => {
                // `bwlimit` counts bytes at the rate's MiB/s.
                let unit = if flow.kind == Kind::BwLimit { (1 << 20) as f64 } else { 1.0 };
                if let Some(schedule) = Schedule::new(rate * unit) {
                    self.schedules.insert(name(), Arc::new(schedule));
                }
            }
            Kind::FinishOnCount | Kind::FinishOnBytes if flow.target.is_none() => self.needs_totals = true,
            _ => {}
        }
    }
}

fn visit(body: &[Node], with: &mut impl FnMut(&FlowOp)) {
    for node in body {
        match node {
            Node::Op(flow) => with(flow),
            Node::Group { body, .. } => visit(body, with),
        }
    }
}

fn compile_thread(thread: &Thread, shared: &Shared, lines: &mut Lines) -> Program {
    let mut program = Program {
        code: Vec::new(),
        ops: Vec::new(),
        io_ops_per_pass: 0.0,
        slots: 1,
        transfer_bytes: 0,
        write_bytes: 0,
    };
    program.add(&thread.body, 1.0, shared, lines);
    let names: Vec<String> = program.ops.iter().map(|op| op.flow.name.clone()).collect();
    for op in &mut program.ops {
        if let Some(target) = &op.flow.target {
            op.watched = (0..names.len()).filter(|&index| names[index] == *target).collect();
        }
    }
    program
}

impl Program {
    fn add(&mut self, body: &[Node], times: f64, shared: &Shared, lines: &mut Lines) {
        for node in body {
            match node {
                Node::Op(flow) => {
                    self.code.push(Instruction::Run(self.ops.len()));
                    self.add_op(flow, times, shared, lines);
                }
                Node::Group { name, iters, body } => {
                    lines.line(name, "composite", OpClass::Composite, Direction::Neither);
                    let enter = self.code.len();
                    self.code.push(Instruction::Enter { iters: *iters, end: 0 });
                    self.add(body, times * shared.mean(*iters), shared, lines);
                    self.code.push(Instruction::Leave { start: enter + 1 });
                    self.code[enter] = Instruction::Enter { iters: *iters, end: self.code.len() };
                }
            }
        }
    }

    fn add_op(&mut self, flow: &FlowOp, times: f64, shared: &Shared, lines: &mut Lines) {
        let class = class_of(flow.kind);
        let direction = direction_of(flow.kind);
        let is_io = matches!(class, OpClass::Io | OpClass::Aio);
        if is_io {
            self.io_ops_per_pass += times * shared.mean(flow.iters);
        }
        let highest = if flow.open_next { 127 } else { flow.fd.max(flow.src_fd).min(127) };
        self.slots = self.slots.max(usize::from(highest) + 1);
        let size = flow.io_size.fixed().unwrap_or(0);
        self.transfer_bytes = self.transfer_bytes.max(size);
        if direction == Direction::Write {
            self.write_bytes = self.write_bytes.max(size.max(1));
        }
        let named = flow.target.as_deref().unwrap_or("");
        let semaphores = match flow.kind {
            Kind::SemBlock => shared.semaphores.get(&flow.name),
            Kind::SemPost => shared.semaphores.get(named),
            _ => None,
        };
        let event = match flow.kind {
            Kind::Block => shared.blocks.get(&flow.name),
            Kind::Wakeup => shared.blocks.get(named),
            _ => None,
        };
        self.ops.push(Op {
            line: lines.line(&flow.name, flow.kind.name(), class, direction),
            flow: flow.clone(),
            watched: Vec::new(),
            semaphores: semaphores.cloned().unwrap_or_default(),
            event: event.cloned(),
            schedule: shared.schedules.get(&flow.name).cloned(),
            is_io,
            direction,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(body: Vec<Node>) -> Thread {
        Thread {
            name: "t".into(),
            instances: 1,
            memory_bytes: Value::Int(0),
            io_priority: None,
            body,
            stream: None,
        }
    }

    fn compile(body: Vec<Node>, rate: Option<u64>) -> Programs {
        let process =
            workload::Process { name: "p".into(), instances: 3, nice: 0, threads: vec![thread(body)] };
        Programs::compile(&Workload {
            processes: vec![process],
            events_per_second: rate.map(Value::Int),
            ..Workload::default()
        })
    }

    fn op(name: &str, kind: Kind) -> Node {
        Node::Op(FlowOp::new(name, kind))
    }

    #[test]
    fn composites_become_loops() {
        let inner = Node::Group {
            name: "g".into(),
            iters: Value::Int(6),
            body: vec![op("g.a", Kind::Read), op("g.b", Kind::Write)],
        };
        let programs = compile(vec![op("x", Kind::StatFile), inner], None);
        let program = &programs.programs[0][0];
        assert_eq!(program.io_ops_per_pass, 13.0);
        assert!(matches!(program.code[1], Instruction::Enter { end: 5, .. }));
        assert!(matches!(program.code[4], Instruction::Leave { start: 2 }));
        let names: Vec<_> = programs.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["x", "g", "g.a", "g.b"]);
    }

    /// `iters=$v` of a mean of 10, in a composite of a mean of 2.5, and a fixed one.
    #[test]
    fn drawn_iterations_count_with_their_mean() {
        let table = |low: f64, high: f64| workload::Draw {
            name: "v".into(),
            seed: 0,
            distribution: workload::Distribution::Uniform { low, high },
            round: 1,
            rounding: workload::Rounding::Nearest,
            clamp_min: None,
            clamp_max: None,
        };
        let mut drawn = FlowOp::new("r", Kind::Read);
        drawn.iters = Value::Draw(0);
        let group = Node::Group {
            name: "g".into(),
            iters: Value::Draw(1),
            body: vec![Node::Op(drawn), op("s", Kind::StatFile)],
        };
        let process = workload::Process {
            name: "p".into(),
            instances: 1,
            nice: 0,
            threads: vec![thread(vec![group, op("x", Kind::Write)])],
        };
        let programs = Programs::compile(&Workload {
            processes: vec![process],
            draws: vec![table(1.0, 19.0), table(2.0, 3.0)],
            ..Workload::default()
        });
        let mean = programs.programs[0][0].io_ops_per_pass;
        assert!((mean - (2.5 * (10.0 + 1.0) + 1.0)).abs() < 0.2, "{mean}");
    }

    #[test]
    fn a_limiter_without_a_rate_has_no_schedule() {
        for (rate, limited) in [(None, false), (Some(0), false), (Some(10), true)] {
            let programs = compile(vec![op("l", Kind::EventLimit)], rate);
            assert_eq!(programs.programs[0][0].ops[0].schedule.is_some(), limited, "rate {rate:?}");
        }
    }

    #[test]
    fn a_semaphore_stands_for_each_instance_of_its_thread() {
        let mut post = FlowOp::new("post", Kind::SemPost);
        post.target = Some("sem".into());
        let programs = compile(vec![op("sem", Kind::SemBlock), Node::Op(post)], None);
        let ops = &programs.programs[0][0].ops;
        assert_eq!(ops[0].semaphores.len(), 3);
        assert!(Arc::ptr_eq(&ops[0].semaphores, &ops[1].semaphores));
    }

    #[test]
    fn flowops_of_one_name_share_a_line() {
        let programs = compile(vec![op("a", Kind::Read), op("a", Kind::Read)], None);
        assert_eq!(programs.lines.len(), 1);
    }
}
