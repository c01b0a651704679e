//! What the breakdown makes of real and of written traces, and how it is drawn.

#[path = "../../probe/tests/common/mod.rs"]
mod common;
mod fixture;

use std::path::PathBuf;

use common::{btrfs_on_loop, explained, ext4_on_loop, on_loop, on_nvme, xfs_on_loop};
use probe::fsync::chain::Chain;
use probe::fsync::event::{Blocks, Dev, FsKey, TraceEvent, TraceEventKind};
use probe::fsync::rwbs::Rwbs;
use probe::fsync::{commands, ftrace};
use proptest::prelude::*;
use report::fsync::{artifact, svg, terminal};
use study::fsync::{Breakdown, Parts, Summary};

fn only(moments: &[TraceEvent], chain: &Chain) -> Breakdown {
    let mut fsyncs = explained(moments, chain).fsyncs;
    assert_eq!(fsyncs.len(), 1);
    fsyncs.remove(0)
}

/// Lines `MICROSECONDS TASK-PID EVENT`, as a trace.
fn trace(lines: &str) -> Vec<TraceEvent> {
    let line = |line: &str| {
        let mut words = line.trim().splitn(3, ' ');
        let (us, task, event) = (words.next()?, words.next()?, words.next()?);
        let us: u64 = us.parse().ok()?;
        Some(format!("{task} [000] ..... 1.{us:06}: {event}\n"))
    };
    let text: String = lines.lines().filter_map(line).collect();
    let moments = ftrace::parse(&text);
    assert_eq!(moments.len(), lines.lines().filter(|line| !line.trim().is_empty()).count(), "{text}");
    moments
}

fn us(data: u64, journal: u64, flush: u64, fua: u64, queue: u64, host: u64) -> Parts {
    Parts {
        data_write_ns: data * 1000,
        journal_write_ns: journal * 1000,
        flush_ns: flush * 1000,
        fua_ns: fua * 1000,
        other_ns: 0,
        queue_ns: queue * 1000,
        host_ns: host * 1000,
    }
}

#[test]
fn ext4_on_a_loop_device() {
    let (moments, chain) = ext4_on_loop();
    let fsync = only(&moments, &chain);
    // Read by hand from the trace, in microseconds after the call: data 3..61, journal 90..227, flush
    // 251..2750, commit record 2754..2955 and its flush 2958..3106; in the queue 2..3, 89..90, 247..251,
    // 2750..2754, 2955..2958.
    assert_eq!(fsync.parts(), us(58, 137, 2499, 349, 13, 7365));
    assert_eq!((fsync.total_ns, fsync.levels[0].writes, fsync.levels[0].flushes), (10_421_000, 4, 2));
    assert_eq!((fsync.levels[1].syncs, fsync.levels[1].flushes), (2, 2));
    insta::assert_snapshot!("waterfall_ext4", terminal::waterfall(&fsync));
    insta::assert_snapshot!("svg_ext4", svg::waterfall(&fsync));
}

#[test]
fn xfs_on_a_loop_device() {
    let (moments, chain) = xfs_on_loop();
    insta::assert_snapshot!("waterfall_xfs", terminal::waterfall(&only(&moments, &chain)));
}

#[test]
fn btrfs_on_a_loop_device() {
    let (moments, chain) = btrfs_on_loop();
    insta::assert_snapshot!("waterfall_btrfs", terminal::waterfall(&only(&moments, &chain)));
}

#[test]
fn waterfalls_fit_eighty_columns_and_pictures_are_sound_xml() {
    for (moments, chain) in [ext4_on_loop(), xfs_on_loop(), btrfs_on_loop()] {
        let fsync = only(&moments, &chain);
        let text = terminal::waterfall(&fsync) + &terminal::table(&Summary::of(std::slice::from_ref(&fsync)));
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let drawing =
            report::fsync::flame::flame(&Summary::of(std::slice::from_ref(&fsync)), "fsync on <here>")
                .unwrap();
        let flame = drawing.file("fsync on <here>");
        // each level's parts fill it, and the first level is the call
        let data = flame.split_once("<metadata>").unwrap().1.split_once("</metadata>").unwrap().0;
        let rows: Vec<Vec<&str>> = data.lines().skip(1).map(|line| line.rsplit(',').collect()).collect();
        let sum_at = |depth: &str| -> f64 {
            rows.iter().filter(|row| row[3] == depth).map(|row| row[1].parse::<f64>().unwrap()).sum()
        };
        assert!((sum_at("0") - fsync.total_ns as f64).abs() <= 1.0, "{data}");
        assert!((sum_at("1") - sum_at("2")).abs() <= 8.0, "{data}");
        let svg = svg::waterfall(&fsync);
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert_eq!(svg.matches("<rect").count(), svg.matches("</rect>").count() + 7);
    }
}

