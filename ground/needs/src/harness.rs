//! For test programs that are started by themselves, as a daemon or a victim: without libtest, with its output, so that
//! whoever counts tests counts these as well.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::{Need, why_not};

/// A test.
pub struct Case<'t> {
    /// Its name.
    pub name: String,
    /// What it needs.
    pub needs: Vec<Need>,
    /// What it does; fails by panicking or by returning false.
    pub test: Box<dyn FnOnce() -> bool + 't>,
}

impl std::fmt::Debug for Case<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} needs {:?}", self.name, self.needs)
    }
}

impl<'t> Case<'t> {
    /// A test that needs these.
    pub fn new(name: impl Into<String>, needs: &[Need], test: impl FnOnce() -> bool + 't) -> Self {
        Case { name: name.into(), needs: needs.to_vec(), test: Box::new(test) }
    }
}

/// The main function of a test program: runs those cases that the arguments choose, one after another. `package` and
/// `program` name what did not run. Takes `--list`, `--exact` and words that are parts of names.
pub fn run(package: &str, program: &str, cases: Vec<Case<'_>>) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        cases.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    let counts = run_chosen(&format!("{package}::{program}"), &args, cases);
    if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: u32,
    failed: u32,
    not_run: u32,
    filtered: u32,
}

fn run_chosen(prefix: &str, args: &[String], cases: Vec<Case<'_>>) -> Counts {
    let exact = args.iter().any(|arg| arg == "--exact");
    let words: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let chosen = |name: &str| {
        words.is_empty() || words.iter().any(|word| if exact { name == *word } else { name.contains(*word) })
    };
    let mut counts = Counts::default();
    println!("\nrunning {} tests", cases.iter().filter(|case| chosen(&case.name)).count());
    for Case { name, needs, test } in cases {
        if !chosen(&name) {
            counts.filtered += 1;
            continue;
        }
        let full = format!("{prefix}::{name}");
        match catch_unwind(AssertUnwindSafe(|| match why_not(&full, &needs) {
            Some(why) => Err(why),
            None => Ok(test()),
        })) {
            Ok(Ok(true)) => {
                counts.passed += 1;
                println!("test {name} ... ok");
            }
            Ok(Err(why)) => {
                counts.not_run += 1;
                println!("test {name} ... ignored, not run: {why}");
            }
            Ok(Ok(false)) | Err(_) => {
                counts.failed += 1;
                println!("test {name} ... FAILED");
            }
        }
    }
    let Counts { passed, failed, not_run, filtered } = counts;
    let result = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {result}. {passed} passed; {failed} failed; {not_run} ignored; 0 measured; \
         {filtered} filtered out\n"
    );
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_pass_fail_or_are_left_out() {
        let cases = || {
            vec![
                Case::new("good", &[], || true),
                Case::new("good_too", &[], || true),
                Case::new("bad", &[], || false),
                Case::new("panics", &[], || panic!("as asked for")),
            ]
        };
        let counts = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            let Counts { passed, failed, not_run, filtered } = run_chosen("p::t", &words, cases());
            [passed, failed, not_run, filtered]
        };
        assert_eq!(counts(&[]), [2, 2, 0, 0]);
        assert_eq!(counts(&["good", "--nocapture"]), [2, 0, 0, 2]);
        assert_eq!(counts(&["good", "--exact"]), [1, 0, 0, 3]);
    }
}
