//! `prefetch` is a guest in other programs: where it finds no place for itself they do what they do without it.

#[path = "../../../systems/prefetch-preload/tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::process::{Command, Output};

use needs::needs;

/// A program on a file of 8 MiB of lines, with a code of its own each.
const PROGRAMS: [&str; 4] =
    ["sort \"$FILE\"", "cat \"$FILE\"", "grep -c 7 \"$FILE\"", "grep -c nothing \"$FILE\""];

/// Fills a tmpfs of 64 KiB, at `$FULL` and as `/tmp`, in a mount namespace that ends with the shell.
/// What lies below /tmp itself, as the build may, is reached through `/mnt` then.
const FULL: &str = r#"
set -e
names="FILE FULL LOADLINE LOADLINE_PREFETCH_LIB"
for name in $names; do
    if [[ ${!name} == /tmp/* ]]; then hidden=1; fi
done
if [ -n "${hidden-}" ]; then
    mount --rbind /tmp /mnt
    for name in $names; do
        if [[ ${!name} == /tmp/* ]]; then export "$name=/mnt/${!name#/tmp/}"; fi
    done
fi
mount -t tmpfs -o size=64k,mode=1777,$OPTIONS guest "$FULL"
head -c 1M /dev/zero > "$FULL/fill" 2>/dev/null || true
[ "$(stat -f -c %a "$FULL")" = 0 ]
mount --bind "$FULL" /tmp
export TMPDIR="$FULL"
set +e
"#;

/// Runs a script in a mount namespace of its own.
fn in_own_mounts(script: &str, variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", script]);
    for name in ["XDG_RUNTIME_DIR", "LOADLINE_PREFETCH_DIR", "TMPDIR"] {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").envs(variables.iter().copied()).output().expect("unshare")
}

fn told(output: &Output) -> (Option<i32>, &[u8], std::borrow::Cow<'_, str>) {
    (output.status.code(), &output.stdout, String::from_utf8_lossy(&output.stderr))
}

#[test]
fn programs_do_the_same_when_tmp_is_full() {
    needs!(Root, Mounts, Library);
    let place = common::directory();
    let (file, full) = (place.path().join("lines"), place.path().join("full"));
    let lines: String = (0..800_000u64).map(|n| format!("{} {n}\n", n * 7919 % 500_009)).collect();
    std::fs::write(&file, &lines[..8 << 20]).unwrap();
    std::fs::create_dir(&full).unwrap();
    let (statistics, library) = (place.path().join("statistics"), common::library());
    let program = Path::new(env!("CARGO_BIN_EXE_loadline"));
    for words in PROGRAMS {
        // Statistics in /tmp, in directories that are named, and where not even a directory can be made.
        for (options, setting) in [
            ("nr_inodes=100", ":"),
            ("nr_inodes=100", "export XDG_RUNTIME_DIR=\"$FULL\""),
            ("nr_inodes=100", "export LOADLINE_PREFETCH_DIR=\"$FULL/named\""),
            ("nr_inodes=2", ":"),
            ("nr_inodes=2", "export LOADLINE_PREFETCH_DIR=\"$FULL/named\""),
        ] {
            let run = |prefix: &str| {
                let variables = [
                    ("FILE", file.as_path()),
                    ("FULL", &full),
                    ("OPTIONS", Path::new(options)),
                    ("LOADLINE", program),
                    ("LOADLINE_PREFETCH_LIB", &library),
                ];
                in_own_mounts(&format!("{FULL}{setting}\n{prefix} {words}"), &variables)
            };
            common::drop_cache(&file);
            let (alone, under) = (run(""), run("\"$LOADLINE\" prefetch --"));
            assert!(!alone.stdout.is_empty() && alone.stderr.is_empty(), "{words}: {:?}", told(&alone).2);
            let same = told(&alone) == told(&under);
            assert!(same, "{words}, {options}, {setting}: {:?} {}", under.status, told(&under).2);
        }
        // With room the same program has a page: it was the guest's host above.
        let mut roomy = Command::new(program);
        roomy.args(["prefetch", "--", "sh", "-c", &format!("exec {words}")]).env("FILE", &file);
        roomy.env("LOADLINE_PREFETCH_LIB", &library).env("LOADLINE_PREFETCH_DIR", &statistics);
        roomy.output().expect("the command starts");
    }
    // The library makes a page where it watches a file, which takes more reads than sort(1) makes.
    let pages = common::pages(&statistics);
    assert!(pages.iter().any(|page| page.name == "cat"), "nothing was watched: {pages:?}");
}

#[test]
fn who_asks_for_statistics_is_told_that_there_is_no_place() {
    let place = common::directory();
    let taken = place.path().join("file");
    std::fs::write(&taken, "").unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
        command.arg("prefetch").args(words).args(["--", "echo", "done"]);
        command.env("LOADLINE_PREFETCH_LIB", common::library()).env("LOADLINE_PREFETCH_DIR", &taken);
        command.output().expect("the command starts")
    };
    let plain = run(&[]);
    assert_eq!(told(&plain), (Some(0), b"done\n".as_slice(), "".into()));
    for option in ["--observe", "--explain"] {
        let (code, out, err) = (run(&[option]).status.code(), run(&[option]).stdout, run(&[option]).stderr);
        let err = String::from_utf8_lossy(&err);
        assert!(
            code != Some(0) && out.is_empty() && err.contains("LOADLINE_PREFETCH_DIR"),
            "{option}: {err}"
        );
    }
}
