//! Counters that file systems, memory groups and their like keep beside those of the kernel as a whole: how often a
//! log came round, what left the page cache. They tell whether a load reached what it was meant to reach.

use std::path::Path;

use crate::root::Root;

/// Counters by name; all only grow.
pub type NamedCounters = Vec<(String, f64)>;

/// Bytes of a block of ext4's journal here: `mkfs.ext4` takes 4 KiB for all file systems above 512 MiB.
const JBD2_BLOCK_BYTES: f64 = 4096.0;
/// A transaction of jbd2 may fill this part of its journal (`journal_init_common`).
const JBD2_TRANSACTION_PART: f64 = 4.0;
/// XFS counts its log in basic blocks.
const XFS_BLOCK_BYTES: f64 = 512.0;
/// The attribute in which betrfs tells its statistics.
const BETRFS_STATISTICS: &str = "betrfs.statistics";
/// Room for them.
const STATISTICS_BYTES: usize = 16 << 10;

/// What the file system on `device` (a kernel name such as `loop3`), mounted with its root at `mounted`, has done since
/// it was mounted: `journal_laps` (its log came round so often), `journal_bytes`, `journal_commits`, and for betrfs
/// `checkpoints` and all that it tells as `betrfs_NAME`. What cannot be read is left out; Btrfs has no log that comes
/// round.
pub fn file_system(root: &Root, device: Option<&str>, mounted: &Path) -> NamedCounters {
    let mut found = betrfs(mounted);
    if let Some(device) = device {
        found.extend(ext4(root, device));
        found.extend(xfs(root, device));
        found.extend(btrfs(root, device));
    }
    found
}

fn named(name: &str, value: f64) -> (String, f64) {
    (name.to_string(), value)
}

/// The number before the first of `words` in a text of blanks.
fn before(text: &str, word: &str) -> Option<f64> {
    let (head, _) = text.split_once(word)?;
    head.split_whitespace().next_back()?.parse().ok()
}

/// /proc/fs/jbd2/DEVICE-8/info (`jbd2_seq_info_show`): transactions, and averages, which are whole numbers.
fn ext4(root: &Root, device: &str) -> NamedCounters {
    let told = || {
        let text = root.text(format!("/proc/fs/jbd2/{device}-8/info"))?;
        let (commits, longest) = (before(&text, " transactions (")?, before(&text, " blocks")?);
        let logged = before(&text, " logged blocks per transaction").unwrap_or(0.0);
        let (blocks, journal) = (commits * logged, longest * JBD2_TRANSACTION_PART);
        let laps = (journal > 0.0).then(|| named("journal_laps", blocks / journal));
        let rest = [named("journal_commits", commits), named("journal_bytes", blocks * JBD2_BLOCK_BYTES)];
        Some(laps.into_iter().chain(rest).collect())
    };
    told().unwrap_or_default()
}

/// The line `log` of the statistics (writes, basic blocks), and the cycle of the log's head.
fn xfs(root: &Root, device: &str) -> NamedCounters {
    let told = || {
        let head = root.text(format!("/sys/fs/xfs/{device}/log/log_head_lsn"))?;
        let cycle: f64 = head.split(':').next()?.parse().ok()?;
        let stats = root.text(format!("/sys/fs/xfs/{device}/stats/stats")).unwrap_or_default();
        let log = stats.lines().find_map(|line| line.strip_prefix("log "));
        let blocks = log.and_then(|log| log.split(' ').nth(1)?.parse::<f64>().ok());
        let bytes = blocks.map(|blocks| named("journal_bytes", blocks * XFS_BLOCK_BYTES));
        Some(bytes.into_iter().chain([named("journal_laps", cycle)]).collect())
    };
    told().unwrap_or_default()
}

/// /sys/fs/btrfs/UUID/commit_stats of the file system that has the device.
fn btrfs(root: &Root, device: &str) -> NamedCounters {
    let Ok(all) = std::fs::read_dir(root.path("/sys/fs/btrfs")) else { return NamedCounters::new() };
    let mine =
        all.flatten().map(|entry| entry.path()).find(|path| path.join("devices").join(device).exists());
    let stats = mine.and_then(|path| std::fs::read_to_string(path.join("commit_stats")).ok());
    let commits = stats
        .and_then(|text| text.lines().find_map(|line| line.strip_prefix("commits ")?.trim().parse().ok()));
    commits.map(|commits: f64| named("journal_commits", commits)).into_iter().collect()
}

fn betrfs(mounted: &Path) -> NamedCounters {
    let mut room = vec![0; STATISTICS_BYTES];
    let Ok(bytes) = rustix::fs::getxattr(mounted, BETRFS_STATISTICS, &mut room[..]) else {
        return NamedCounters::new();
    };
    of_betrfs(&String::from_utf8_lossy(&room[..bytes]))
}

