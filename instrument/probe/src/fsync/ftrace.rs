//! Moments from the text of a trace, as `trace` and `trace_pipe` of tracefs print it: for traces taken
//! elsewhere.

use super::event::{Blocks, Dev, FsKey, TraceEvent, TraceEventKind, journal_step};
use super::rwbs::Rwbs;

/// Reads a trace; lines that are no event of interest are passed over.
pub fn parse(text: &str) -> Vec<TraceEvent> {
    text.lines().filter_map(line).collect()
}

/// `  python3-29715   [001] .....  3619.029554: ext4_sync_file_enter: dev 7,0 ino 12 parent 2 datasync 0`
fn line(line: &str) -> Option<TraceEvent> {
    let (head, event) = line.split_once(": ")?;
    let (task, rest) = head.split_once(" [")?;
    let (cpu, rest) = rest.split_once(']')?;
    let pid = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let at_ns = nanoseconds(rest.split_whitespace().next_back()?)?;
    Some(TraceEvent { at_ns, cpu: cpu.parse().ok()?, pid, what: event_kind(event.trim_end())? })
}

/// Seconds with six or nine digits.
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let fraction: u64 = fraction.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction * 10_u64.pow(9 - digits))
}

fn event_kind(event: &str) -> Option<TraceEventKind> {
    // System calls are printed as calls.
    for (name, data_only) in [("sys_fsync", false), ("sys_fdatasync", true)] {
        if let Some(rest) = event.strip_prefix(name) {
            return Some(if rest.starts_with('(') {
                TraceEventKind::SyncEnter { data_only }
            } else {
                TraceEventKind::SyncExit
            });
        }
    }
    let (name, rest) = event.split_once(": ")?;
    Some(match name {
        "ext4_sync_file_enter" | "f2fs_sync_file_enter" | "xfs_file_fsync" | "xfs_dir_fsync" => {
            TraceEventKind::FsEnter {
                fs: FsKey::Dev(dev_after(rest)?),
                inode: number_after(rest, "ino")?,
                data_only: number_after(rest, "datasync") == Some(1),
            }
        }
        "ext4_sync_file_exit" | "f2fs_sync_file_exit" => {
            TraceEventKind::FsExit { fs: FsKey::Dev(dev_after(rest)?), inode: number_after(rest, "ino")? }
        }
        "btrfs_sync_file" => {
            let value =
                |key: &str| rest.split_whitespace().find_map(|word| word.strip_prefix(key)?.parse().ok());
            TraceEventKind::FsEnter {
                fs: FsKey::Uuid(uuid(rest.split_once(": ")?.0)?),
                inode: value("ino=")?,
                data_only: value("datasync=") == Some(1),
            }
        }
        "block_bio_queue" => TraceEventKind::Queue(blocks(rest)?),
        "block_rq_issue" => TraceEventKind::Issue(blocks(rest)?),
        // A completion has an error number in the place of the thread's name.
        "block_rq_complete" => TraceEventKind::Complete(Blocks { comm: String::new(), ..blocks(rest)? }),
        "nvme_setup_cmd" => {
            let queue = rest.split(", ").find_map(|word| word.strip_prefix("qid="));
            TraceEventKind::NvmeSetup { queue: queue?.parse().ok()? }
        }
        name => {
            let (step, log_io) = journal_step(name)?;
            let by_uuid = || rest.split_once(": ").and_then(|(text, _)| uuid(text)).map(FsKey::Uuid);
            TraceEventKind::Journal { fs: dev_after(rest).map(FsKey::Dev).or_else(by_uuid)?, step, log_io }
        }
    })
}

/// `7,0 WS 4096 () 266248 + 8 be,0,4 [python3]`, with or without the parts from bytes to priority.
fn blocks(text: &str) -> Option<Blocks> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let plus = words.iter().position(|word| *word == "+")?;
    // A name of a thread may contain blanks.
    let comm = text.rsplit_once('[').map_or("", |(_, comm)| comm.trim_end_matches(']'));
    Some(Blocks {
        dev: dev(words.first()?)?,
        sector: words.get(plus.checked_sub(1)?)?.parse().ok()?,
        sectors: words.get(plus + 1)?.parse().ok()?,
        rwbs: Rwbs::parse(words.get(1)?),
        comm: comm.to_string(),
    })
}

