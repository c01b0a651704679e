//! Scripts of events, and what is told of them.

mod any;
mod model;
mod script;

use super::*;
use crate::call::Call;
use script::{Script, file, open_file, round_trip, words};

const MS: u64 = 1_000_000;
const CWD: u64 = libc::AT_FDCWD as u64;
const CREAT: u64 = (libc::O_CREAT | libc::O_WRONLY) as u64;
const EXCL: u64 = CREAT | libc::O_EXCL as u64;
const CLOEXEC: u64 = libc::O_CLOEXEC as u64;
const APPEND: u64 = (libc::O_APPEND | libc::O_WRONLY) as u64;

#[test]
fn positions_move_and_are_shared() {
    let mut script = Script::new().has("/a", file(100, 7));
    script.open(1, "/a", 0, 3);
    script.on(1, libc::SYS_read, &[3, 0, 10], 10);
    script.on(1, libc::SYS_dup, &[3], 4);
    script.fork(1, 2);
    script.on(2, libc::SYS_read, &[4, 0, 50], 20);
    script.on(1, libc::SYS_pread64, &[3, 0, 5, 70], 5);
    script.on(1, libc::SYS_readv, &[4, 0, 3], 6);
    script.on(2, libc::SYS_lseek, &[3, 0, 2], 100);
    script.on(1, libc::SYS_read, &[4, 0, 9], 0);
    script.on(1, libc::SYS_preadv2, &[3, 0, 1, u64::MAX, 0, 0], 0);
    script.tells(&[
        "/a: File(100)",
        "open /a h0",
        "read h0 0+10",
        "read h0 10+50 = 20",
        "read h0 70+5",
        "read h0 30+6",
        "read h0 100+9 = 0",
        "read h0",
    ]);
}

#[test]
fn the_last_descriptor_closes() {
    let mut script = Script::new();
    script.open(1, "/a", EXCL, 3);
    script.on(1, libc::SYS_dup3, &[3, 9, 0], 9);
    script.fork(1, 2);
    script.on(1, libc::SYS_close, &[3], 0);
    script.on(1, libc::SYS_close, &[9], 0);
    script.on(1, libc::SYS_close, &[9], -9);
    script.on(2, libc::SYS_close_range, &[4, u64::from(u32::MAX), 0], 0);
    script.tells(&["/a: Absent", "open /a h0"]);
    script.exit(2, 2);
    script.tells(&["close h0"]);
    script.open(1, "/a", 1, 3);
    script.open(1, "/a", 1, 4);
    script.on(1, libc::SYS_dup2, &[4, 3], 3);
    script.on(1, libc::SYS_close, &[4], -5);
    script.on(1, libc::SYS_close, &[3], -5);
    script.tells(&["open /a h1", "open /a h2", "close h1", "close h2 = -5"]);
    assert!(script.follower.opens.is_empty());
}

#[test]
fn exec_closes_what_is_marked_and_renames() {
    let mut script = Script::new();
    script.fork(7, 1);
    script.open(1, "/a", EXCL | CLOEXEC, 3);
    script.open(1, "/b", EXCL, 4);
    script.on(1, libc::SYS_fcntl, &[4, libc::F_SETFD as u64, 1], 0);
    script.on(1, libc::SYS_fcntl, &[4, libc::F_DUPFD as u64, 10], 10);
    script.on(1, libc::SYS_fcntl, &[3, libc::F_DUPFD_CLOEXEC as u64, 10], 11);
    script.fork(1, 2);
    script.exec(2, "cc");
    script.on(2, libc::SYS_write, &[10, 0, 5], 5);
    script.on(2, libc::SYS_write, &[3, 0, 5], -9);
    script.exec(1, "sh");
    script.on(1, libc::SYS_write, &[10, 0, 5], 5);
    let words = words(&script.out);
    assert!(words.contains(&"thread 2/2 cc".into()) && words.contains(&"thread 1/1 sh".into()));
    script.tells(&[
        "/a: Absent",
        "open /a h0",
        "/b: Absent",
        "open /b h1",
        "write h1 0+5",
        "close h0",
        "write h1 5+5",
    ]);
}

