//! `loadline trend`, as its user runs it.

use std::path::Path;
use std::process::{Command, Output};

const SCRIPT: &str = "define fileset name=mail, path=/tmp, entries=50, size=4k, prealloc=100\n\
    define process name=p { thread name=t {\n\
      flowop openfile name=open, filesetname=mail, fd=1\n\
      flowop readwholefile name=read, fd=1\n\
      flowop closefile name=close, fd=1\n\
    } }\nrun 60\n";

fn loadline(home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadline"));
    command.current_dir(home).env("LOADLINE_HOME", home.join("home")).env("NO_COLOR", "1");
    command.args(words).output().unwrap()
}

fn told(output: &Output, codes: &[i32]) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(codes.contains(&output.status.code().unwrap()), "{:?}\n{out}\n{err}", output.status);
    (out, err)
}

#[test]
fn a_cell_is_shown_over_its_runs() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::write(home.join("mail.f"), SCRIPT).unwrap();
    let (_, why) = told(&loadline(home, &["trend"]), &[2]);
    assert!(why.contains("no results yet: `loadline run"), "{why}");

    let run = || {
        let words = ["run", "mail.f", "--on", "dir:.", "--for", "20ms", "--warmup", "0", "-n", "1"];
        told(&loadline(home, &words), &[0]);
    };
    (0..9).for_each(|_| run());
    let each = |more: &[&str], codes: &[i32]| {
        told(&loadline(home, &[&["trend", "mail.f", "--on", "dir:.", "--every", "0"], more].concat()), codes)
    };
    let (few, _) = each(&[], &[4]);
    assert!(few.contains("9 points of 9 runs") && few.contains("from 10 points on: 1 more."), "{few}");
    run();
    // whichever this machine gives: nothing, or a change
    let (shown, _) = each(&["--html", "trend.html", "--svg", "trend.svg"], &[0, 1]);
    assert!(shown.contains("mail on dir:") && shown.contains("10 points of 10 runs"), "{shown}");
    assert!(shown.contains("seconds=0.02"), "the settings tell series apart: {shown}");
    for file in ["trend.html", "trend.svg"] {
        let text = std::fs::read_to_string(home.join(file)).unwrap();
        assert_eq!(text.matches("<circle class=\"trial s0\"").count(), 10, "{text}");
    }
    let (json, _) = each(&["--json"], &[0, 1]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["points"].as_array().unwrap().len(), 10);
    assert!(json[0]["points"][0]["value"].as_f64().unwrap() > 0.0);
    let (latency, _) = each(&["--metric", "latency_p99"], &[0, 1]);
    assert!(latency.contains("p99 latency") && latency.contains("10 points"), "{latency}");
    // an hour's runs are one point, so nothing can be told
    let (hourly, _) = told(&loadline(home, &["trend"]), &[4]);
    assert!(hourly.contains("of 10 runs") && hourly.contains("as --every says"), "{hourly}");

    let (_, why) = told(&loadline(home, &["trend", "male", "--every", "0"]), &[2]);
    assert!(why.contains("no runs of this cell; the store has") && why.contains("mail on dir:"), "{why}");
    for (words, right) in [
        (["--metric", "speed"], "there are throughput"),
        (["--every", "soon"], "--every:"),
        (["--on", "ext5"], "ext4"),
    ] {
        let (_, why) = told(&loadline(home, &[&["trend", "mail"], &words[..]].concat()), &[2]);
        assert!(why.contains(right), "{words:?}: {why}");
    }
}

/// The same load twice, and what is compared: throughput unless something else is asked for.
#[test]
fn a_comparison_is_by_the_metric_that_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    std::fs::write(home.join("mail.f"), SCRIPT).unwrap();
    let words = ["run", "mail.f", "--on", "dir:.", "--for", "20ms", "-n", "3", "-q"];
    (0..2).for_each(|_| {
        told(&loadline(home, &words), &[0]);
    });
    let compare =
        |more: &[&str]| told(&loadline(home, &[&["compare", "last~1", "last"], more].concat()), &[0, 1, 4]);
    let (plain, _) = compare(&[]);
    for metric in ["throughput", "p99 latency", "p99.9 latency"] {
        assert!(plain.contains(metric), "{plain}");
    }
    assert!(!plain.contains("By "), "{plain}");
    let (tail, _) = compare(&["--by", "p99.9"]);
    assert!(tail.starts_with("By p99.9 latency: "), "{tail}");
    let json = |by: &str| -> serde_json::Value {
        serde_json::from_str(&compare(&["--by", by, "--json"]).0).unwrap()
    };
    assert_eq!(
        (&json("p99")["by"], &json("throughput")["by"]),
        (&"latency_p99".into(), &"throughput".into())
    );
    // hundreds of operations in 20 ms: nothing is said of one in a thousand
    assert_eq!(json("p99.9")["conclusion"], "cannot_tell");
    let (_, why) = told(&loadline(home, &["compare", "last", "--by", "p95"]), &[2]);
    assert!(why.contains("p99.9"), "{why}");
}
