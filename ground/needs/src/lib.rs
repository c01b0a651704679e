//! What a test needs of the machine. A test that did not run is not green: it is named, with the reason, or it fails.
//!
//! A test says at its head what it needs:
//!
//! ```text
//! #[test]
//! fn a_disk_is_mounted() {
//!     needs!(Mounts, Loop, Ext4);
//!     // ...
//! }
//! ```
//!
//! When a need is not met, the test ends there. Two variables of the environment decide what is made of that:
//!
//! | variable | meaning |
//! |---|---|
//! | `LOADLINE_REQUIRE` | needs that must be met: names with commas between, or `all`; `-name` takes one out again. The test panics, with reason and remedy |
//! | `LOADLINE_NOT_RUN` | a file to which a line is appended for each test that did not run: test, need, reason; tabs between |
//!
//! | module | is |
//! |---|---|
//! | `need` | the needs by name |
//! | `detect` | how each is found, with reason and remedy |
//! | `require` | the list in `LOADLINE_REQUIRE` |
//! | `strace` | what a program asks of the kernel |
//! | `harness` | for test programs that are started by themselves: without libtest, with its output |

mod detect;
mod harness;
mod need;
mod require;
mod strace;

use std::io::Write;
use std::path::Path;

pub use harness::{Case, run};
pub use need::{Need, Unmet};
use require::Required;
pub use strace::strace;

/// Names the needs that must be met, or `all`.
pub const REQUIRE: &str = "LOADLINE_REQUIRE";
/// Names the file in which is noted what did not run.
pub const NOT_RUN: &str = "LOADLINE_NOT_RUN";

/// Ends a test when the machine does not have what it needs: `needs!(Root, Fuse)`, or
/// `needs!(Tool { program: "jq", package: "jq" })`. Stands at the head of a function that returns nothing.
#[macro_export]
macro_rules! needs {
    ($($need:expr),+ $(,)?) => {
        let test = {
            fn here() {}
            $crate::test_name(env!("CARGO_PKG_NAME"), std::any::type_name_of_val(&here))
        };
        let met = {
            #[allow(unused_imports, reason = "a need may be a path of its own")]
            use $crate::Need::*;
            $crate::are_met(&test, &[$($need),+])
        };
        if !met {
            return;
        }
    };
}

/// The name of the test around a function `here`, below its package. Behind [`needs!`].
#[doc(hidden)]
pub fn test_name(package: &str, here: &str) -> String {
    let path = here.trim_end_matches("::here").trim_end_matches("::{{closure}}");
    format!("{package}::{path}")
}

/// Whether the machine has all that `test` needs; if not, that is noted and printed.
///
/// # Panics
/// When `LOADLINE_REQUIRE` names the need that is not met (or something that is no need), and when the file of
/// `LOADLINE_NOT_RUN` cannot be written.
pub fn are_met(test: &str, needs: &[Need]) -> bool {
    why_not(test, needs).inspect(|why| println!("not run: {test}: {why}")).is_none()
}

/// As [`are_met`], but returns what is missing and prints nothing.
fn why_not(test: &str, needs: &[Need]) -> Option<Unmet> {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let not_run = std::env::var_os(NOT_RUN);
    decide(test, needs, &required, not_run.as_deref().map(Path::new))
}

/// As [`why_not`], with the two variables.
fn decide(test: &str, needs: &[Need], required: &str, not_run: Option<&Path>) -> Option<Unmet> {
    let required = Required::parse(required).unwrap_or_else(|wrong| panic!("{REQUIRE}: {wrong}"));
    let unmet: Vec<_> = needs.iter().filter_map(|need| Some((need, need.check().err()?))).collect();
    if let Some((need, unmet)) = unmet.iter().find(|(need, _)| required.names(**need)) {
        panic!("{test} needs {need}, which {REQUIRE} demands: {unmet}");
    }
    // One reason is enough; the first is the most general one.
    let (need, unmet) = unmet.into_iter().next()?;
    if let Some(path) = not_run {
        note(path, &format!("{test}\t{need}\t{unmet}\n"))
            .unwrap_or_else(|error| panic!("{NOT_RUN}={}: {error}", path.display()));
    }
    Some(unmet)
}

/// Appends a line in one write, so that lines of several processes do not mix.
fn note(path: &Path, line: &str) -> std::io::Result<()> {
    std::fs::File::options().append(true).create(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_after_its_package_and_function() {
        fn here() {}
        let name = test_name("p", std::any::type_name_of_val(&here));
        assert_eq!(name, "p::needs::tests::a_test_is_named_after_its_package_and_function");
        assert_eq!(test_name("p", "a::b::{{closure}}::here"), "p::a::b");
    }

    const MISSING: Need = Need::Tool { program: "no-such-program", package: "none" };

    #[test]
    fn what_is_not_demanded_is_noted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("not-run");
        let here = Need::Tool { program: "sh", package: "dash" };
        assert_eq!(decide("p::a", &[here], "all", Some(&path)), None);
        assert!(!path.exists(), "what runs is not noted");
        let why = decide("p::b", &[here, MISSING], "root", Some(&path)).expect("it is missing");
        assert_eq!(decide("p::c", &[MISSING], "all,-program:no-such-program", None), Some(why.clone()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("p::b\tno-such-program\t{why}\n"));
    }

    #[test]
    #[should_panic(expected = "p::a needs no-such-program, which LOADLINE_REQUIRE demands: the program")]
    fn what_is_demanded_fails() {
        decide("p::a", &[MISSING], "all", None);
    }

    /// Also behind one that is not demanded.
    #[test]
    #[should_panic(expected = "p::a needs other, which LOADLINE_REQUIRE demands")]
    fn the_second_that_is_missing_fails_too() {
        let other = Need::Tool { program: "other", package: "none" };
        decide("p::a", &[MISSING, other], "program:other", None);
    }

    #[test]
    #[should_panic(expected = "LOADLINE_REQUIRE: `rot` is no need")]
    fn a_demand_that_is_none_fails_even_where_all_is_met() {
        decide("p::a", &[], "rot", None);
    }

    #[test]
    fn the_head_of_a_test_lets_it_run() {
        fn test(ran: &mut bool) {
            needs!(Tool { program: "sh", package: "dash" });
            *ran = true;
        }
        let mut ran = false;
        test(&mut ran);
        assert!(ran);
    }

    #[test]
    fn lines_are_appended() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("not-run");
        std::thread::scope(|scope| {
            (0..4).for_each(|_| _ = scope.spawn(|| (0..50).for_each(|_| note(&path, "a\tb\tc\n").unwrap())));
        });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\tb\tc\n".repeat(200));
        assert!(note(&directory.path().join("no/such"), "x").is_err());
    }
}
