//! What the requests of a FUSE file system cost, as tables: by kind, by flowop, and those that no flowop sent.

use std::fmt::Write;

use analysis::fuse::{Account, FlowopShare, Kinds, Times};

use crate::format::{count, scaled};

/// Width of the names.
const NAME: usize = 22;

fn us(ns: Option<f64>) -> String {
    ns.map_or("-".into(), |ns| format!("{:.1}", ns / 1000.0))
}

fn per(sum: u64, operations: u64) -> Option<f64> {
    (operations > 0).then(|| sum as f64 / operations as f64)
}

/// All tables of `account`.
pub fn tables(account: &Account) -> String {
    let mut out = String::new();
    let all: u64 = account.kinds.iter().map(|(_, times)| times.count).sum();
    let _ = writeln!(
        out,
        "{} requests in {:.2} s; times in us, means but where it says otherwise",
        count(all),
        account.seconds
    );
    kinds(&mut out, "request", &account.kinds, account.seconds);
    if !account.flowops.is_empty() {
        let _ = writeln!(
            out,
            "\nfor each execution of a flowop; unsplit: in requests that the daemon was not seen to take\n\
             {:<NAME$} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "flowop", "ops", "requests", "queue", "daemon", "unsplit", "elsewhere", "total"
        );
        account.flowops.iter().for_each(|flowop| of_flowop(&mut out, flowop));
    }
    if !account.others.is_empty() {
        out += "\nsent by no flowop: written-back pages, read-ahead, releases, other programs\n";
        kinds(&mut out, "request", &account.others, account.seconds);
    }
    out
}

fn kinds(out: &mut String, title: &str, kinds: &Kinds, seconds: f64) {
    let _ = writeln!(
        out,
        "{title:<NAME$} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "count", "per s", "queue", "daemon", "total", "p50", "p99", "max"
    );
    for (name, times) in kinds {
        let rate = if seconds > 0.0 { scaled(times.count as f64 / seconds) } else { "-".into() };
        let _ = writeln!(
            out,
            "{name:<NAME$} {:>9} {rate:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            count(times.count),
            us(times.queue_mean_ns()),
            us(times.daemon_mean_ns()),
            us(times.total_mean_ns()),
            us(Some(times.p50_ns as f64)),
            us(Some(times.p99_ns as f64)),
            us(Some(times.max_ns as f64)),
        );
    }
}

fn of_flowop(out: &mut String, flowop: &FlowopShare) {
    let operations = flowop.operations;
    let sum = |of: fn(&Times) -> u64| flowop.requests.iter().map(|(_, times)| of(times)).sum::<u64>();
    let line =
        |out: &mut String, name: &str, ops: String, parts: [Option<f64>; 4], rest: [Option<f64>; 2]| {
            let [requests, queue, daemon, unsplit] = parts;
            let requests = requests.map_or("-".into(), |n| format!("{n:.2}"));
            let _ = writeln!(
                out,
                "{name:<NAME$} {ops:>9} {requests:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                us(queue),
                us(daemon),
                us(unsplit),
                us(rest[0]),
                us(rest[1])
            );
        };
    let parts = |sum: &dyn Fn(fn(&Times) -> u64) -> u64| {
        let (count, split) = (sum(|times| times.count), sum(|times| times.split));
        let seen = |ns| if split > 0 { per(ns, operations) } else { None };
        let (queue, daemon) = (sum(|times| times.queue_ns), sum(|times| times.daemon_ns));
        let unsplit = sum(|times| times.total_ns).saturating_sub(queue + daemon);
        [per(count, operations), seen(queue), seen(daemon), per(unsplit, operations)]
    };
    let all = parts(&sum);
    let rest = [flowop.elsewhere_mean_ns(), per(flowop.total_ns, operations)];
    line(out, &flowop.name, count(operations), all, rest);
    for (name, times) in &flowop.requests {
        let own = parts(&|of| of(times));
        line(out, &format!("  {name}"), String::new(), own, [None, per(times.total_ns, operations)]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use analysis::fuse::{Flowop, Operation, Request, account};

    use super::*;

    #[test]
    fn the_tables_show_where_the_time_is() {
        let request = |opcode, tid, sent_us: u64, taken_us: Option<u64>, ended_us: u64| Request {
            opcode,
            tid,
            sent_ns: sent_us * 1000,
            taken_ns: taken_us.map(|us| us * 1000),
            ended_ns: ended_us * 1000,
        };
        let requests = [
            request(16, 7, 110, Some(130), 160),
            request(3, 7, 170, Some(175), 180),
            request(16, 7, 410, Some(420), 430),
            request(18, 9, 600, None, 1_000_110),
            request(3, 7, 440, None, 480),
        ];
        let operation = |start_us: u64, end_us: u64| Operation {
            flowop: 0,
            start_ns: start_us * 1000,
            end_ns: end_us * 1000,
        };
        let threads = HashMap::from([(7, vec![operation(100, 300), operation(400, 600)])]);
        let flowops = [Flowop { name: "log".into(), operations: 2, total_ns: 400_000 }];
        let shown = tables(&account(&requests, &threads, &flowops));
        let expected = "\
5 requests in 1.00 s; times in us, means but where it says otherwise
request                    count     per s     queue    daemon     total       p50       p99       max
RELEASE                        1      1.00         -         -  999510.0  999510.0  999510.0  999510.0
WRITE                          2      2.00      15.0      20.0      35.0      20.0      50.0      50.0
GETATTR                        2      2.00       5.0       5.0      25.0      10.0      40.0      40.0

for each execution of a flowop; unsplit: in requests that the daemon was not seen to take
flowop                       ops  requests     queue    daemon   unsplit elsewhere     total
log                            2      2.00      17.5      22.5      20.0     140.0     200.0
  WRITE                               1.00      15.0      20.0       0.0         -      35.0
  GETATTR                             1.00       2.5       2.5      20.0         -      25.0

sent by no flowop: written-back pages, read-ahead, releases, other programs
request                    count     per s     queue    daemon     total       p50       p99       max
RELEASE                        1      1.00         -         -  999510.0  999510.0  999510.0  999510.0
";
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn nothing_is_a_table_without_lines() {
        assert!(tables(&Account::default()).starts_with("0 requests in 0.00 s"));
    }
}