fn dev(text: &str) -> Option<Dev> {
    let (major, minor) = text.split_once([',', ':'])?;
    Some(Dev::new(major.parse().ok().filter(|major| *major < 4096)?, minor.parse().ok()?))
}

fn dev_after(text: &str) -> Option<Dev> {
    dev(text.strip_prefix("dev ")?.split_whitespace().next()?)
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let mut words = text.split_whitespace().skip_while(|word| *word != key);
    let value = words.nth(1)?;
    match value.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => value.parse().ok(),
    }
}

/// The bytes of a UUID with its dashes.
pub(super) fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, at) in bytes.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::fsync::Operation;

    #[test]
    fn lines_of_every_kind() {
        let text = "# tracer: nop\n\
            my app-x-77   [001] ...1.  3619.000001: sys_fdatasync(fd: 3)\n\
            my app-x-77   [001] .....  3619.000002: xfs_file_fsync: dev 7:1 ino 0x83 iflags 0x0\n\
            my app-x-77   [001] d.s2.  3619.000003: block_rq_issue: 7,1 FWFSM 1024 () 524346 + 2 be,0,4 [my app]\n\
            <idle>-0      [000] ..s..  3619.000004: block_rq_complete: 7,1 FF () 18446744073709551615 + 0 none,0,0 [0]\n\
            a-1           [000] .....  3619.000005: xlog_iclog_syncing: dev 7:1 state X refcnt 0 offset 336 lsn 0x1\n\
            a-1           [000] .....  3619.000006: other_event: dev 7:1\n\
            a-1           [000] .....  3619.000007: btrfs_sync_file: 490087d9-0c97-4308-990f-b0a63061f604: \
            root=5(FS_TREE) ino=257 parent=256 datasync=1\n\
            a-1           [000] .....  3619.000008: sys_fsync -> 0x0\n";
        let moments = parse(text);
        assert_eq!(moments.len(), 7);
        assert_eq!((moments[0].pid, moments[0].cpu, moments[0].at_ns), (77, 1, 3_619_000_001_000));
        assert_eq!(moments[0].what, TraceEventKind::SyncEnter { data_only: true });
        let fs = FsKey::Dev(Dev::new(7, 1));
        assert_eq!(moments[1].what, TraceEventKind::FsEnter { fs, inode: 0x83, data_only: false });
        let TraceEventKind::Issue(blocks) = &moments[2].what else { panic!("an issue: {:?}", moments[2]) };
        assert_eq!((blocks.sector, blocks.sectors, blocks.comm.as_str()), (524_346, 2, "my app"));
        let TraceEventKind::Complete(blocks) = &moments[3].what else { panic!("a completion") };
        assert_eq!((blocks.rwbs.operation, blocks.sector), (Operation::Flush, u64::MAX));
        assert_eq!(moments[4].what, TraceEventKind::Journal { fs, step: "log buffer written", log_io: true });
        let TraceEventKind::FsEnter { fs: FsKey::Uuid(bytes), inode: 257, data_only: true } = moments[5].what
        else {
            panic!("a btrfs fsync: {:?}", moments[5])
        };
        assert_eq!(bytes[..2], [0x49, 0x00]);
        assert_eq!(moments[6].what, TraceEventKind::SyncExit);
    }

    proptest::proptest! {
        #[test]
        fn garbage_is_passed_over(text in "[-a-z0-9:,.+ \\[\\]()é]{0,80}") {
            parse(&text);
            parse(&format!("a-1 [0] ... 1.5: block_rq_issue: {text}"));
            parse(&format!("a-1 [0] ... 1.5: btrfs_sync_file: {text}"));
        }
    }
}
