//! No program is less safe under the library, or sees that it is there: programs that would notice print the same with it
//! and without it, and so do random programs of system calls.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use needs::needs;

/// So many rounds where the environment does not say: enough for each call to come up.
const ROUNDS: u64 = 46;
/// Random programs, likewise.
const PROGRAMS: u64 = 100;

/// A number from the environment, for a long run.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A program of `tests/programs`, compiled into a directory.
fn compiled(source: &str, directory: &Path, options: &[&str]) -> PathBuf {
    let program = directory.join("program");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-w", "-pthread"]).args(options).arg(from).arg("-o").arg(&program);
    assert!(compiler.status().unwrap().success(), "{source} does not compile");
    program
}

/// Runs a program, in a mode of the library or without it.
fn run(program: &Path, words: &[&str], mode: Option<&str>) -> Output {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).env_remove("LD_PRELOAD");
    if let Some(mode) = mode {
        command.env("LD_PRELOAD", common::library()).env("LOADLINE_PREFETCH", mode);
    }
    command.output().unwrap()
}

/// What somebody sees of a run.
fn seen(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}{}", text(&output.stdout), text(&output.stderr), output.status)
}

/// Plays a case on a cold file without the library and in modes of it; what it printed.
fn play(case: &str, count: &str, modes: &[&str]) -> String {
    let directory = common::directory();
    let program = compiled("cases.c", directory.path(), &[]);
    let file = directory.path().join("data");
    common::cold_file(&file, 64);
    let words = [case, file.to_str().unwrap(), count];
    let alone = seen(&run(&program, &words, None));
    for mode in modes {
        common::drop_cache(&file);
        let under = seen(&run(&program, &words, Some(mode)));
        assert_eq!(under, alone, "{case} in mode {mode}");
    }
    alone
}

/// As the kernel does without the library, where it allows the case.
fn assert_same(case: &str, expected: &str) {
    let text = play(case, "0", &["auto", "fetch-all", "observe"]);
    assert!(text.contains(expected), "{case}: {text}");
}

#[test]
fn there_is_no_thread_that_the_program_did_not_make() {
    needs!(Cc);
    assert_same("threads", "1 threads, 0 with other rights");
}

/// Beside readers: each call that changes what a process may do leaves no thread that may do more, and none at all that
/// is not the program's.
#[test]
fn no_thread_keeps_rights_that_the_program_gave_up() {
    needs!(Cc, Root);
    let rounds = number("LOADLINE_TEST_RIGHTS", ROUNDS);
    let text = play("rights", &rounds.to_string(), &["auto"]);
    // A call may be refused here, as it is without the library: then all threads are as they were.
    for line in text.lines().filter(|line| line.contains("instead of")) {
        let numbers: Vec<i64> = line.split([' ', ',', ':']).filter_map(|word| word.parse().ok()).collect();
        let [_call, returned, threads, own, others] = numbers[..] else { panic!("{line}") };
        assert!(returned != 0 && threads == own && others == 0, "{line}");
    }
}

#[test]
fn a_filter_put_on_while_another_thread_reads_kills_nobody() {
    needs!(Cc, Root);
    assert_same("filter", "the reader lives");
}

#[test]
fn a_child_made_without_libc_changes_its_rights_at_once() {
    needs!(Cc, Root);
    assert_same("clone", "the child ended with 0");
}

#[test]
fn errno_is_as_it_was_after_a_stream_without_descriptor() {
    needs!(Cc);
    assert_same("getline", "errno at the end 0");
}

#[test]
fn os_only_drops_hints_and_does_what_is_asked() {
    needs!(Cc);
    let text = play("advice", "0", &["os-only", "auto"]);
    assert!(text.contains("DONTNEED 0\n0 pages"), "{text}");
}

#[test]
fn who_turns_to_direct_reads_is_no_longer_prefetched_for() {
    needs!(Cc);
    assert_same("direct", "0 bytes more than asked for");
}

#[test]
fn who_forbids_the_counter_of_the_processor_is_left_alone() {
    needs!(Cc);
    assert_same("counter", "read");
}

#[test]
fn programs_with_the_address_sanitizer_start() {
    needs!(Cc);
    let directory = common::directory();
    let program = compiled("cases.c", directory.path(), &["-fsanitize=address"]);
    let file = directory.path().join("data");
    common::cold_file(&file, 64);
    let words = ["getline", file.to_str().unwrap()];
    let (alone, under) = (run(&program, &words, None), run(&program, &words, Some("auto")));
    assert!(alone.status.success(), "{}", seen(&alone));
    assert_eq!(seen(&under), seen(&alone));
}

/// The files that random programs work on.
fn prepare(directory: &Path) {
    std::fs::write(directory.join("big"), bytes(4 << 20)).unwrap();
    (0..16).for_each(|at| std::fs::write(directory.join(format!("part-{at:05}")), bytes(300_000)).unwrap());
}

fn bytes(len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// LOADLINE_TEST_PROGRAMS says how many, LOADLINE_TEST_SEED which is the first.
#[test]
fn random_programs_of_system_calls_see_no_difference() {
    needs!(Cc);
    let directory = common::directory();
    let program = compiled("calls.c", directory.path(), &[]);
    let place = common::directory();
    prepare(place.path());
    let first = number("LOADLINE_TEST_SEED", 1);
    let mut bytes = 0;
    for seed in first..first + number("LOADLINE_TEST_PROGRAMS", PROGRAMS) {
        let seed = seed.to_string();
        let words = [seed.as_str(), place.path().to_str().unwrap()];
        let (alone, under) = (run(&program, &words, None), run(&program, &words, Some("auto")));
        bytes += alone.stdout.len();
        let (alone, under) = (seen(&alone), seen(&under));
        let mut pairs = alone.lines().zip(under.lines()).enumerate();
        let first = pairs.find(|(_, (alone, under))| alone != under);
        assert!(
            alone == under,
            "seed {seed}: without and with the library, from the first difference: {first:?}"
        );
    }
    assert!(bytes > 10_000, "the programs do nothing");
}