#[test]
fn threads_share_and_their_process_ends_with_the_last() {
    let mut script = Script::new();
    script.event(RawEvent::Fork { parent_pid: 1, tid: 5, pid: 1, at_ns: script.now });
    script.open(1, "/a", EXCL, 3);
    script.at((script.now + 2 * MS, script.now + 3 * MS), (1, 5), libc::SYS_write, (&[3, 0, 4], &[]), 4);
    script.exit(1, 1);
    script.tells(&["/a: Absent", "open /a h0", "write h0 0+4"]);
    script.exit(1, 5);
    script.tells(&["close h0"]);
    assert!(script.follower.processes.is_empty() && script.follower.threads.is_empty());
}

/// Thread 1 closes 3 for a long time; its number is given to thread 2's open, which is reported first.
#[test]
fn a_close_that_began_before_the_open_of_its_number_closes_the_former() {
    let mut script = Script::new().has("/a", file(10, 1)).has("/b", file(10, 2));
    script.open(1, "/a", 0, 3);
    let t = script.now + 10 * MS;
    script.at((t + 20, t + 30), (1, 2), libc::SYS_openat, (&[CWD, 0, 0], &["/b"]), 3);
    script.at((t + 31, t + 32), (1, 2), libc::SYS_read, (&[3, 0, 1], &[]), 1);
    script.at((t + 5, t + 35), (1, 3), libc::SYS_read, (&[3, 0, 2], &[]), 2);
    script.at((t + 10, t + 40), (1, 1), libc::SYS_close, (&[3], &[]), 0);
    script.at((t + 41, t + 42), (1, 1), libc::SYS_read, (&[3, 0, 1], &[]), 1);
    script.at((t + 9, t + 43), (1, 3), libc::SYS_read, (&[3, 0, 2], &[]), 2);
    script.at((t + 44, t + 45), (1, 1), libc::SYS_close, (&[3], &[]), 0);
    script.at((t + 43, t + 46), (1, 3), libc::SYS_read, (&[3, 0, 2], &[]), 2);
    script.tells(&[
        "/a: File(10)",
        "open /a h0",
        "/b: File(10)",
        "open /b h1",
        "read h1 0+1",
        "read h0 0+2",
        "close h0",
        "read h1 1+1",
        "close h1",
    ]);
    assert_eq!(script.follower.counts().unknown, 2);
    assert!(script.follower.opens.is_empty());
}

#[test]
fn appends_stand_at_the_end() {
    let mut script = Script::new().has("/log", file(100, 7));
    script.open(1, "/log", APPEND, 3);
    script.open(2, "/log", APPEND, 3);
    script.on(1, libc::SYS_write, &[3, 0, 10], 10);
    script.on(2, libc::SYS_writev, &[3, 0, 1], 5);
    script.on(1, libc::SYS_pwrite64, &[3, 0, 3, 0], 3);
    script.on(1, libc::SYS_ftruncate, &[3, 4], 0);
    script.on(2, libc::SYS_write, &[3, 0, 10], -28);
    script.on(2, libc::SYS_fcntl, &[3, libc::F_SETFL as u64, 0], 0);
    script.on(2, libc::SYS_write, &[3, 0, 1], 1);
    script.on(2, libc::SYS_fallocate, &[3, 0, 500, 12], 0);
    script.on(1, libc::SYS_write, &[3, 0, 1], 1);
    script.tells(&[
        "/log: File(100)",
        "open /log h0",
        "open /log h1",
        "write h0 100+10",
        "write h1 110+5",
        "write h0 115+3",
        "truncate h0 0+4",
        "write h1 4+10 = -28",
        "write h1 115+1",
        "fallocate h1 500+12",
        "write h0 512+1",
    ]);
}

#[test]
fn names_are_seen_from_directories() {
    let mut script = Script::new().has("/home", Seen::Directory).has("/srv/x", Seen::Directory);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["./a//../b/"]), -2);
    script.open(1, "/srv/x", libc::O_DIRECTORY as u64, 3);
    script.call(1, libc::SYS_unlinkat, (&[3], &["../f"]), 0);
    script.on(1, libc::SYS_fchdir, &[3], 0);
    script.fork(1, 2);
    script.call(2, libc::SYS_mkdirat, (&[CWD], &["d"]), 0);
    script.call(2, libc::SYS_chdir, (&[], &["d"]), 0);
    script.call(2, libc::SYS_newfstatat, (&[CWD], &["e"]), -2);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["e"]), -2);
    script.on(1, libc::SYS_getdents64, &[3, 0, 512], 48);
    script.call(1, libc::SYS_newfstatat, (&[3, 0, 0, libc::AT_EMPTY_PATH as u64], &[""]), 0);
    script.tells(&[
        "/home/b: Absent",
        "stat /home/b = -2",
        "/srv/x: Directory",
        "open /srv/x h0",
        "/srv/f: File(0)",
        "unlink /srv/f",
        "/srv/x/d: Absent",
        "mkdir /srv/x/d",
        "/srv/x/d/e: Absent",
        "stat /srv/x/d/e = -2",
        "/srv/x/e: Absent",
        "stat /srv/x/e = -2",
        "readdir h0 0+512",
        "stat h0",
    ]);
}