fn of_betrfs(text: &str) -> NamedCounters {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let all: Vec<(&str, f64)> =
        lines.filter_map(|(name, value)| Some((name, value.parse::<f64>().ok()?))).collect();
    let of = |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let mut found = NamedCounters::new();
    if let (Some(position), Some(ring)) =
        (of("log_position_bytes"), of("log_ring_bytes").filter(|n| *n > 0.0))
    {
        found.push(named("journal_laps", position / ring));
        found.push(named("journal_bytes", position));
    }
    found.extend(of("checkpoints").map(|checkpoints| named("checkpoints", checkpoints)));
    found.extend(all.iter().map(|(name, value)| named(&format!("betrfs_{name}"), *value)));
    found
}

/// What left the memory of this process's group since it was made, as `memory_pages_out`: pages that were reclaimed
/// (version 2), or that left it in any way (version 1, which counts no others: removed files and freed memory, too).
/// `memory_refaults`: pages read again that had left the page cache lately.
pub fn memory_group(root: &Root) -> NamedCounters {
    let groups = root.text("/proc/self/cgroup").unwrap_or_default();
    let of = |is: fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            is(controllers).then_some(path.trim_end_matches('/'))
        })
    };
    let v1 = of(|controllers| controllers.split(',').any(|one| one == "memory"))
        .and_then(|path| root.text(format!("/sys/fs/cgroup/memory{path}/memory.stat")));
    let (stat, out) = match v1 {
        Some(stat) => (stat, "pgpgout"),
        None => {
            let path = of(str::is_empty).unwrap_or_default();
            let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
            let stat = places.iter().find_map(|at| root.text(format!("{at}{path}/memory.stat")));
            (stat.unwrap_or_default(), "pgsteal")
        }
    };
    let value = |key: &str| {
        stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse::<f64>().ok())
    };
    let out = value(out).map(|pages| named("memory_pages_out", pages));
    let again = value("workingset_refault_file").map(|pages| named("memory_refaults", pages));
    out.into_iter().chain(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let home = tempfile::tempdir().expect("a directory");
        let root = Root::at(home.path());
        for (path, text) in files {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            std::fs::write(path, text).expect("a file");
        }
        (home, root)
    }

    fn of(all: &NamedCounters, name: &str) -> Option<f64> {
        all.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    #[test]
    fn the_logs_of_ext4_and_xfs_come_round() {
        let info = "40 transactions (12 requested), each up to 4096 blocks\naverage: \n  0ms waiting for transaction\n  \
                    31 handles per transaction\n  9 blocks per transaction\n  1024 logged blocks per transaction\n";
        let (_home, root) = tree(&[
            ("/proc/fs/jbd2/loop3-8/info", info),
            ("/sys/fs/xfs/loop4/log/log_head_lsn", "7:128\n"),
            ("/sys/fs/xfs/loop4/stats/stats", "ig 1 2 3\nlog 5 2048 0 1 2\npush_ail 1 2\n"),
            ("/sys/fs/btrfs/some-uuid/devices/loop5", ""),
            ("/sys/fs/btrfs/some-uuid/commit_stats", "commits 12\ncur_commit_ms 0\n"),
        ]);
        let nowhere = Path::new("/");
        let ext4 = file_system(&root, Some("loop3"), nowhere);
        assert_eq!((of(&ext4, "journal_laps"), of(&ext4, "journal_commits")), (Some(2.5), Some(40.0)));
        assert_eq!(of(&ext4, "journal_bytes"), Some(40960.0 * 4096.0));
        let xfs = file_system(&root, Some("loop4"), nowhere);
        assert_eq!((of(&xfs, "journal_laps"), of(&xfs, "journal_bytes")), (Some(7.0), Some(1048576.0)));
        let btrfs = file_system(&root, Some("loop5"), nowhere);
        assert_eq!((of(&btrfs, "journal_commits"), of(&btrfs, "journal_laps")), (Some(12.0), None));
        assert!(file_system(&root, Some("loop6"), nowhere).is_empty());
    }

    #[test]
    fn betrfs_tells_all_and_how_often_its_log_came_round() {
        let all = of_betrfs("checkpoints 3\nlog_position_bytes 300\nlog_ring_bytes 200\nevictions 5\nodd\n");
        assert_eq!((of(&all, "journal_laps"), of(&all, "checkpoints")), (Some(1.5), Some(3.0)));
        assert_eq!(of(&all, "betrfs_evictions"), Some(5.0));
    }

    #[test]
    fn both_versions_of_memory_groups_are_read() {
        let stat = "pgpgin 9\npgpgout 8\npgsteal 7\nworkingset_refault_file 6\n";
        let v1 =
            [("/proc/self/cgroup", "5:memory:/a\n0::/\n"), ("/sys/fs/cgroup/memory/a/memory.stat", stat)];
        let v2 = [("/proc/self/cgroup", "0::/a\n"), ("/sys/fs/cgroup/a/memory.stat", stat)];
        for (files, out) in [(v1, 8.0), (v2, 7.0)] {
            let (_home, root) = tree(&files);
            let all = memory_group(&root);
            assert_eq!((of(&all, "memory_pages_out"), of(&all, "memory_refaults")), (Some(out), Some(6.0)));
        }
        let (_home, empty) = tree(&[]);
        assert!(memory_group(&empty).is_empty());
    }
}
