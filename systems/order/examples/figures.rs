//! Prints what the model gives beside what the OPIMQ artifact (FAST'25) published and shipped.
//!
//! `figures [11|10|12|phases|mqfs|protocols|cost] [SECONDS] [dbench|varmail|sysbench] [SEED]`

use std::time::Instant;

use order::phases::Phase;
use order::programs::{self, write_sync};
use order::{Protocol, Report, Setup, Simulation, Sync};
use ssd::Profile;

/// 10 GiB, as the artifact makes it.
const JOURNAL: u32 = 2_621_440;
/// Left out at the beginning, ns.
const WARM_NS: u64 = 500_000_000;

/// (load, containers, EXT4, OPIMQ): thousands of operations a second; the points with `true` were fitted.
const FIGURE_10: [(&str, u32, f64, f64, bool); 15] = [
    ("dbench", 40, 56.9, 157.0, true),
    ("dbench", 100, 122.5, 267.0, false),
    ("dbench", 200, 196.0, 408.0, false),
    ("dbench", 400, 315.0, 637.0, true),
    ("dbench", 600, 412.0, 768.0, false),
    ("sysbench", 20, 0.83, 2.44, false),
    ("sysbench", 40, 1.62, 4.47, true),
    ("sysbench", 100, 3.72, 9.24, false),
    ("sysbench", 200, 6.29, 16.8, false),
    ("sysbench", 400, 10.2, 29.1, true),
    ("varmail", 40, 287.0, 398.0, true),
    ("varmail", 100, 390.0, 404.0, false),
    ("varmail", 200, 383.0, 388.0, false),
    ("varmail", 300, 375.0, 379.0, false),
    ("varmail", 400, 347.0, 400.0, true),
];

type Failure = Box<dyn std::error::Error>;

fn load(
    name: &str,
    n: u32,
    protocol: Protocol,
    pinning: bool,
    seconds: f64,
    seed: u64,
) -> Result<(f64, Report, f64), Failure> {
    let mut setup = Setup::testbed(protocol, Profile::named("980pro")?, n);
    setup.pinning = pinning;
    setup.layout = match name {
        "dbench" => programs::dbench_layout(n, JOURNAL),
        "varmail" => programs::varmail_layout(n, JOURNAL),
        _ => programs::sysbench_layout(JOURNAL),
    };
    if protocol == Protocol::BarrierFs {
        setup.queues = 1;
    }
    let clock = Instant::now();
    let mut sim = Simulation::new(setup)?;
    let started = match name {
        "sysbench" => programs::sysbench(&mut sim, n, seed),
        "dbench" => (0..n).try_for_each(|g| programs::dbench(&mut sim, g, seed)),
        _ => (0..n).try_for_each(|g| programs::varmail(&mut sim, g, seed)),
    };
    started.ok_or("the files do not fit")?;
    sim.run(WARM_NS);
    sim.reset_tally();
    sim.run(WARM_NS + (seconds * 1e9) as u64);
    let verdict = sim.audit();
    if !verdict.is_clean() && protocol != Protocol::Ext4NoBarrier {
        return Err(format!("{name} {n} {}: {verdict:?}", protocol.name()).into());
    }
    let report = sim.report();
    let rate = report.tally.counted as f64 / seconds / 1e3;
    Ok((rate, report, clock.elapsed().as_secs_f64()))
}

/// Seed of the programs.
fn seed() -> u64 {
    std::env::args().nth(4).and_then(|s| s.parse().ok()).unwrap_or(7)
}

/// Where a commit's time goes, us.
fn phases(seconds: f64, only: Option<&str>) -> Result<(), Failure> {
    print!("| load | N | protocol | calls | commit us |");
    Phase::ALL.iter().for_each(|p| print!(" {p:?} |"));
    println!("\n|---|---|---|---|---|{}", "---|".repeat(Phase::ALL.len()));
    for (name, n, ..) in FIGURE_10 {
        if only.is_some_and(|o| o != name) {
            continue;
        }
        for protocol in [Protocol::Ext4, Protocol::OpExt4] {
            let (_, r, _) = load(name, n, protocol, true, seconds, seed())?;
            let us = |ns: u64| ns as f64 / r.commits as f64 / 1e3;
            let calls = r.tally.durable.count() as f64 / (r.commits as f64 * seconds / (seconds + 0.5));
            let all: u64 = Phase::ALL.iter().map(|p| r.phases.ns(*p)).sum();
            print!("| {name} | {n} | {} | {calls:.0} | {:.0} |", protocol.name(), us(all));
            Phase::ALL.iter().for_each(|p| print!(" {:.0} |", us(r.phases.ns(*p))));
            println!();
        }
    }
    Ok(())
}