#[test]
fn what_was_there_before_the_first_call() {
    let born = |born| Seen::File { size: 9, born_unix_ns: Some(born), device: 1, inode: born };
    let mut script = Script::new().has("/old", born(5)).has("/new", born(900 * MS)).has("/kept", file(4, 3));
    script = script.has("/trunc", file(0, 9)).has("/moved", file(77, 8)).has("/fifo", Seen::Other);
    script.now = 1100 * MS;
    script.open(1, "/old", CREAT, 3);
    script.open(1, "/new", CREAT, 4);
    script.now = 1095 * MS;
    script.open(1, "/new2", CREAT, 5);
    script.open(1, "/trunc", libc::O_TRUNC as u64 | 1, 6);
    script.open(1, "/kept", EXCL, -17);
    script.call(1, libc::SYS_renameat, (&[CWD, 0, CWD], &["/tmp1", "/moved"]), 0);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["/tmp1"]), -2);
    script.open(1, "/fifo", 1, 7);
    script.on(1, libc::SYS_write, &[7, 0, 1], 1);
    script.open(1, "/dev/null", 1, 8);
    script.on(1, libc::SYS_write, &[8, 0, 1], 1);
    script.tells(&[
        "/old: File(9)",
        "open /old h0",
        "/new: File(9)",
        "open /new h1",
        "/new2: Absent",
        "open /new2 h2",
        "/trunc: File(0)",
        "open /trunc h3",
        "/kept: File(4)",
        "open /kept = -17",
        "/tmp1: File(77)",
        "/moved: Absent",
        "rename /tmp1 > /moved",
        "stat /tmp1 = -2",
    ]);
    assert_eq!(script.follower.counts().unknown, 0);
}

#[test]
fn a_file_born_during_its_open_was_absent() {
    for (ahead, absent) in [(0, true), (100, true), (101, false)] {
        let at = 1020 * MS;
        let born = Seen::File { size: 9, born_unix_ns: Some(at - ahead * MS), device: 1, inode: 1 };
        let mut script = Script::new().has("/a", born);
        script.open(1, "/a", CREAT, 3);
        script.tells(&[if absent { "/a: Absent" } else { "/a: File(9)" }, "open /a h0"]);
    }
}

#[test]
fn directories_that_the_program_made_or_moved() {
    let mut script = Script::new().has("/d/old", file(5, 5)).has("/d", Seen::Directory);
    script.call(1, libc::SYS_mkdirat, (&[CWD], &["/d/n"]), 0);
    script.open(1, "/d/n/f", CREAT, 3);
    script.on(1, libc::SYS_write, &[3, 0, 8], 8);
    script.open(1, "/d/n", libc::O_DIRECTORY as u64, 4);
    script.call(1, libc::SYS_renameat2, (&[CWD, 0, CWD], &["/d/n", "/d/m"]), 0);
    script.table.asked.clear();
    script.call(1, libc::SYS_openat, (&[4, 0, APPEND], &["f"]), 5);
    script.on(1, libc::SYS_write, &[5, 0, 1], 1);
    script.call(1, libc::SYS_openat, (&[4, 0, CREAT], &["g"]), 6);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["/d/n/f"]), -2);
    assert!(script.table.asked.is_empty(), "{:?}", script.table.asked);
    script.call(1, libc::SYS_unlinkat, (&[CWD], &["/d/m/f"]), 0);
    script.on(1, libc::SYS_write, &[5, 0, 1], 1);
    script.tells(&[
        "/d/n: Absent",
        "mkdir /d/n",
        "/d/n/f: Absent",
        "open /d/n/f h0",
        "write h0 0+8",
        "open /d/n h1",
        "/d/m: Absent",
        "rename /d/n > /d/m",
        "/d/m/f: Absent",
        "open /d/m/f h2",
        "write h2 8+1",
        "/d/m/g: Absent",
        "open /d/m/g h3",
        "stat /d/n/f = -2",
        "unlink /d/m/f",
        "write h2 9+1",
    ]);
}

