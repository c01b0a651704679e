//! Blocks are told by what the real tools make.

use std::process::Command;

use super::*;
use crate::history::Contract;
use crate::recording::BLOCK;
use needs::needs;
use ssd::Regime;

/// An image made by mkfs.
fn made(program: &str, args: &[&str], mib: u64) -> Recording {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    std::fs::File::create(&path).unwrap().set_len(mib << 20).unwrap();
    let search = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(args).arg(&path).env("PATH", search).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let bytes = std::fs::read(&path).unwrap();
    let mut recording = Recording::new(mib << 8);
    for (lba, block) in (0..).zip(bytes.chunks(BLOCK)) {
        let id = recording.contents.intern(block);
        if id != ContentId::ZERO {
            recording.base.insert(lba, id);
        }
    }
    recording
}

/// The kinds of blocks found, with how many of each.
fn kinds(recording: &Recording, fs: FsKind) -> std::collections::BTreeMap<String, usize> {
    let history = History::new(recording, Contract::new(Regime::Flush, false));
    let describer = Describer::new(&history, None, None, fs);
    let mut kinds = std::collections::BTreeMap::new();
    for (lba, content) in &recording.base {
        *kinds.entry(describer.what(*lba, *content)).or_insert(0) += 1;
    }
    kinds
}

#[test]
fn ext4_blocks() {
    needs!(Ext4Tools);
    let args = ["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let recording = made("mkfs.ext4", &args, 32);
    let kinds = kinds(&recording, FsKind::Ext4);
    for expected in
        ["superblock", "group descriptors", "block bitmap", "inode bitmap", "journal: its superblock"]
    {
        assert_eq!(kinds.get(expected), Some(&1), "{expected}: {kinds:?}");
    }
    assert!(kinds.contains_key("inode table of group 0"), "{kinds:?}");
    let commit = [&[0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 2, 0, 0, 0, 7][..], &[0; 100]].concat();
    assert_eq!(ext4::what(None, 5, &commit), "journal: commit record of transaction 7");
    assert!(!kinds.contains_key("metadata"), "{kinds:?}");
}

#[test]
fn xfs_blocks() {
    needs!(XfsTools);
    let recording = made("mkfs.xfs", &["-q", "-f", "-s", "size=4096"], 300);
    let kinds = kinds(&recording, FsKind::Xfs);
    for expected in ["superblock", "free-space header (AGF)", "inodes"] {
        assert!(kinds.contains_key(expected), "{expected}: {kinds:?}");
    }
    assert!(kinds.keys().any(|kind| kind.starts_with("log")), "{kinds:?}");
}

#[test]
fn btrfs_blocks() {
    needs!(BtrfsTools);
    let recording = made("mkfs.btrfs", &["-q", "-f"], 128);
    let kinds = kinds(&recording, FsKind::Btrfs);
    for expected in ["superblock of generation", "root tree", "chunk tree", "file tree"] {
        assert!(kinds.keys().any(|kind| kind.starts_with(expected)), "{expected}: {kinds:?}");
    }
}

#[test]
fn a_flush_tells_what_it_does_not_cover() {
    let mut recording = Recording::new(64);
    let first = recording.write(1, 3, vec![ContentId::ZERO], true, [None; 2]);
    recording.write_done(first);
    let second = recording.write(2, 4, vec![ContentId::ZERO], false, [None; 2]);
    let flush = recording.flush(3, None);
    recording.write_done(second);
    recording.flush_done(flush);
    recording.flush(4, None);
    let history = History::new(&recording, Contract::new(Regime::Flush, false));
    let describer = Describer::new(&history, None, None, FsKind::F2fs);
    let told = |cut: usize| -> Vec<(u64, usize, String)> {
        let state = State { cut, lost: Vec::new() };
        let last = describer.last(&state, 2);
        last.into_iter().map(|request| (request.id, request.blocks, request.what)).collect()
    };
    let all = told(recording.events.len());
    assert_eq!(
        all.iter().map(|(id, blocks, _)| (*id, *blocks)).collect::<Vec<_>>(),
        [(1, 1), (2, 1), (3, 0), (4, 0)]
    );
    assert!(all[0].2.ends_with(", with FUA") && !all[1].2.contains("FUA"), "{all:?}");
    assert_eq!(all[2].2, "flush, sent before the end of 2, which it does not cover");
    assert_eq!(all[3].2, "flush, under way");
    assert_eq!(told(4).len(), 3, "only what was sent before the cut");
}