fn figure_10(seconds: f64, only: Option<&str>) -> Result<(), Failure> {
    println!(
        "| load | N | EXT4 | published | off | OPIMQ | published | off | ratio | published | | ms EXT4 | ms OPIMQ | per commit | busy | wall s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, n, ext4, op, fitted) in FIGURE_10 {
        if only.is_some_and(|o| o != name) {
            continue;
        }
        let (a, ra, ta) = load(name, n, Protocol::Ext4, true, seconds, seed())?;
        let (b, rb, tb) = load(name, n, Protocol::OpExt4, true, seconds, seed())?;
        let off = |got: f64, want: f64| (got / want - 1.0) * 100.0;
        let mean = |r: &Report| r.tally.durable.mean().unwrap_or(0.0) / 1e6;
        println!(
            "| {name} | {n} | {a:.2} | {ext4} | {:+.1} % | {b:.2} | {op} | {:+.1} % | {:.2} | {:.2} | {} | {:.1} | {:.1} | {:.0} / {:.0} | {:.2} / {:.2} | {ta:.1} + {tb:.1} |",
            off(a, ext4),
            off(b, op),
            b / a,
            op / ext4,
            if fitted { "fitted" } else { "" },
            mean(&ra),
            mean(&rb),
            ra.tally.durable.count() as f64 / (ra.commits as f64 * seconds / (seconds + 0.5)),
            rb.tally.durable.count() as f64 / (rb.commits as f64 * seconds / (seconds + 0.5)),
            ra.busy,
            rb.busy,
        );
    }
    Ok(())
}

/// Pairs of runs for Figure 12: a load on a full machine is chaotic, so single pairs differ by a few percent either way.
const PAIRS: u64 = 10;

fn figure_12(seconds: f64) -> Result<(), Failure> {
    println!(
        "| load at 40 | pinned | not pinned | difference, mean | lowest | highest | sent to a pinned queue |"
    );
    println!("|---|---|---|---|---|---|---|");
    for name in ["varmail", "sysbench", "dbench"] {
        let (mut on, mut off, mut away, mut pairs) = (0.0, 0.0, 0, Vec::new());
        for seed in 1..=PAIRS {
            let (a, r, _) = load(name, 40, Protocol::OpExt4, true, seconds, seed)?;
            let (b, _, _) = load(name, 40, Protocol::OpExt4, false, seconds, seed)?;
            (on, off, away) = (on + a, off + b, away + r.block.pinned_away);
            pairs.push((a / b - 1.0) * 100.0);
        }
        let n = PAIRS as f64;
        let (lowest, highest) = pairs.iter().fold((f64::MAX, f64::MIN), |(l, h), p| (l.min(*p), h.max(*p)));
        println!(
            "| {name} | {:.2} | {:.2} | {:+.2} % | {lowest:+.2} % | {highest:+.2} % | {away} |",
            on / n,
            off / n,
            (on / off - 1.0) * 100.0
        );
    }
    Ok(())
}

fn figure_11() -> Result<(), Failure> {
    println!(
        "| protocol | idle before | total ms | DMA, sum | DMA, union | flush | FUA | host | published total |\n|---|---|---|---|---|---|---|---|---|"
    );
    for (protocol, published) in [
        (Protocol::Ext4, "6.07 (README); 6.66 6.49 6.68 (logs, cold)"),
        (Protocol::OpExt4, "2.03 (README); 2.34 2.00 2.04 (logs, cold)"),
        (Protocol::Ext4NoFua, "about 3.5 (inferred)"),
        (Protocol::Ext4NoBarrier, "about 0.2 (inferred)"),
        (Protocol::BarrierFs, "-"),
        (Protocol::Horae, "-"),
        (Protocol::Mqfs, "-"),
    ] {
        for cold in [true, false] {
            let mut profile = Profile::named("980pro")?;
            profile.power.idle_states = cold;
            // Fitted on the shipped logs, which show 0.15-0.64 ms.
            profile.power.idle_wake_ns = 458_700;
            let mut setup = Setup::testbed(protocol, profile, 1);
            setup.traced = true;
            let mut sim = Simulation::new(setup)?;
            let file = sim.dir(0).and_then(|dir| sim.file(dir, 64, None)).ok_or("no room")?;
            let mut program = write_sync(file, if cold { 1 } else { 9 }, Sync::Fsync);
            let mut slept = false;
            sim.spawn("fio", move |view: order::View| {
                if std::mem::replace(&mut slept, true) {
                    program(view)
                } else {
                    order::Op::Sleep(1_000_000_000)
                }
            });
            sim.run(5_000_000_000);
            let (from, to) = sim.report().tally.last.ok_or("no sync")?;
            let s = sim.trace().split(from, to);
            let ms = |ns: u64| ns as f64 / 1e6;
            println!(
                "| {} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {published} |",
                protocol.name(),
                if cold { "1 s" } else { "no" },
                ms(s.total),
                ms(s.dma),
                ms(s.device.saturating_sub(s.flush + s.fua)),
                ms(s.flush),
                ms(s.fua),
                ms(s.host)
            );
        }
    }
    Ok(())
}

