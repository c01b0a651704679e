use std::convert::Infallible;

use super::{Figures, Fit, Profile, describe};
use crate::call::Call;
use crate::format::Item;

mod any;
mod cases;
mod expected;
mod load;

fn profile(items: &[Item]) -> Profile {
    Profile::of(items.iter().cloned().map(Ok::<Item, Infallible>)).unwrap()
}

fn lowered(text: &str) -> workload::Workload {
    let machine = wml::Machine { ram_bytes: 8 << 30, cores: 2, free_bytes: 100 << 30 };
    let settings = wml::Settings { machine, set: Vec::new(), name: "case".into() };
    match wml::load(text.as_bytes(), &settings) {
        Ok(loaded) => {
            assert!(loaded.warnings.is_empty(), "{:?}\n{text}", loaded.warnings);
            loaded.workload
        }
        Err(diagnostics) => panic!("{diagnostics:?}\n{text}"),
    }
}

/// The personality of a case, which is short, does what the recording did, and is the same each time.
fn personality(items: &[Item]) -> (Profile, String) {
    let profile = profile(items);
    let text = describe(&profile, "case");
    assert!(text.lines().count() <= 150, "{text}");
    assert_eq!(text, describe(&self::profile(items), "case"));
    let fit = Fit::of(&Figures::from(&profile), &expected::figures(&lowered(&text)));
    assert!(fit.is_within(), "{fit}\n{text}");
    (profile, text)
}

fn has(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "no `{part}` in\n{text}"));
}

#[test]
fn a_file_server_is_one_role_on_one_fileset() {
    let (profile, text) = personality(&cases::fileserver());
    assert_eq!((profile.whole_reads, profile.random_reads, profile.random_writes), (2000, 0, 0));
    assert_eq!((profile.count(Call::Open), profile.count(Call::Unlink)), (6000, 2000));
    let workload = lowered(&text);
    assert_eq!((workload.filesets.len(), workload.processes.len()), (1, 1), "{text}");
    assert_eq!(workload.processes[0].threads[0].instances, 4, "{text}");
    let all = ["createfile", "readwholefile", "appendfile", "deletefile", "statfile", "name=homes"];
    has(&text, &all);
}

#[test]
fn a_mail_spool_keeps_its_chains() {
    let (profile, text) = personality(&cases::varmail());
    assert_eq!(profile.count(Call::Fsync), 3200);
    assert_eq!(profile.writes_before_sync.quantile(0.5), Some(1));
    let workload = lowered(&text);
    assert_eq!(workload.processes[0].threads[0].instances, 8, "{text}");
    has(&text, &["deletefile", "createfile", "appendfile", "fsync", "readwholefile", "name=spool"]);
}

#[test]
fn a_database_is_a_log_and_a_data_file() {
    let (profile, text) = personality(&cases::database());
    assert!(profile.random_reads > 4000 && profile.random_writes > 1500, "{profile:?}");
    let workload = lowered(&text);
    assert_eq!((workload.filesets.len(), workload.processes.len()), (2, 2), "{text}");
    let sizes: Vec<Option<u64>> = workload.filesets.iter().map(|set| set.size.fixed()).collect();
    assert_eq!(sizes, [Some(256 << 20), Some(1 << 20)], "{text}");
    has(&text, &["db-log", "db-ibd", "iters=3", "iosize=16384, random", "dsync", "{76, 512, 512}"]);
}

#[test]
fn short_processes_of_a_program_are_one_role() {
    let (profile, text) = personality(&cases::build());
    assert_eq!((profile.files.created, profile.files.deleted, profile.whole_writes), (300, 0, 300));
    assert_eq!(profile.files.count, profile.files.existing + 300);
    let workload = lowered(&text);
    assert_eq!(workload.processes.len(), 2, "{text}");
    let threads: Vec<u64> = workload.threads().map(|thread| thread.instances).collect();
    assert_eq!(threads, [2, 1], "{text}");
    has(&text, &["300 threads seen"]);
}

#[test]
fn pages_that_are_read_often_are_indexed_and_a_log_stays_open() {
    let (profile, text) = personality(&cases::webserver());
    assert_eq!((profile.whole_reads, profile.appends), (4800, 480));
    assert!(profile.files.hottest_tenth > 0.4, "{:?}", profile.files);
    has(&text, &["indexed=$www_hot", "flowop appendfile name=append-logs-log", "fd=2", "iosize=120"]);
    has(&text, &["Small roles, left out: cron (1 calls), rotate (1 calls)"]);
    let roles: Vec<_> = profile.roles().into_iter().map(|role| (role.name, role.concurrent_max)).collect();
    assert_eq!(roles[0], ("worker".to_owned(), 8));
}

#[test]
fn what_a_thread_makes_it_removes() {
    let (profile, text) = personality(&cases::temporary());
    assert_eq!((profile.files.created, profile.files.deleted, profile.files.existing), (1200, 1200, 0));
    has(&text, &["flowop deletefile", "fd=1", "prealloc=0", "iosize=8192"]);
    let workload = lowered(&text);
    assert_eq!(workload.processes[0].threads[0].instances, 3, "{text}");
}

/// No directory of a long walk is lost, and the large file is in no set with small ones.
#[test]
fn a_walk_of_a_tree_keeps_large_files_apart() {
    let (_, text) = personality(&cases::tree());
    assert_eq!(lowered(&text).filesets.len(), 2, "{text}");
    has(&text, &["# 800 times", "size=16777216"]);
}

/// `--set speed=` drops the rate, or changes it.
#[test]
fn the_rate_can_be_dropped() {
    let text = describe(&profile(&cases::temporary()), "case");
    let events = |speed: &str| {
        let machine = wml::Machine { ram_bytes: 8 << 30, cores: 2, free_bytes: 100 << 30 };
        let set = vec![("speed".to_owned(), speed.to_owned())];
        let settings = wml::Settings { machine, set, name: "case".into() };
        let events = wml::load(text.as_bytes(), &settings).unwrap().workload.events_per_second;
        events.and_then(workload::Value::fixed).unwrap()
    };
    assert_eq!((events("0"), events("200")), (0, 2 * events("100")));
}

#[test]
fn nothing_is_a_personality_too() {
    let text = describe(&Profile::default(), "a\nb");
    assert_eq!(lowered(&text).processes.len(), 1);
}