#[test]
fn links_are_told_and_followed() {
    let mut script = Script::new().has("/l", Seen::Link(b"dir/../f".to_vec())).has("/f", file(30, 1));
    script = script.has("/null", Seen::Link(b"/dev/null".to_vec()));
    script.open(1, "/l", APPEND, 3);
    script.open(1, "/f", APPEND, 4);
    script.on(1, libc::SYS_write, &[3, 0, 1], 1);
    script.on(1, libc::SYS_write, &[4, 0, 1], 1);
    script.open(1, "/null", 1, 5);
    script.on(1, libc::SYS_write, &[5, 0, 1], 1);
    script.call(1, libc::SYS_linkat, (&[CWD, 0, CWD], &["/f", "/g"]), 0);
    script.call(1, libc::SYS_unlinkat, (&[CWD], &["/f"]), 0);
    script.open(1, "/g", APPEND, 6);
    script.on(1, libc::SYS_write, &[6, 0, 1], 1);
    script.call(1, libc::SYS_symlinkat, (&[0, CWD], &["g", "/s"]), 0);
    script.open(1, "/s", APPEND, 7);
    script.on(1, libc::SYS_write, &[7, 0, 1], 1);
    assert!(words(&script.out).windows(2).any(|pair| pair == ["/l: Link", "path /f"]));
    script.tells(&[
        "/l: Link",
        "/f: File(30)",
        "open /l h0",
        "open /f h1",
        "write h0 30+1",
        "write h1 31+1",
        "/null: Link",
        "/g: Absent",
        "link /f > /g",
        "unlink /f",
        "open /g h2",
        "write h2 32+1",
        "/s: Absent",
        "symlink /s > /g",
        "open /s h3",
        "write h3 33+1",
    ]);
}

#[test]
fn a_process_that_was_there_before() {
    let mut script = Script::new();
    let log = open_file("/log", APPEND, 50, file(50, 4));
    let data = open_file("/data", CLOEXEC, 30, file(90, 5));
    for pid in [1, 2] {
        script.table.descriptors.insert((pid, 1), log.clone());
        script.table.descriptors.insert((pid, 3), data.clone());
        script.table.descriptors.insert((pid, 0), Descriptor::Other);
    }
    script.on(1, libc::SYS_read, &[0, 0, 1], 1);
    script.fork(1, 2);
    script.exec(2, "cc");
    script.on(2, libc::SYS_write, &[1, 0, 10], 10);
    script.on(1, libc::SYS_write, &[1, 0, 5], 5);
    script.on(1, libc::SYS_read, &[3, 0, 10], 10);
    script.on(2, libc::SYS_read, &[0, 0, 1], 1);
    script.exit(2, 2);
    script.on(1, libc::SYS_close, &[1], 0);
    script.on(1, libc::SYS_read, &[8, 0, 1], 1);
    script.tells(&[
        "/log: File(40)",
        "inherited /log",
        "write h0 40+10",
        "write h0 50+5",
        "/data: File(90)",
        "inherited /data",
        "read h1 20+10",
        "close h0",
    ]);
    assert_eq!(script.follower.counts().unknown, 1);
    let asked = script.table.asked.iter().filter(|asked| asked.starts_with("descriptor")).count();
    assert_eq!(asked, 4);
}

/// A pipe's numbers are not looked up: when they are used they may be a file's.
#[test]
fn pipes_and_sockets_are_no_files() {
    let mut script = Script::new();
    for fd in 3..8 {
        script.table.descriptors.insert((2, fd), open_file("/late", 0, 0, file(9, 9)));
    }
    script.on(1, libc::SYS_pipe2, &[0, 0, 0, 0, 0, 4 << 32 | 3], 0);
    script.on(1, libc::SYS_socketpair, &[0, 0, 0, 0, 0, 6 << 32 | 5], 0);
    script.on(1, libc::SYS_epoll_create1, &[0], 7);
    script.on(1, libc::SYS_pipe2, &[0, 0, 0, 0, 0, 9 << 32 | 8], -24);
    script.fork(1, 2);
    for fd in 3..8 {
        script.on(2, libc::SYS_read, &[fd, 0, 1], 1);
    }
    script.tells(&[]);
    assert!(
        !script.table.asked.iter().any(|asked| asked.starts_with("descriptor")),
        "{:?}",
        script.table.asked
    );
}

