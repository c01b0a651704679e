//! What the library costs a program that gains nothing: CPU time of the same command without and with it, in turns on
//! one CPU, or `--together`: both run at a time and share the CPU in slices, so that other load hits both alike.
//!
//!     cargo run --release -p loadline-prefetch-preload --example price -- [--library SO] [--pairs N] [--together] CMD ARG...
//!
//! In the place of a command, `pread FILE N`, `threads FILE N` (two, a descriptor each), `shared FILE N` (two, one
//! descriptor), `read FILE BYTES N`, `fread FILE N` (100 bytes each) and `execs N` are loops of this program itself. Loops of
//! two threads run on all CPUs.

use std::ffi::CString;
use std::fs::File;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "loop") {
        return play(&arguments[1..]);
    }
    let mut option = |name: &str, has_value: bool| {
        let at = arguments.iter().position(|word| word == name)?;
        let word = arguments.remove(at);
        Some(if has_value { arguments.remove(at) } else { word })
    };
    let together = option("--together", false).is_some();
    let pairs: usize = option("--pairs", true).map_or(30, |text| text.parse().expect("a number of pairs"));
    let library = option("--library", true).unwrap_or_else(|| {
        let own = std::env::current_exe().expect("this program");
        own.parent().unwrap().parent().unwrap().join("libloadline_prefetch.so").display().to_string()
    });
    let name = arguments.first().cloned().unwrap_or_default();
    if ["pread", "threads", "shared", "read", "fread", "execs"].contains(&name.as_str()) {
        arguments.insert(0, "loop".into());
        arguments.insert(0, std::env::current_exe().expect("this program").display().to_string());
    }
    let threads = ["threads", "shared"].contains(&name.as_str());
    if !threads {
        // SAFETY: the set is valid for its size.
        unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            libc::CPU_SET(0, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        }
    }
    cpu_seconds(begin(&arguments, None));
    let mut taken: [Vec<f64>; 2] = Default::default();
    let mut ratios: Vec<f64> = (0..pairs)
        .map(|pair| {
            // Which is first changes, so that drift hits both.
            let mut waiting = Vec::new();
            for with in [pair % 2 == 1, pair % 2 == 0] {
                waiting.push((with, begin(&arguments, with.then_some(&library))));
                if !together || waiting.len() == 2 {
                    waiting
                        .drain(..)
                        .for_each(|(with, child)| taken[usize::from(with)].push(cpu_seconds(child)));
                }
            }
            taken[1][pair] / taken[0][pair]
        })
        .collect();
    taken.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    ratios.sort_by(f64::total_cmp);
    let [alone, with] = &taken;
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let middle = |sorted: &[f64]| (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
    // 95 % of the median of independent pairs: order statistics by the normal approximation of the binomial.
    let reach = (0.98 * (pairs as f64).sqrt()).ceil() as usize;
    let (low, high) = ((pairs / 2).saturating_sub(reach), (pairs / 2 + reach).min(pairs - 1));
    println!(
        "CPU s: alone {:.4}, with {:.4} (medians of {pairs}); added: {:+.2} % (95 %: {:+.2} to {:+.2}), fastest {:+.2} %",
        middle(alone),
        middle(with),
        percent(middle(&ratios)),
        percent(ratios[low]),
        percent(ratios[high]),
        percent(with[0] / alone[0]),
    );
}

/// Starts a command.
fn begin(arguments: &[String], library: Option<&String>) -> Child {
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(library) = library {
        command.env("LD_PRELOAD", library).env("LOADLINE_PREFETCH", "auto");
    }
    command.spawn().expect("the command")
}

/// CPU time of a command and its children at its end, s.
fn cpu_seconds(child: Child) -> f64 {
    // SAFETY: the child is ours and was not waited for; the structures are valid for writing.
    let usage = unsafe {
        let (mut status, mut usage) = (0, zeroed::<libc::rusage>());
        assert_eq!(libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage), child.id() as i32);
        usage
    };
    [usage.ru_utime, usage.ru_stime].iter().map(|t| t.tv_sec as f64 + t.tv_usec as f64 / 1e6).sum::<f64>()
}

fn play(arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<usize>().expect("a number");
    if arguments[0] == "execs" {
        let script = format!("i=0; while [ $i -lt {} ]; do /bin/true; i=$((i+1)); done", number(1));
        let error = Command::new("sh").args(["-c", &script]).exec();
        panic!("{error}");
    }
    let file = File::open(&arguments[1]).expect("the file");
    let size = file.metadata().expect("the file").len();
    let mut block = [0u8; 4096];
    let fd = file.as_raw_fd();
    match arguments[0].as_str() {
        "pread" => preads(&file, number(2)),
        "threads" | "shared" => std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| match arguments[0].as_str() {
                    "shared" => preads(&file, number(2)),
                    _ => preads(&File::open(&arguments[1]).expect("the file"), number(2)),
                });
            }
        }),
        "read" => {
            let mut left = 0;
            for _ in 0..number(3) {
                if left == 0 {
                    // SAFETY: no pointers.
                    unsafe { libc::lseek(fd, 0, libc::SEEK_SET) };
                    left = size as usize / number(2);
                }
                left -= 1;
                // SAFETY: the buffer is valid for the bytes.
                let got = unsafe { libc::read(fd, block.as_mut_ptr().cast(), number(2).min(4096)) };
                assert!(got > 0);
            }
        }
        "fread" => {
            let path = CString::new(arguments[1].as_str()).expect("a path");
            // SAFETY: a C string, a stream that is open, a buffer of 4096 bytes.
            unsafe {
                let stream = libc::fopen(path.as_ptr(), c"r".as_ptr());
                for _ in 0..number(2) {
                    if libc::fread(block.as_mut_ptr().cast(), 100, 1, stream) != 1 {
                        libc::rewind(stream);
                    }
                }
            }
        }
        word => panic!("unknown: {word}"),
    }
}

fn preads(file: &File, number: usize) {
    let pages = file.metadata().expect("the file").len() / 4096;
    let mut block = [0u8; 4096];
    for at in 0..number as u64 {
        file.read_exact_at(&mut block, at % pages * 4096).expect("a read");
    }
}