/// A name of an attribute twice in the first tag is no XML.
fn attributes_of_head(svg: &str) -> Vec<&str> {
    let head = svg.split_once('>').unwrap().0;
    let mut names: Vec<&str> = head
        .split("=\"")
        .filter_map(|part| part.rsplit([' ', '"']).next())
        .filter(|n| !n.is_empty())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn a_waterfall_as_a_file_of_its_own_is_sound_xml() {
    let (moments, chain) = ext4_on_loop();
    let drawn = svg::waterfall(&only(&moments, &chain));
    let names = attributes_of_head(&drawn).into_iter().map(str::to_string).collect::<Vec<_>>();
    let mut run = fixture::single();
    let fsync = only(&moments, &chain);
    for trial in &mut run.trials {
        trial.fsync = Some(study::fsync::FsyncSplit::of(std::slice::from_ref(&fsync), 0, false));
    }
    let figures = report::html::figures(&run);
    let (_, file) = figures.iter().find(|(name, _)| name.ends_with("typical-fsync.svg")).unwrap();
    assert_eq!(attributes_of_head(file), names);
    for once in ["xmlns", "width", "height", "viewBox"] {
        assert_eq!(names.iter().filter(|name| *name == once).count(), 1, "{once} in {names:?}");
    }
    assert!(file.contains("<style>"));
}

#[test]
fn what_a_waterfall_does_not_draw_is_in_its_figures() {
    let (moments, chain) = ext4_on_loop();
    let mut fsync = only(&moments, &chain);
    let one = fsync.levels[0].stages[0].clone();
    let (before, rows) = (svg::waterfall(&fsync), |svg: &str| svg.matches("\next4").count());
    fsync.levels[0].stages.extend((0..100).map(|_| one.clone()));
    let after = svg::waterfall(&fsync);
    assert_eq!(rows(&after), rows(&before) + 100);
    assert!(after.contains(" more</text>") && !before.contains(" more</text>"), "{after}");
}

/// The picture of the guide is that of the recording which the other tests have; LOADLINE_WRITE_FIGURES=1 draws it anew.
#[test]
fn the_documentation_shows_what_is_drawn() {
    let (moments, chain) = ext4_on_loop();
    let label = "fsync on ext4";
    let summary = Summary::of(&explained(&moments, &chain).fsyncs);
    let drawn = report::fsync::flame::flame(&summary, label).unwrap().file(label);
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures/fsync-flame.svg");
    if std::env::var_os("LOADLINE_WRITE_FIGURES").is_some() {
        std::fs::write(&file, &drawn).unwrap();
    }
    assert!(std::fs::read_to_string(&file).unwrap() == drawn, "{} is not what is drawn now", file.display());
}

#[test]
fn the_artifacts_tables() {
    let (moments, chain) = ext4_on_loop();
    let analysis = explained(&moments, &chain);
    insta::assert_snapshot!("trace_table", artifact::trace_table(&commands(&analysis.requests, &chain)));
    insta::assert_snapshot!("four_lines", artifact::four_lines(&analysis.fsyncs));
    insta::assert_snapshot!("table", terminal::table(&Summary::of(&analysis.fsyncs)));
}

/// A commit on a device with FUA: preflush and FUA write are told apart, no second flush.
#[test]
fn ext4_on_a_device_with_fua() {
    let moments = trace(
        "0 app-9 sys_fsync(fd: 3)
         0 app-9 ext4_sync_file_enter: dev 259,0 ino 12 parent 2 datasync 0
         5 app-9 block_bio_queue: 259,0 WS 800 + 8 [app]
         6 app-9 nvme_setup_cmd: nvme0: disk=nvme0n1, qid=17, cmdid=1, nsid=1, flags=0x0, meta=0x0, cmd=(x slba=1)
         7 app-9 block_rq_issue: 259,0 WS 4096 () 800 + 8 be,0,4 [app]
         27 idle-0 block_rq_complete: 259,0 WS () 800 + 8 be,0,4 [0]
         40 jbd2/nvme0n1-8-5 jbd2_start_commit: dev 259,0 transaction 4 sync 0
         42 jbd2/nvme0n1-8-5 block_bio_queue: 259,0 WSM 9000 + 8 [jbd2/nvme0n1-8]
         43 jbd2/nvme0n1-8-5 block_rq_issue: 259,0 WSM 4096 () 9000 + 8 be,0,4 [jbd2/nvme0n1-8]
         55 idle-0 block_rq_complete: 259,0 WSM () 9000 + 8 be,0,4 [0]
         60 jbd2/nvme0n1-8-5 block_bio_queue: 259,0 FWFSM 9008 + 8 [jbd2/nvme0n1-8]
         70 kworker/0:1H-6 block_rq_issue: 259,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]
         1670 idle-0 block_rq_complete: 259,0 FF () 18446744073709551615 + 0 none,0,0 [0]
         1680 kworker/0:1H-6 block_rq_issue: 259,0 WFSM 4096 () 9008 + 8 be,0,4 [kworker/0:1H]
         5680 idle-0 block_rq_complete: 259,0 WFSM () 9008 + 8 be,0,4 [0]
         5681 idle-0 block_rq_complete: 259,0 WFSM () 9008 + 0 be,0,4 [0]
         5690 jbd2/nvme0n1-8-5 jbd2_end_commit: dev 259,0 transaction 4 sync 0 head 2
         5700 app-9 ext4_sync_file_exit: dev 259,0 ino 12 ret 0
         5700 app-9 sys_fsync -> 0x0",
    );
    let analysis = explained(&moments, &on_nvme("ext4"));
    let table = artifact::trace_table(&commands(&analysis.requests, &on_nvme("ext4")));
    assert_eq!(table.lines().nth(1), Some("1.000007\tapp\t9\t[0, 0]\t[0, 0]\t0\t17\tnvme_cmd_write"));
    assert_eq!(table.lines().nth(3), Some("1.00007\tkworker\t6\t[0, 0]\t[0, 0]\t0\t1\tnvme_cmd_flush"));
    let fsync = &analysis.fsyncs[0];
    assert_eq!(fsync.parts(), us(20, 12, 1600, 4000, 2 + 1 + 10 + 10, 45));
    let labels: Vec<&str> = fsync.levels[0].stages.iter().map(|stage| stage.label.as_ref()).collect();
    assert!(labels.contains(&"commit with FUA") && !labels.contains(&"flush instead of FUA"), "{labels:?}");
}

