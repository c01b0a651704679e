//! Measures loadline itself, as ratios taken side by side in one run: to a bare loop of the same system calls on the same
//! files, to fio with the same job, to sysbench on the same tables, to db_bench and redis-benchmark on the same engines. `make bench` runs it; `docs/performance.md` keeps the figures.
//!
//! | module | holds |
//! |---|---|
//! | `cases` | the flows: WML for the engine beside the same calls written out |
//! | `bare` | the harness of the bare loops |
//! | `fio` | fio jobs and their counterparts |
//! | `image` | ext4 in an image of its own |
//! | `ior` | IOR and mdtest themselves beside the loads of their names |
//! | `sysbench` | sysbench's mixes on one server |
//! | `kv` | db_bench's patterns, redis-benchmark's commands |
//! | `pure` | planning of filesets, parsing of WML |
//! | `scale` | thousands of ranks added, a hundred shards merged |
//! | `pairs` | taking turns, ratios, medians |
//! | `trust` | whether verdicts are right: the same against the same, and planted differences |

mod bare;
mod cases;
mod fio;
mod image;
mod ior;
mod kv;
mod pairs;
mod pure;
mod scale;
mod sysbench;
mod trust;

use clap::Parser;

/// Ratios of loadline's engine to bare loops of the same system calls, and to fio.
#[derive(Debug, Parser)]
#[command(
    after_help = "Examples:\n  loadline-bench\n  loadline-bench --only statfile --rounds 11\n  loadline-bench --only fio"
)]
struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Measurements of each side, in turns.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only cases whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Directory on a tmpfs for the files.
    #[arg(long, default_value = "/dev/shm")]
    tmpfs: std::path::PathBuf,
    /// Directory on a disk for the image of the io_uring case.
    #[arg(long, default_value = "/var/tmp")]
    disk: std::path::PathBuf,
}

/// What else is measured.
#[derive(Debug, clap::Subcommand)]
enum What {
    /// Whether verdicts are right, on this machine as it is: the same against the same, and planted differences
    Trust(trust::Trust),
    /// Work of a known amount
    #[command(hide = true)]
    Spin {
        /// Additions.
        additions: u64,
    },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    match &arguments.what {
        Some(What::Trust(trust)) => {
            std::process::exit(match trust::trust(trust)? {
                trust::Trusted::Met => 0,
                trust::Trusted::Missed => 1,
                trust::Trusted::Interrupted => 130,
            });
        }
        Some(What::Spin { additions }) => {
            trust::spin::spin(*additions);
            return Ok(());
        }
        None => {}
    }
    let pairs = pairs::Pairs { seconds: arguments.seconds, rounds: arguments.rounds.max(1) };
    pairs::print_machine();
    let wanted = |name: &str| name.contains(&arguments.only);
    pairs::print_header("bare loop");
    for case in cases::ALL.iter().filter(|case| wanted(case.name)) {
        for threads in [1, 2, 16] {
            cases::measure(case, threads, &pairs, &arguments.tmpfs)?;
        }
    }
    if "fio".contains(&arguments.only) || wanted("fio") {
        pairs::print_header("fio");
        fio::measure(&pairs, &arguments.tmpfs, &arguments.disk)?;
    }
    if ior::is_meant(&arguments.only) {
        ior::measure(&pairs, &arguments.tmpfs, &arguments.disk, &arguments.only)?;
    }
    if arguments.only.is_empty() || "sysbench".contains(&arguments.only) || arguments.only.contains("oltp") {
        pairs::print_header("sysbench");
        sysbench::measure(&pairs, &arguments.tmpfs, &arguments.only)?;
    }
    if ["", "kv", "random rocksdb", "redis"].iter().any(|case| case.contains(&arguments.only))
        || ["rocksdb", "redis", "readrandom", "fillrandom"].iter().any(|case| arguments.only.contains(case))
    {
        kv::measure(&pairs, &arguments.tmpfs, &arguments.only)?;
    }
    if wanted("pure") {
        pure::measure()?;
    }
    if wanted("scale") {
        scale::measure(&arguments.tmpfs)?;
    }
    Ok(())
}