/// (load, containers, thousands of operations a second): what the artifact shipped of MQFS; with `true` fitted.
const MQFS: [(&str, u32, f64, bool); 8] = [
    ("dbench", 40, 27.7, true),
    ("dbench", 100, 25.0, false),
    ("dbench", 400, 21.9, true),
    ("dbench", 600, 29.9, false),
    ("sysbench", 40, 4.7, false),
    ("varmail", 40, 9.4, true),
    ("varmail", 100, 8.9, false),
    ("varmail", 200, 9.7, false),
];

fn mqfs(seconds: f64) -> Result<(), Failure> {
    println!(
        "| load | N | MQFS | published | off | | flushes/s | ms per sync |\n|---|---|---|---|---|---|---|---|"
    );
    for (name, n, published, fitted) in MQFS {
        let (rate, r, _) = load(name, n, Protocol::Mqfs, true, seconds, seed())?;
        println!(
            "| {name} | {n} | {rate:.2} | {published} | {:+.1} % | {} | {:.0} | {:.1} |",
            (rate / published - 1.0) * 100.0,
            if fitted { "fitted" } else { "" },
            r.device.flushes as f64 / (seconds + WARM_NS as f64 / 1e9),
            r.tally.durable.mean().unwrap_or(0.0) / 1e6,
        );
    }
    Ok(())
}

fn protocols(seconds: f64) -> Result<(), Failure> {
    println!("| load | N | protocol | k ops/s | ms per sync | wall s |\n|---|---|---|---|---|---|");
    for (name, n) in [("dbench", 40), ("dbench", 400), ("varmail", 40), ("sysbench", 40)] {
        for protocol in Protocol::ALL {
            let (rate, r, wall) = load(name, n, protocol, true, seconds, seed())?;
            let ms = r.tally.durable.mean().unwrap_or(0.0) / 1e6;
            println!("| {name} | {n} | {} | {rate:.2} | {ms:.2} | {wall:.1} |", protocol.name());
        }
    }
    Ok(())
}

/// What a simulation costs as containers grow: steps of virtual time and commands of the device a second of wall time.
fn cost(seconds: f64) -> Result<(), Failure> {
    println!(
        "| load | N | protocol | M steps | M commands | wall s | M steps/s | wall ms a container and virtual s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, counts) in [("dbench", [40, 100, 200, 400, 600].as_slice()), ("varmail", &[40, 100, 200, 400])]
    {
        for protocol in [Protocol::Ext4, Protocol::OpExt4] {
            for n in counts {
                let (_, report, wall) = load(name, *n, protocol, true, seconds, seed())?;
                let (steps, commands) = (report.steps as f64 / 1e6, report.device.commands as f64 / 1e6);
                let each = wall * 1e3 / f64::from(*n) / (report.now as f64 / 1e9);
                println!(
                    "| {name} | {n} | {} | {steps:.2} | {commands:.2} | {wall:.2} | {:.2} | {each:.2} |",
                    protocol.name(),
                    steps / wall
                );
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds: f64 = args.get(1).map_or(Ok(2.0), |s| s.parse())?;
    match args.first().map(String::as_str) {
        Some("11") => figure_11(),
        Some("10") => figure_10(seconds, args.get(2).map(String::as_str)),
        Some("12") => figure_12(seconds),
        Some("phases") => phases(seconds, args.get(2).map(String::as_str)),
        Some("mqfs") => mqfs(seconds),
        Some("protocols") => protocols(seconds),
        Some("cost") => cost(seconds),
        _ => {
            figure_11()?;
            figure_12(seconds)?;
            figure_10(seconds, None)
        }
    }
}