/// btrfs: the empty flush, then the super block with FUA alone, which no sequence completes.
#[test]
fn fua_without_preflush_on_a_device_with_fua() {
    let moments = trace(
        "0 app-9 sys_fsync(fd: 3)
         1 app-9 btrfs_sync_file: 490087d9-0c97-4308-990f-b0a63061f604: root=5(FS_TREE) ino=257 parent=256 datasync=0
         10 app-9 block_bio_queue: 259,0 FWS 0 + 0 [app]
         12 kworker/0:1H-6 block_rq_issue: 259,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]
         112 idle-0 block_rq_complete: 259,0 FF () 18446744073709551615 + 0 none,0,0 [0]
         112 idle-0 block_rq_complete: 259,0 WS () 0 + 0 none,0,0 [0]
         120 app-9 block_bio_queue: 259,0 WFSM 128 + 8 [app]
         121 app-9 block_rq_issue: 259,0 WFSM 4096 () 128 + 8 be,0,4 [app]
         221 idle-0 block_rq_complete: 259,0 WFSM () 128 + 8 be,0,4 [0]
         300 app-9 sys_fsync -> 0x0",
    );
    assert_eq!(only(&moments, &on_nvme("btrfs")).parts(), us(0, 0, 100, 100, 3, 97));
}

/// Two threads share a commit: each waits for all of its journal I/O, and only for its own data.
#[test]
fn a_group_commit_counts_for_all_who_wait() {
    let moments = trace(
        "0 a-1 sys_fsync(fd: 3)
         0 a-1 ext4_sync_file_enter: dev 259,0 ino 12 parent 2 datasync 0
         0 b-2 sys_fsync(fd: 3)
         0 b-2 ext4_sync_file_enter: dev 259,0 ino 13 parent 2 datasync 0
         10 a-1 block_bio_queue: 259,0 WS 800 + 8 [a]
         10 a-1 block_rq_issue: 259,0 WS 4096 () 800 + 8 be,0,4 [a]
         20 b-2 block_bio_queue: 259,0 WS 900 + 8 [b]
         20 b-2 block_rq_issue: 259,0 WS 4096 () 900 + 8 be,0,4 [b]
         30 idle-0 block_rq_complete: 259,0 WS () 800 + 8 be,0,4 [0]
         60 idle-0 block_rq_complete: 259,0 WS () 900 + 8 be,0,4 [0]
         70 jbd2/nvme0n1-8-5 block_bio_queue: 259,0 WSM 9000 + 8 [jbd2/nvme0n1-8]
         70 jbd2/nvme0n1-8-5 block_rq_issue: 259,0 WSM 4096 () 9000 + 8 be,0,4 [jbd2/nvme0n1-8]
         100 idle-0 block_rq_complete: 259,0 WSM () 9000 + 8 be,0,4 [0]
         110 a-1 sys_fsync -> 0x0
         120 b-2 sys_fsync -> 0x0",
    );
    let fsyncs = explained(&moments, &on_nvme("ext4")).fsyncs;
    assert_eq!(fsyncs[0].parts(), us(20, 30, 0, 0, 0, 60));
    assert_eq!(fsyncs[1].parts(), us(40, 30, 0, 0, 0, 50));
}