/// A directory that was changed before anybody could look is the one at the begin, changed.
#[test]
fn a_working_directory_is_that_of_the_begin() {
    let mut script = Script::new().has("/top/in", Seen::Directory).has("/top/in/f", file(1, 1));
    script.table.directories.insert(1, b"/top".to_vec());
    script.fork(1, 2);
    script.call(2, libc::SYS_chdir, (&[], &["in"]), 0);
    script.call(2, libc::SYS_newfstatat, (&[CWD], &["f"]), 0);
    script.tells(&["/top/in/f: File(1)", "stat /top/in/f"]);
}

/// A file that is gone when it is looked for was as large as reads show.
#[test]
fn a_file_that_nobody_could_see_is_as_large_as_its_reads() {
    let mut script = Script::new();
    script.open(1, "/gone", 0, 3);
    script.on(1, libc::SYS_read, &[3, 0, 100], 100);
    script.on(1, libc::SYS_read, &[3, 0, 100], 40);
    script.on(1, libc::SYS_pread64, &[3, 0, 10, 0], 10);
    script.tells(&[
        "/gone: File(0)",
        "open /gone h0",
        "/gone: File(100)",
        "read h0 0+100",
        "/gone: File(140)",
        "read h0 100+100 = 40",
        "read h0 0+10",
    ]);
}

/// What a process had open at the begin is as it was then, whatever it is when the event is handled.
#[test]
fn what_was_open_at_the_begin_is_as_it_was() {
    let mut script = Script::new().has("/log", file(50, 4));
    script.table.at_begin.insert((1, 1), open_file("/log", 0, 20, file(50, 4)));
    script.fork(1, 2);
    script.on(2, libc::SYS_read, &[1, 0, 10], 10);
    script.tells(&["/log: File(50)", "inherited /log", "read h0 20+10"]);
}

#[test]
fn copies_read_here_and_write_there() {
    let mut script = Script::new().has("/a", file(100, 1));
    script.table.descriptors.insert((1, 9), Descriptor::Other);
    script.open(1, "/a", 0, 3);
    script.open(1, "/b", EXCL, 4);
    script.on(1, libc::SYS_copy_file_range, &[3, 0, 4, 0, 50], 30);
    script.on(1, libc::SYS_copy_file_range, &[3, 1, 4, 0, 10], 10);
    script.on(1, libc::SYS_sendfile, &[9, 3, 1, 20], 20);
    script.on(1, libc::SYS_sendfile, &[9, 3, 0, 20], -11);
    script.on(1, libc::SYS_splice, &[9, 0, 4, 0, 6], 6);
    script.tells(&[
        "/a: File(100)",
        "open /a h0",
        "/b: Absent",
        "open /b h1",
        "read h0 0+30",
        "write h1 0+30",
        "read h0 0+10",
        "write h1 30+10",
        "read h0 10+20",
        "write h1 40+6",
    ]);
}

#[test]
fn faults_are_those_of_known_files() {
    let mut script = Script::new().has("/lib", file(9000, 1));
    let fault = |script: &mut Script, inode| {
        script.event(RawEvent::Fault { pid: 1, tid: 1, at_ns: script.now, device: 1, inode, offset: 4096 });
    };
    fault(&mut script, 1);
    script.open(1, "/lib", 0, 3);
    fault(&mut script, 1);
    script.on(1, libc::SYS_close, &[3], 0);
    fault(&mut script, 1);
    script.open(1, "/made", EXCL, 4);
    fault(&mut script, 2);
    script.table.descriptors.insert((1, 4), open_file("/made", 0, 0, file(0, 2)));
    script.on(1, libc::SYS_mmap, &[0, 4096, 1, 1, 4, 0], 0x7000);
    fault(&mut script, 2);
    script.tells(&[
        "/lib: File(9000)",
        "open /lib h0",
        "fault h0 4096+4096",
        "close h0",
        "fault /lib 4096+4096",
        "/made: Absent",
        "open /made h1",
        "fault h1 4096+4096",
    ]);
    assert_eq!(script.follower.counts().dropped_faults, 2);
}

