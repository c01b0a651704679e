//! Long soak of the translation layer: `ftl_soak [--ops N] [--seed N]`. Every regime in turn, with and
//! without power-loss protection, on flash and on rewritable media, until N commands in all are done.

use ssd::Regime;
use ssd::soak::{Plan, soak};

fn argument(name: &str, default: u64) -> Result<u64, String> {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|a| a == name) {
        None => Ok(default),
        Some(i) => args
            .get(i + 1)
            .and_then(|v| v.parse().ok())
            .ok_or_else(|| format!("{name} needs a number, as in `{name} {default}`")),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ops = argument("--ops", 1_000_000)?;
    let seed = argument("--seed", 1)?;
    // Half of the commands in the streams regime, the rest over the others and the variants.
    let base = |regime, share| Plan::new(regime, (ops as f64 * share) as u64, seed);
    let plans = [
        base(Regime::Streams, 0.5),
        Plan { suspended_max: 24, jitter: 12.0, ..base(Regime::Streams, 0.1) },
        Plan { plp: true, ..base(Regime::Streams, 0.05) },
        Plan { in_place: true, ..base(Regime::Streams, 0.05) },
        base(Regime::Barrier, 0.1),
        base(Regime::Flush, 0.1),
        Plan { plp: true, ..base(Regime::Flush, 0.05) },
        base(Regime::None, 0.05),
    ];
    let (mut total, mut cuts) = (0, 0);
    for plan in plans {
        let r = soak(&plan)?;
        let s = r.stats;
        println!(
            "{:8} plp {:5} in-place {:5}: {} commands, {} cuts, {} programs, {} erases, {} map pages, \
             {} blocks moved",
            plan.regime.name(),
            plan.plp,
            plan.in_place,
            r.ops,
            r.cuts,
            s.host_programs + s.gc_programs,
            s.erases,
            s.journal_pages + s.segment_pages,
            s.moved_blocks,
        );
        total += r.ops;
        cuts += r.cuts;
    }
    println!("seed {seed}: {total} commands, {cuts} power cuts, no violation of P1-P10");
    Ok(())
}
