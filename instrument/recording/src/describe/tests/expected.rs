//! What a workload does in a second on a target that keeps its rate: the means of its draws, and its own sizes.

use std::collections::BTreeMap;

use workload::{Distribution, Draw, FlowOp, Kind, Node, Value, Workload};

use crate::call::Call;
use crate::describe::Figures;

fn mean(workload: &Workload, value: Value) -> f64 {
    let Value::Draw(at) = value else { return value.fixed().unwrap_or(0) as f64 };
    let Draw { distribution, .. } = &workload.draws[at];
    match distribution {
        Distribution::Constant(value) => *value,
        // the whole part of a value from m to m + 1
        Distribution::Uniform { low, high } => (low + high) / 2.0 - 0.5,
        Distribution::Table { rows, .. } => {
            rows.iter().map(|row| row.percent / 100.0 * (row.low + row.high) / 2.0).sum()
        }
        other => panic!("describe uses no {other:?}"),
    }
}

/// Calls of a whole transfer.
fn pieces(workload: &Workload, op: &FlowOp, fileset: Option<usize>) -> f64 {
    let size = fileset.map_or(0.0, |at| mean(workload, workload.filesets[at].size));
    let piece = mean(workload, op.io_size);
    // sizes are spread: a file's last piece is half full on the average
    if piece == 0.0 || piece > size {
        return 1.0;
    }
    let fixed = fileset.is_some_and(|at| workload.filesets[at].size.fixed().is_some());
    if fixed { (size / piece).ceil() } else { size / piece + 0.5 }
}

fn add(
    workload: &Workload,
    body: &[Node],
    times: f64,
    of_slot: &mut BTreeMap<u8, usize>,
    to: &mut BTreeMap<Call, f64>,
) {
    for node in body {
        let op = match node {
            Node::Group { iters, body, .. } => {
                add(workload, body, times * mean(workload, *iters), of_slot, to);
                continue;
            }
            Node::Op(op) => op,
        };
        if let Some(set) = op.fileset {
            of_slot.insert(op.fd, set);
        }
        let times = times * mean(workload, op.iters);
        let set = op.fileset.or(of_slot.get(&op.fd).copied());
        let mut add = |call, times| *to.entry(call).or_default() += times;
        match op.kind {
            Kind::OpenFile | Kind::CreateFile => add(Call::Open, times),
            Kind::CloseFile => add(Call::Close, times),
            Kind::DeleteFile => add(Call::Unlink, times),
            Kind::StatFile => add(Call::Stat, times),
            Kind::Read => add(Call::Read, times),
            Kind::ReadWholeFile => add(Call::Read, times * pieces(workload, op, set)),
            Kind::Write | Kind::AppendFile => add(Call::Write, times),
            Kind::WriteWholeFile => add(Call::Write, times * pieces(workload, op, set)),
            Kind::Fsync if op.dsync => add(Call::Fdatasync, times),
            Kind::Fsync => add(Call::Fsync, times),
            Kind::EventLimit => {}
            other => panic!("no case has {other:?}"),
        }
    }
}

/// The figures of a second, its mix to a millionth.
pub fn figures(workload: &Workload) -> Figures {
    let events = workload.events_per_second.and_then(Value::fixed).unwrap() as f64;
    let mut calls = BTreeMap::new();
    for thread in workload.threads() {
        let Some(Node::Op(pace)) = thread.body.first() else { panic!("a loop begins with its pace") };
        let passes = events / mean(workload, pace.iters);
        add(workload, &thread.body, passes, &mut BTreeMap::new(), &mut calls);
    }
    Figures {
        calls_per_second: Some(calls.values().sum()),
        calls: calls.into_iter().map(|(call, rate)| (call, (rate * 1e6) as u64)).collect(),
        ..Figures::default()
    }
}