#[test]
fn only_below_what_was_asked_for_and_without_names() {
    let options = Options {
        under: vec![b"/data".to_vec()],
        anonymous: Some([1, 2]),
        begin_ns: 1000 * MS,
        unix_ahead_ns: 0,
    };
    let mut script = Script::with(options);
    script.open(1, "/etc/passwd", 0, 3);
    script.on(1, libc::SYS_read, &[3, 0, 5], 5);
    script.open(1, "/etc", 0, 4);
    script.call(1, libc::SYS_openat, (&[4, 0, EXCL], &["../data/secret.txt"]), 5);
    script.call(1, libc::SYS_renameat, (&[CWD, 0, CWD], &["/data/secret.txt", "/etc/secret"]), 0);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["/data/secret.txt"]), -2);
    script.on(1, libc::SYS_io_uring_enter, &[9, 5], 4);
    script.on(1, libc::SYS_io_submit, &[9, 5], 2);
    script.on(1, libc::SYS_sync, &[], 0);
    let words = words(&script.out);
    assert!(words.iter().all(|word| !word.contains("secret") && !word.contains("etc")), "{words:?}");
    assert!(words[0].starts_with("path /") && words[0].ends_with(".x"));
    assert!(!words.iter().any(|word| word.contains("/data")), "{words:?}");
    assert_eq!(script.out.len(), 7, "{words:?}");
    let summary = script.follower.summary(1500 * MS);
    assert_eq!(summary, Summary { length_ns: 500 * MS, operations: 4, lost: 0, unseen_requests: 6 });
    let Some(Item::Operation(first)) = script.out.get(3) else { panic!("{words:?}") };
    assert_eq!((first.begin_ns, first.took_ns), (80 * MS, MS));
}

#[test]
fn openat2_creates_what_was_not_there() {
    let mut script = Script::new();
    script.table.descriptors.insert((1, 3), open_file("/a", APPEND, 0, file(0, 1)));
    script.call(1, libc::SYS_openat2, (&[CWD], &["/a"]), 3);
    script.on(1, libc::SYS_write, &[3, 0, 2], 2);
    script.open(1, "/a", 0, -13);
    script.event(RawEvent::Lost(3));
    script.tells(&["/a: Absent", "open /a h0", "write h0 0+2", "open /a = -13", "Lost(3)"]);
}

#[test]
fn a_file_without_a_name_gets_one() {
    let mut script = Script::new().has("/tmp", Seen::Directory);
    script.open(1, "/tmp", (libc::O_TMPFILE | libc::O_RDWR) as u64, 3);
    script.on(1, libc::SYS_write, &[3, 0, 2], 2);
    let follow = libc::AT_SYMLINK_FOLLOW as u64;
    script.call(1, libc::SYS_linkat, (&[CWD, 0, CWD, 0, follow], &["/proc/self/fd/3", "/tmp/a"]), 0);
    script.open(1, "/tmp/a", APPEND, 4);
    script.on(1, libc::SYS_write, &[4, 0, 2], 2);
    script.tells(&[
        "/tmp: Directory",
        "open /tmp h0",
        "write h0 0+2",
        "/tmp/a: Absent",
        "link > /tmp/a h0",
        "open /tmp/a h1",
        "write h1 2+2",
    ]);
}

#[test]
fn memory_is_that_of_what_lives() {
    let mut script = Script::new();
    for round in 0..200 {
        let pid = 100 + round;
        script.fork(1, pid);
        script.open(pid, "/t/a", CREAT, 3);
        script.on(pid, libc::SYS_dup, &[3], 4);
        script.call(pid, libc::SYS_unlinkat, (&[CWD], &["/t/a"]), 0);
        script.open(pid, "/proc/1/stat", 0, 5);
        script.exit(pid, pid);
    }
    let follower = &script.follower;
    assert!(follower.opens.is_empty() && follower.threads.is_empty());
    assert_eq!((follower.processes.len(), follower.names.files()), (1, 0));
}