/// An fdatasync without a commit flushes by itself: the commit going on meanwhile is somebody else's.
#[test]
fn a_flush_of_its_own_tells_that_no_commit_is_waited_for() {
    let moments = trace(
        "0 a-1 sys_fdatasync(fd: 3)
         0 a-1 ext4_sync_file_enter: dev 259,0 ino 12 parent 2 datasync 1
         5 jbd2/nvme0n1-8-5 block_bio_queue: 259,0 WSM 9000 + 8 [jbd2/nvme0n1-8]
         5 jbd2/nvme0n1-8-5 block_rq_issue: 259,0 WSM 4096 () 9000 + 8 be,0,4 [jbd2/nvme0n1-8]
         10 a-1 block_bio_queue: 259,0 WS 800 + 8 [a]
         10 a-1 block_rq_issue: 259,0 WS 4096 () 800 + 8 be,0,4 [a]
         20 idle-0 block_rq_complete: 259,0 WS () 800 + 8 be,0,4 [0]
         25 a-1 block_bio_queue: 259,0 FWS 0 + 0 [a]
         27 kworker/0:1H-6 block_rq_issue: 259,0 FF 0 () 0 + 0 none,0,0 [kworker/0:1H]
         80 idle-0 block_rq_complete: 259,0 WSM () 9000 + 8 be,0,4 [0]
         97 idle-0 block_rq_complete: 259,0 FF () 18446744073709551615 + 0 none,0,0 [0]
         97 idle-0 block_rq_complete: 259,0 WS () 0 + 0 none,0,0 [0]
         100 a-1 sys_fdatasync -> 0x0",
    );
    let fsync = only(&moments, &on_nvme("ext4"));
    assert_eq!(fsync.parts(), us(10, 0, 70, 0, 2, 18));
    assert!(fsync.data_only);
}

/// A file system without barriers: the commit record is a journal write like the others.
#[test]
fn without_barriers_there_is_neither_flush_nor_fua() {
    let (moments, mut chain) = ext4_on_loop();
    chain.levels.truncate(1);
    chain.levels[0].disks[0].write_back = Some(false);
    let parts = only(&moments, &chain).parts();
    assert_eq!((parts.flush_ns, parts.fua_ns), (0, 0));
    assert_eq!(parts.journal_write_ns, 137_000 + 201_000);
}

/// Merged bios end with their request, split ones with the last of theirs; a requeued request is one.
#[test]
fn merges_splits_and_requeues() {
    let moments = trace(
        "0 a-1 sys_fsync(fd: 3)
         0 a-1 ext4_sync_file_enter: dev 259,0 ino 12 parent 2 datasync 0
         10 a-1 block_bio_queue: 259,0 WS 800 + 8 [a]
         11 a-1 block_bio_queue: 259,0 WS 808 + 24 [a]
         20 a-1 block_rq_issue: 259,0 WS 8192 () 800 + 16 be,0,4 [a]
         21 a-1 block_rq_issue: 259,0 WS 8192 () 800 + 16 be,0,4 [a]
         22 a-1 block_rq_issue: 259,0 WS 8192 () 816 + 16 be,0,4 [a]
         50 idle-0 block_rq_complete: 259,0 WS () 800 + 8 be,0,4 [0]
         60 idle-0 block_rq_complete: 259,0 WS () 808 + 8 be,0,4 [0]
         90 idle-0 block_rq_complete: 259,0 WS () 816 + 16 be,0,4 [0]
         100 a-1 sys_fsync -> 0x0",
    );
    let analysis = explained(&moments, &on_nvme("ext4"));
    assert_eq!(analysis.requests.len(), 2);
    assert_eq!(analysis.fsyncs[0].parts(), us(70, 0, 0, 0, 10, 20));
    assert_eq!((analysis.fsyncs[0].levels[0].writes, analysis.fsyncs[0].levels[0].written_bytes), (2, 16384));
}

