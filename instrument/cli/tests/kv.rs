//! Key-value engines in the laboratory: what the commands print, and that nothing is left.

mod common;

use common::{Place, text};
use needs::needs;

#[test]
fn engines_in_the_process_run_without_root() {
    needs!(RocksDb);
    let place = Place::new();
    let words = ["run", "ycsb-a", "--engine", "rocksdb,sqlite,lmdb", "--verify", "--set", "recordcount=2000"];
    let output = place.loadline(&[&words[..], &["--on", "dir:.", "--for", "300ms", "-n", "1"]].concat());
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for word in [
        "ycsb-a engine=rocksdb",
        "ycsb-a engine=sqlite",
        "ycsb-a engine=lmdb",
        "update",
        "all 2000 records were read after the run and are right",
        "synchronous=1",
        "no_sync=true",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    place.is_clean();
}

#[test]
fn redis_and_a_cluster_run_on_a_file_system_of_their_own() {
    needs!(Root, Mounts, Loop, Ext4, Redis);
    let place = Place::new();
    let words = ["run", "ycsb-b", "--engine", "redis,redis-cluster", "--verify", "--set", "recordcount=2000"];
    let more = ["--rate", "500", "--on", "ext4@image:256M", "--for", "1s", "-n", "1"];
    let output = place.loadline(&[&words[..], &more].concat());
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    for word in
        ["engine=redis-cluster", "masters=3", "appendfsync=no", "2000 records were read after the run"]
    {
        assert!(told.contains(word), "{word}: {told}");
    }
    place.is_clean();
}

#[test]
fn property_files_of_ycsb_run_unchanged() {
    let place = Place::new();
    let file = "# a workload as YCSB ships it\nrecordcount=1000\noperationcount=1000\n\
        workload=site.ycsb.workloads.CoreWorkload\n\nreadallfields=true\n\nreadproportion=0.5\nupdateproportion=0.5\n\
        scanproportion=0\ninsertproportion=0\n\nrequestdistribution=zipfian\n\nhdrhistogram.percentiles=50,95,99\n\
        a.property.of.somebody=x\n";
    std::fs::write(place.dir.path().join("workloada"), file).unwrap();
    std::fs::write(place.dir.path().join("work.f"), "run 1").unwrap();
    let words =
        ["run", "workloada", "--engine", "sqlite", "--set", "fieldlength=20", "--on", "dir:.", "-n", "1"];
    let output = place.loadline(&words);
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("not used here: a.property.of.somebody"), "{told}");
    assert!(told.contains("ycsb-core") && told.contains("read") && told.contains("update"), "{told}");
    let both = text(&place.loadline(&["run", "workloada", "work.f", "--on", "dir:."]));
    assert!(both.contains("are one workload"), "{both}");
    place.is_clean();
}

#[test]
fn patterns_run_by_their_names() {
    needs!(RocksDb);
    let place = Place::new();
    let words =
        ["run", "readseq", "multireadrandom", "--set", "num=20000", "--on", "dir:.", "--for", "200ms"];
    let output = place.loadline(&[&words[..], &["-n", "1"]].concat());
    let told = text(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("readseq") && told.contains("multireadrandom"), "{told}");
    place.is_clean();
}

#[test]
fn wrong_words_are_explained() {
    let place = Place::new();
    for (words, told) in [
        (&["run", "ycsb-a", "--engine", "innodb", "--on", "dir:."][..], "rocksdb, sqlite, lmdb, redis"),
        (&["run", "ycsb-a", "--set", "recordcount=0", "--on", "dir:."], "at least 1"),
        (&["run", "ycsb-a", "--set", "requestdistribution=pareto", "--on", "dir:."], "zipf (exact)"),
        (&["run", "ycsb-a", "--address", "http://x", "--on", "dir:."], "redis://user:password@host:port"),
        (&["run", "readrandom", "--engine", "redis", "--on", "dir:."], "a pattern on rocksdb"),
    ] {
        let output = place.loadline(words);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(told), "{words:?}: {said}");
    }
    let refused = ["run", "ycsb-a", "--address", "redis://127.0.0.1:1", "--on", "dir:.", "-n", "1"];
    let output = place.loadline(&refused);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is a server running there"), "{said}");
}

#[test]
fn many_terminals_are_no_matter_of_the_soft_limit_of_descriptors() {
    needs!(Redis);
    let place = Place::new();
    let words = ["run", "ycsb-c", "--engine", "redis", "--terminals", "300", "--set", "recordcount=500"];
    let more = ["--on", "dir:.", "--for", "300ms", "-n", "1"];
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -Sn 200; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_loadline")]);
    shell.args([&words[..], &more].concat()).current_dir(place.dir.path());
    let output = shell.env("LOADLINE_HOME", place.dir.path().join("home")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    place.is_clean();
}

#[test]
fn check_says_of_a_property_file_what_run_says() {
    let place = Place::new();
    let head = "workload=site.ycsb.workloads.CoreWorkload\n";
    std::fs::write(place.dir.path().join("good"), format!("{head}recordcount=100\nwriteallfields=true\n"))
        .unwrap();
    let good = place.loadline(&["check", "good"]);
    let told = text(&good);
    assert_eq!(good.status.code(), Some(0), "{told}");
    assert!(told.contains("good: ok") && told.contains("writeallfields = true"), "{told}");
    let bad = format!("{head}recordcount=x\nreadpropotion=1\n\nfieldlength=0\n");
    std::fs::write(place.dir.path().join("bad"), bad).unwrap();
    for words in [&["check", "bad"][..], &["run", "bad", "--on", "dir:."]] {
        let output = place.loadline(words);
        let told = text(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {told}");
        for mistake in ["line 2: recordcount = x", "line 3: the property readpropotion", "line 5: fieldcount"]
        {
            assert!(told.contains(mistake), "{words:?}: {told}");
        }
    }
}