#[test]
fn a_renamed_directory_brings_what_was_never_seen() {
    let mut script = Script::new().has("/a", Seen::Directory).has("/b", Seen::Directory);
    script = script.has("/c/d/f", file(5, 1)).has("/c", Seen::Directory);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["/a"]), 0);
    script.call(1, libc::SYS_renameat, (&[CWD, 0, CWD], &["/a", "/b"]), 0);
    script.call(1, libc::SYS_renameat, (&[CWD, 0, CWD], &["/b", "/c"]), 0);
    script.open(1, "/c/d/f", 0, 3);
    script.open(1, "/c/d/g", CREAT, 4);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["/a/d/f"]), -2);
    script.tells(&[
        "/a: Directory",
        "stat /a",
        "/b: Absent",
        "rename /a > /b",
        "/c: Absent",
        "rename /b > /c",
        "/a/d/f: File(5)",
        "/c/d/f: Absent",
        "open /c/d/f h0",
        "/c/d/g: Absent",
        "open /c/d/g h1",
        "stat /a/d/f = -2",
    ]);
}

/// The child has the descriptor if the kernel gave the number before the fork; the system tells.
#[test]
fn a_fork_while_another_thread_opens() {
    let mut script = Script::new().has("/a", file(50, 1));
    script.table.descriptors.insert((2, 3), open_file("/a", 0, 10, file(50, 1)));
    script.on(1, libc::SYS_close, &[3], 0);
    let t = script.now + 10 * MS;
    script.event(RawEvent::Fork { parent_pid: 1, tid: 2, pid: 2, at_ns: t + 10 });
    script.event(RawEvent::Fork { parent_pid: 1, tid: 4, pid: 4, at_ns: t + 10 });
    script.at((t + 5, t + 20), (1, 1), libc::SYS_openat, (&[CWD, 0, 0], &["/a"]), 3);
    script.on(2, libc::SYS_read, &[3, 0, 10], 10);
    script.on(1, libc::SYS_read, &[3, 0, 10], 10);
    script.on(1, libc::SYS_close, &[3], 0);
    script.on(4, libc::SYS_read, &[3, 0, 10], -9);
    script.on(2, libc::SYS_close, &[3], 0);
    script.tells(&["/a: File(50)", "open /a h0", "read h0 0+10", "read h0 10+10", "close h0"]);
}

/// What failed first may be reported last.
#[test]
fn a_late_failure_does_not_hide_what_was_made_meanwhile() {
    let mut script = Script::new();
    script.open(1, "/a", EXCL | APPEND, 3);
    script.on(1, libc::SYS_write, &[3, 0, 10], 10);
    script.at(
        (script.now - 200 * MS, script.now + 2 * MS),
        (1, 2),
        libc::SYS_newfstatat,
        (&[CWD], &["/a"]),
        -2,
    );
    script.open(1, "/a", APPEND, 4);
    script.on(1, libc::SYS_write, &[4, 0, 1], 1);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["/a"]), -2);
    script.open(1, "/a", CREAT | APPEND, 5);
    script.on(1, libc::SYS_write, &[5, 0, 1], 1);
    script.tells(&[
        "/a: Absent",
        "open /a h0",
        "write h0 0+10",
        "stat /a = -2",
        "open /a h1",
        "write h1 10+1",
        "stat /a = -2",
        "open /a h2",
        "write h2 0+1",
    ]);
}

#[test]
fn names_of_one_file_and_names_that_change_places() {
    let mut script = Script::new().has("/a", file(5, 1)).has("/b", file(9, 2)).has("/d", Seen::Directory);
    script.call(1, libc::SYS_linkat, (&[CWD, 0, CWD], &["/a", "/l"]), 0);
    script.call(1, libc::SYS_renameat, (&[CWD, 0, CWD], &["/a", "/l"]), 0);
    script.open(1, "/a", APPEND, 3);
    script.on(1, libc::SYS_write, &[3, 0, 1], 1);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["/b"]), 0);
    let exchange = u64::from(libc::RENAME_EXCHANGE);
    script.call(1, libc::SYS_renameat2, (&[CWD, 0, CWD, 0, exchange], &["/b", "/l"]), 0);
    script.open(1, "/b", APPEND, 4);
    script.on(1, libc::SYS_write, &[4, 0, 1], 1);
    script.open(1, "/l", APPEND, 5);
    script.on(1, libc::SYS_write, &[5, 0, 1], 1);
    script.tells(&[
        "/a: File(5)",
        "/l: Absent",
        "link /a > /l",
        "rename /a > /l",
        "open /a h0",
        "write h0 5+1",
        "/b: File(9)",
        "stat /b",
        "rename /b > /l",
        "open /b h1",
        "write h1 6+1",
        "open /l h2",
        "write h2 9+1",
    ]);
}

