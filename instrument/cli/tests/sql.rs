//! Databases in the laboratory and under power cuts: what the commands print, and that nothing is left.

mod common;

use common::{Place, text};
use needs::needs;

#[test]
fn engines_are_cells_with_latencies_by_transaction() {
    needs!(Root, Mounts, Loop, Ext4, MariaDb, Postgres);
    let place = Place::new();
    let words = ["run", "tpcc", "--engine", "innodb,postgres", "--terminals", "2", "--set", "small=1"];
    let more = ["--set", "cache=32M", "--set", "log=32M", "--on", "ext4@image:1G", "--for", "1s", "-n", "1"];
    let output = place.loadline(&[&words[..], &more[..]].concat());
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for word in [
        "tpcc engine=innodb",
        "tpcc engine=postgres",
        "new-order",
        "stock-level",
        "consistency conditions 1, 2, 3, 4, 8, 9 of TPC-C hold",
        "innodb_flush_log_at_trx_commit=1",
        "synchronous_commit=on",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    place.is_clean();
}

#[test]
fn a_rate_is_kept_and_latency_is_from_the_intended_start() {
    needs!(Root, Mounts, Loop, Ext4, Postgres);
    let place = Place::new();
    let words = ["run", "oltp-read-only", "--engine", "postgres", "--terminals", "4", "--set", "rows=1000"];
    let more = ["--rate", "40", "--on", "ext4@image:1G", "--for", "2s", "-n", "1", "--name", "rate"];
    let output = place.loadline(&[&words[..], &more[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report = place.loadline(&["report", "rate", "--format", "json"]);
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let shown = report.to_string();
    assert!(shown.contains("intended"), "{shown}");
    place.is_clean();
}

#[test]
fn power_cuts_under_a_database_are_judged() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, Postgres);
    let place = Place::new();
    let output = place.loadline(&["crash", "--engine", "postgres", "--cuts", "2", "--on", "ext4@980pro"]);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("postgres, flush=1 on ext4@980pro: 2 power cuts"), "{told}");
    assert!(told.contains("after 0 of 2 cuts") && told.contains("nothing acknowledged was lost"), "{told}");
    place.is_clean();
}

#[test]
fn wrong_words_are_explained() {
    let place = Place::new();
    std::fs::write(place.dir.path().join("work.f"), "run 1").unwrap();
    for (words, told) in [
        (&["run", "tpcc", "--engine", "oracle", "--on", "dir:."][..], "innodb, myrocks, postgres"),
        (&["run", "work.f", "--engine", "innodb", "--on", "dir:."], "--engine is for databases"),
        (&["run", "tpcc", "--terminals", "0", "--on", "dir:."], "1 to 10000"),
        (
            &["run", "tpcc", "--address", "http://x", "--on", "dir:."],
            "mysql://user:password@host:port/database",
        ),
        (&["run", "tpcc", "--set", "wharehouses=2", "--on", "dir:."], "no parameter `wharehouses`"),
        (&["crash", "--engine", "db2", "--on", "ext4@980pro"], "innodb, myrocks, postgres"),
    ] {
        let output = place.loadline(words);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(told), "{words:?}: {said}");
    }
}

#[test]
fn a_refused_connection_is_told_with_a_remedy() {
    let place = Place::new();
    let words =
        ["run", "oltp-insert", "--address", "mysql://ann:x@127.0.0.1:9/db", "--on", "dir:.", "-n", "1"];
    let output = place.loadline(&words);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is a server running there"), "{said}");
}