/// Only the calling thread's I/O can be told on a file system without tracepoints.
#[test]
fn an_unknown_file_system_shows_the_callers_own_io() {
    let moments = trace(
        "0 a-1 sys_fsync(fd: 3)
         10 a-1 block_bio_queue: 259,0 WS 800 + 8 [a]
         10 a-1 block_rq_issue: 259,0 WS 4096 () 800 + 8 be,0,4 [a]
         30 idle-0 block_rq_complete: 259,0 WS () 800 + 8 be,0,4 [0]
         40 a-1 sys_fsync -> 0x0
         50 a-1 sys_fsync(fd: 4)
         60 a-1 sys_fsync -> 0x0",
    );
    let fsync = only(&moments, &on_nvme("jfs"));
    assert_eq!(fsync.parts(), us(20, 0, 0, 0, 0, 20));
    assert_eq!(fsync.inode, None);
}

#[test]
fn a_level_without_disks_is_all_host() {
    let (moments, mut chain) = ext4_on_loop();
    chain.levels[1].disks.clear();
    chain.levels[1].holds = Some((1, PathBuf::from("/fuse/ssd")));
    let fsync = only(&moments, &chain);
    assert_eq!(fsync.levels[1].parts.host_ns, fsync.levels[1].windows_ns);
}

fn what() -> impl Strategy<Value = TraceEventKind> {
    let devs = prop::sample::select(vec![Dev::new(7, 0), Dev::new(254, 0), Dev::new(8, 1)]);
    let letters = prop::sample::select(vec!["WS", "WSM", "FWFSM", "WFSM", "FWS", "FF", "R", "RM", "DS", "W"]);
    let comms = prop::sample::select(vec!["app", "jbd2/loop0-8", "kworker/0:1", "loop0", "other"]);
    let blocks =
        (devs.clone(), letters, comms, 0_u64..6, 0_u32..4).prop_map(|(dev, rwbs, comm, at, size)| Blocks {
            dev,
            sector: if at == 5 { u64::MAX } else { at * 8 },
            sectors: size * 8,
            rwbs: Rwbs::parse(rwbs),
            comm: comm.to_string(),
        });
    let fs = devs.prop_map(FsKey::Dev);
    prop_oneof![
        any::<bool>().prop_map(|data_only| TraceEventKind::SyncEnter { data_only }),
        Just(TraceEventKind::SyncExit),
        (fs.clone(), 1_u64..3).prop_map(|(fs, inode)| TraceEventKind::FsEnter {
            fs,
            inode,
            data_only: false
        }),
        (fs.clone(), 1_u64..3).prop_map(|(fs, inode)| TraceEventKind::FsExit { fs, inode }),
        (fs, any::<bool>()).prop_map(|(fs, log_io)| TraceEventKind::Journal { fs, step: "step", log_io }),
        blocks.clone().prop_map(TraceEventKind::Queue),
        blocks.clone().prop_map(TraceEventKind::Issue),
        blocks.prop_map(TraceEventKind::Complete),
    ]
}

proptest! {
    /// Whatever comes: parts sum up to the total on every level, and every picture can be drawn.
    #[test]
    fn nonsense_is_explained_without_losing_a_nanosecond(
        steps in prop::collection::vec((0_u64..50, 0_i32..4, what()), 0..120),
        fs_type in prop::sample::select(vec!["ext4", "xfs", "btrfs", "jfs"]),
        write_back: bool,
        fua: bool,
    ) {
        let mut at_ns = 0;
        let moments: Vec<TraceEvent> = steps
            .into_iter()
            .map(|(later, pid, what)| {
                at_ns += later;
                TraceEvent { at_ns, cpu: (pid % 2) as u16, pid, what }
            })
            .collect();
        let mut chain = on_loop(fs_type, 0, 1);
        chain.levels[0].disks[0].write_back = Some(write_back);
        chain.levels[0].disks[0].fua = Some(fua);
        let analysis = explained(&moments, &chain);
        for fsync in &analysis.fsyncs {
            let text = terminal::waterfall(fsync);
            prop_assert!(text.lines().all(|line| line.chars().count() <= 80), "{}", text);
            svg::waterfall(fsync);
        }
        terminal::table(&Summary::of(&analysis.fsyncs));
        artifact::trace_table(&commands(&analysis.requests, &chain));
    }
}