#[test]
fn exchanged_directories_keep_what_is_open_in_them() {
    let mut script = Script::new();
    for (fd, path) in [(3, "/x"), (4, "/y")] {
        script.call(1, libc::SYS_mkdirat, (&[CWD], &[path]), 0);
        script.open(1, path, libc::O_DIRECTORY as u64, fd);
    }
    script.call(1, libc::SYS_openat, (&[3, 0, EXCL], &["f"]), 5);
    script.on(1, libc::SYS_fchdir, &[4], 0);
    let exchange = u64::from(libc::RENAME_EXCHANGE);
    script.call(1, libc::SYS_renameat2, (&[CWD, 0, CWD, 0, exchange], &["/x", "/y"]), 0);
    script.told = script.out.len();
    script.call(1, libc::SYS_newfstatat, (&[3], &["f"]), 0);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["f"]), -2);
    script.tells(&["/y/f: Absent", "stat /y/f", "stat /x/f = -2"]);
}

#[test]
fn what_leaves_and_comes_from_elsewhere() {
    let mut script = Script::with(Options { under: vec![b"/data".to_vec()], ..Options::default() });
    script.open(1, "/data/a", EXCL, 3);
    script.on(1, libc::SYS_write, &[3, 0, 7], 7);
    script.call(1, libc::SYS_renameat, (&[CWD, 0, CWD], &["/data/a", "/tmp/a"]), 0);
    script.call(1, libc::SYS_newfstatat, (&[CWD], &["/data/a"]), -2);
    script.table.found.insert(b"/data/b".to_vec(), file(8, 8));
    script.call(1, libc::SYS_renameat, (&[CWD, 0, CWD], &["/tmp/b", "/data/b"]), 0);
    script.open(1, "/data/b", APPEND, 4);
    script.on(1, libc::SYS_write, &[4, 0, 7], 7);
    script.call(1, libc::SYS_renameat, (&[CWD, 0, CWD], &["/tmp/b", "/tmp/c"]), 0);
    script.tells(&[
        "/data/a: Absent",
        "open /data/a h0",
        "write h0 0+7",
        "rename /data/a",
        "stat /data/a = -2",
        "/data/b: Absent",
        "rename > /data/b",
        "open /data/b h1",
        "write h1 8+7",
    ]);
}

#[test]
fn calls_on_open_files() {
    let mut script = Script::new();
    script.open(1, "/a", EXCL, 3);
    script.on(1, libc::SYS_fsync, &[3], 0);
    script.on(1, libc::SYS_fdatasync, &[3], -5);
    script.on(1, libc::SYS_sync_file_range, &[3, 10, 20, 4], 0);
    script.on(1, libc::SYS_fstat, &[3], 0);
    script.on(1, libc::SYS_fchmod, &[3, 0o600], 0);
    script.on(1, libc::SYS_utimensat, &[3, 0, 0, 0], 0);
    script.on(1, libc::SYS_syncfs, &[3], 0);
    script.on(1, libc::SYS_read, &[3, 0, 10], -512);
    script.on(1, libc::SYS_close_range, &[3, 3, u64::from(libc::CLOSE_RANGE_CLOEXEC)], 0);
    script.exec(1, "x");
    script.tells(&[
        "/a: Absent",
        "open /a h0",
        "fsync h0",
        "fdatasync h0 = -5",
        "sync_file_range h0 10+20",
        "stat h0",
        "setattr h0",
        "setattr h0",
        "sync",
        "close h0",
    ]);
}

/// What a recorder is told to hand over is used.
#[test]
fn each_recorded_call_asks_for_something() {
    for (number, paths) in crate::raw::recorded_calls() {
        // A pointer to a path, or a command of fcntl.
        let second = if number == libc::SYS_fcntl as u32 { libc::F_DUPFD as u64 } else { 0x7000 };
        let path = |at| (at < paths.len()).then(|| b"/a".to_vec());
        let raw = RawCall {
            pid: 1,
            tid: 1,
            number,
            begin_ns: 0,
            end_ns: 0,
            arguments: [3, second, libc::MS_SYNC as u64, 0, 0, 0],
            result: 0,
            paths: [path(0), path(1)],
        };
        let request = request::request(&raw);
        assert!(request.is_some(), "call {number}");
        let text = format!("{request:?}");
        assert_eq!(text.matches("Some([47, 97])").count(), paths.len(), "call {number}: {text}");
    }
}
