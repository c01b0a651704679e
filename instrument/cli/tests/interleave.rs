//! Trials of a block in turns, as their user runs them.

mod common;

use common::{Place, text};

const READS: &str = "define file name=f,path=/x,size=1m,prealloc\n\
    define process name=p { thread name=t,instances=2 { flowop read name=r,filename=f,iosize=4k,random,fd=1 } }\nrun 60\n";
const BUFFERED: &str = "define file name=f,path=/x,size=1m,prealloc\n\
    define process name=p { thread name=t { flowop write name=w,filename=f,iosize=4k,random,fd=1 } }\nrun 60\n";

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.dir.path().join("reads.f"), READS).unwrap();
    std::fs::write(place.dir.path().join("buffered.f"), BUFFERED).unwrap();
    for folder in ["a", "b"] {
        std::fs::create_dir(place.dir.path().join(folder)).unwrap();
    }
    place
}

fn run(place: &Place, load: &str, more: &[&str]) -> String {
    let words = ["run", load, "--on", "dir:a;dir:b", "-n", "3", "--for", "600ms"];
    let output = place.loadline(&[&words[..], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    text(&output)
}

fn trials(place: &Place) -> Vec<serde_json::Value> {
    let output = place.loadline(&["report", "last", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["run"]["trials"].as_array().unwrap().clone()
}

#[test]
fn reads_take_turns_and_each_trial_has_all_that_it_has_alone() {
    let place = place();
    let said = run(&place, "reads.f", &["--interleave", "auto"]);
    assert!(said.contains("take turns of 20 ms"), "{said}");
    let trials = trials(&place);
    assert_eq!(trials.len(), 6);
    for trial in &trials {
        let outcome = &trial["outcome"];
        assert_eq!(trial["status"]["status"], "done", "{trial}");
        assert!(outcome["measured_seconds"].as_f64().unwrap() >= 0.6, "{outcome}");
        assert_eq!(outcome["ended"]["why"], "time_up", "{outcome}");
        assert!(outcome["ops"][0]["service"].is_object() || outcome["ops"][0]["service"].is_string());
    }
    // both of a block began as one
    for block in trials.chunks(2) {
        assert_eq!((&block[0]["index"], &block[0]["started"]), (&block[1]["index"], &block[1]["started"]));
    }
    place.is_clean();
}

/// Two stacks' files in memory at once leave less of it for each than a trial alone has; so do they of a disk.
#[test]
fn what_a_trial_alone_has_more_of_is_not_for_turns() {
    let place = place();
    let synced =
        READS.replace("flowop read", "flowop write").replace("fd=1 }", "fd=1 flowop fsync name=s,fd=1 }");
    for (load, on, why) in [
        (READS.replace("size=1m,prealloc", "size=1t"), "dir:a;dir:b", "more than a quarter of the memory"),
        (READS.replace("size=1m", "size=$free"), "dir:a;dir:b", "depends on the target"),
        (synced, "ext4@image;xfs@image", "share a disk"),
    ] {
        std::fs::write(place.dir.path().join("load.f"), load).unwrap();
        let words = ["run", "load.f", "--on", on, "-n", "3", "--for", "2s", "--interleave", "50ms"];
        let output = place.loadline(&words);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn what_one_stack_leaves_for_later_is_not_for_turns() {
    let place = place();
    for (load, how) in [("buffered.f", &["--interleave", "auto"][..]), ("reads.f", &[])] {
        let said = run(&place, load, how);
        assert!(!said.contains("take turns"), "{said}");
    }
    let refused = |more: &[&str]| {
        let words = ["run", "buffered.f", "--on", "dir:a;dir:b", "--interleave"];
        let output = place.loadline(&[&words[..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        text(&output)
    };
    let why = refused(&["50ms"]);
    assert!(why.contains("since the load leaves written data for later"), "{why}");
    assert!(refused(&["20ms", "--cold"]).contains("--cold"));
    assert!(refused(&["soon"]).contains("--interleave"));
}

#[test]
fn a_study_takes_its_turns_unless_the_command_line_says_otherwise() {
    let place = place();
    let study = "stacks = [\"dir:a\", \"dir:b\"]\n\n[study]\ntrials = 2\nseconds = 0.6\n\
        interleave = \"30ms\"\n\n[[workload]]\nfile = \"LOAD\"\n";
    for load in ["reads.f", "buffered.f"] {
        std::fs::write(place.dir.path().join(format!("{load}.toml")), study.replace("LOAD", load)).unwrap();
    }
    let said = |words: &[&str], code| {
        let output = place.loadline(words);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        text(&output)
    };
    assert!(said(&["run", "reads.f.toml"], 0).contains("take turns of 30 ms"));
    assert!(!said(&["run", "reads.f.toml", "--interleave", "off"], 0).contains("take turns"));
    assert!(said(&["run", "buffered.f.toml"], 2).contains("since the load leaves written data for later"));
    place.is_clean();
}
