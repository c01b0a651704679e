//! Statistics as text: what was done for each file, and why not more.

use std::fmt::Write as _;

use crate::area::{DeviceSeen, FileSeen, Snapshot};
use prefetch::{Mode, Reason, Shape};

use crate::areas::Found;

/// Bytes in a unit that keeps the number short.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value} B") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

/// A time in a unit that keeps the number short.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// One line for each process, under a heading.
pub fn table(found: &[Found]) -> String {
    let mut text = format!(
        "{:>7} {:<14} {:<9} {:>5} {:>10} {:>8} {:>10} {:>10} {:>8}\n",
        "pid", "program", "mode", "files", "read", "blocked", "prefetched", "useful", "saved"
    );
    for Found { snapshot, alive } in found {
        let total = snapshot.total();
        let _ = writeln!(
            text,
            "{:>7} {:<14.14} {:<9} {:>5} {:>10} {:>8} {:>10} {:>10} {:>8}{}",
            snapshot.pid,
            snapshot.name,
            snapshot.mode.name(),
            snapshot.files.len(),
            bytes(total.bytes),
            time(total.blocked_ns),
            bytes(total.issued),
            bytes(total.useful),
            time(total.saved_ns),
            if *alive { "" } else { "  ended" }
        );
    }
    text
}

/// Everything about one process: devices, each file with what was done and why.
pub fn explain(found: &Found) -> String {
    let snapshot = &found.snapshot;
    let mut text = format!(
        "{} ({}), mode {}{}\n",
        snapshot.name,
        snapshot.pid,
        snapshot.mode.name(),
        if found.alive { "" } else { ", ended" }
    );
    if snapshot.panics > 0 {
        text += "prefetching ended: the library failed and turned itself off (please report this)\n";
    }
    if snapshot.lost > 0 {
        let _ = writeln!(text, "{} of the kernel's events were lost: reads went by unseen", snapshot.lost);
    }
    if snapshot.hook_ns > 0 {
        let _ = writeln!(text, "cost: about {} in the program's calls", time(snapshot.hook_ns));
    }
    for device in &snapshot.devices {
        text += &self::device(device);
    }
    let (walked, used) = snapshot.walked;
    if walked > 0 {
        let _ = writeln!(text, "files in order: {walked} fetched ahead, {used} of them opened");
    }
    if snapshot.files.is_empty() {
        text += "no file was read often enough to be watched\n";
    }
    for file in &snapshot.files {
        text += &self::file(file, snapshot.mode);
    }
    if snapshot.mode == Mode::Observe {
        text += &estimate(found);
    }
    text
}

fn device(device: &DeviceSeen) -> String {
    let (major, minor) = (libc::major(device.number), libc::minor(device.number));
    let mut text = format!("device {major}:{minor}: ");
    if device.latency_ns == 0 {
        text += "no miss measured yet";
    } else {
        let _ = write!(text, "latency {}", time(device.latency_ns));
    }
    if device.latency_ns > 0 {
        let _ = write!(text, ", taken to deliver {:.0} MB/s", device.rate as f64 / 1e6);
    }
    text + "\n"
}

fn file(file: &FileSeen, mode: Mode) -> String {
    let c = &file.counters;
    let shape = match file.shape {
        Shape::Unknown => "no order".to_owned(),
        Shape::Forward => "forward".to_owned(),
        Shape::Backward => "backward".to_owned(),
        Shape::Stride(stride) => {
            format!("stride {}{}", if stride < 0 { "-" } else { "" }, bytes(stride.unsigned_abs()))
        }
    };
    let mut text = format!("{} ({})\n", file.path, bytes(file.size));
    let _ = writeln!(
        text,
        "    {} reads, {}, {shape}; {} of them missed, {} blocked",
        c.reads,
        bytes(c.bytes),
        c.slow,
        time(c.blocked_ns)
    );
    let _ = writeln!(text, "    {}", file.reason.text());
    if c.issued > 0 {
        let _ = writeln!(
            text,
            "    prefetched {}: {} of it read, {} reads came too early",
            bytes(c.issued),
            bytes(c.useful),
            c.late
        );
    }
    let saved_ns = Snapshot::saved_ns(c, mode);
    if saved_ns > 0 {
        let verb = if mode == Mode::Observe { "would save" } else { "saved" };
        let _ = writeln!(text, "    {verb} about {}", time(saved_ns));
    }
    if file.reason == Reason::Prefetching {
        let _ = writeln!(text, "    depth {}", bytes(file.depth));
    }
    text
}

/// What prefetching would have saved, after a run that was only observed.
pub fn estimate(found: &Found) -> String {
    let total = found.snapshot.total();
    if total.saved_ns == 0 {
        return format!("{}: prefetching would save nothing here\n", found.snapshot.name);
    }
    format!(
        "{}: blocked {} on misses; prefetching would save about {} of that\n",
        found.snapshot.name,
        time(total.blocked_ns),
        time(total.saved_ns.min(total.blocked_ns))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefetch::Counters;

    fn found() -> Found {
        let counters = Counters {
            reads: 1000,
            bytes: 64 << 20,
            slow: 40,
            blocked_ns: 40_000_000,
            issued: 60 << 20,
            useful: 59 << 20,
            saved_ns: 900_000_000,
            late: 3,
        };
        let file = FileSeen {
            path: "/data/big.db".to_owned(),
            size: 100 << 20,
            reason: Reason::Prefetching,
            shape: Shape::Stride(-327_680),
            depth: 4 << 20,
            counters,
        };
        let device = DeviceSeen { number: libc::makedev(7, 1), latency_ns: 1_000_000, rate: 900_000_000 };
        Found {
            snapshot: Snapshot {
                pid: 42,
                name: "sqlite3".to_owned(),
                mode: Mode::Auto,
                hook_calls: 0,
                hook_ns: 2_000_000,
                walked: (10, 9),
                panics: 0,
                lost: 0,
                devices: vec![device],
                files: vec![file],
            },
            alive: false,
        }
    }

    #[test]
    fn explain_says_what_was_done() {
        let expected = "\
sqlite3 (42), mode auto, ended
cost: about 2.0 ms in the program's calls
device 7:1: latency 1.0 ms, taken to deliver 900 MB/s
files in order: 10 fetched ahead, 9 of them opened
/data/big.db (100.0 MiB)
    1000 reads, 64.0 MiB, stride -320.0 KiB; 40 of them missed, 40.0 ms blocked
    prefetching ahead of a confirmed stream
    prefetched 60.0 MiB: 59.0 MiB of it read, 3 reads came too early
    saved about 421.5 ms
    depth 4.0 MiB
";
        assert_eq!(explain(&found()), expected);
    }

    #[test]
    fn the_table_has_a_line_for_each_process() {
        let text = table(&[found(), found()]);
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }

    #[test]
    fn an_estimate_never_exceeds_what_was_lost() {
        let mut found = found();
        found.snapshot.mode = Mode::Observe;
        assert_eq!(
            estimate(&found),
            "sqlite3: blocked 40.0 ms on misses; prefetching would save about 40.0 ms of that\n"
        );
        found.snapshot.files.clear();
        assert_eq!(estimate(&found), "sqlite3: prefetching would save nothing here\n");
        assert!(explain(&found).contains("no file was read often enough"));
    }
}
