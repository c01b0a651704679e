//! Tests of whole small files in memory, through the calls that change them.

use betree::SimStorage;

use crate::fs::{Fs, NewFile, Options, RenameMode, SetAttr};

fn file(fs: &Fs, name: &[u8]) -> u64 {
    let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
    fs.make(1, name, new).expect("make").ino
}

/// What is kept of small files from the write on against a model, and against what the store has.
#[test]
fn whole_small_files_in_memory_are_as_the_store_has_them() {
    const NAMES: u64 = 8;
    let seeds = std::env::var("BETRFS_SEEDS").ok();
    let seeds = seeds.as_deref().and_then(|text| text.split_once(".."));
    let bounds = seeds.and_then(|(a, b)| Some(a.parse().ok()?..b.parse().ok()?));
    for seed in bounds.unwrap_or(0..4u64) {
        println!("seed {seed}");
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 3) % n
        };
        let storage = SimStorage::new(64 << 20);
        Fs::format(storage.clone(), &Options::default()).expect("format");
        let mut store = betree::Options::tiny();
        store.background = seed % 2 == 1;
        // With the smaller budget some have to go.
        let contents_bytes = if seed % 4 < 2 { 1 << 20 } else { 100 << 10 };
        let options = Options { contents_bytes, ..Options::with_store(store) };
        let fs = Fs::open(storage.clone(), &options).expect("open");
        // What is held of each name, all with the number of their data in `datas`.
        let mut names: Vec<Option<(u64, usize)>> = vec![None; NAMES as usize];
        let mut datas: Vec<Vec<u8>> = Vec::new();
        let (mut from_memory, mut from_store) = (0, 0);
        for step in 0..1500 {
            let at = below(NAMES) as usize;
            let name = [b'a' + at as u8];
            let Some((ino, data)) = names[at] else {
                let new = NewFile { mode: libc::S_IFREG | 0o644, ..NewFile::default() };
                names[at] = Some((fs.find_or_make(1, &name, new).expect("make").ino, datas.len()));
                datas.push(Vec::new());
                continue;
            };
            let model = &mut datas[data];
            let off = [0, model.len() as u64, below(20_000), below(80_000)][below(4) as usize] as usize;
            let len = [1 + below(20), 1 + below(5000), 1 + below(30_000)][below(3) as usize] as usize;
            match below(20) {
                0..9 => {
                    let bytes = vec![1 + below(255) as u8; len];
                    assert_eq!(fs.write(ino, off as u64, &bytes, false).expect("write"), len);
                    model.resize(model.len().max(off + len), 0);
                    model[off..off + len].copy_from_slice(&bytes);
                }
                9..12 => {
                    let bytes = vec![1 + below(255) as u8; len];
                    assert_eq!(fs.append(ino, &bytes).expect("append"), len);
                    model.extend_from_slice(&bytes);
                }
                12 | 13 => {
                    let size = if below(2) == 0 { 0 } else { off };
                    let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
                    fs.set_attr(ino, &set).expect("truncate");
                    model.resize(size, 0);
                }
                14 => {
                    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    fs.allocate(ino, punch, off as u64, len as u64).expect("punch");
                    let end = (off + len).min(model.len());
                    model[off.min(end)..end].fill(0);
                }
                15 => {
                    fs.unlink(1, &name).expect("unlink");
                    assert_eq!(fs.read(ino, 0, 1 << 20).expect("read"), *model, "seed {seed} step {step}");
                    fs.forget(ino, 1);
                    names[at] = None;
                }
                16 | 17 => {
                    let to = below(NAMES) as usize;
                    let other = [b'a' + to as u8];
                    if below(2) == 0 {
                        let mode = RenameMode::Replace;
                        fs.rename(1, &name, 1, &other, mode).expect("rename");
                        if names[to].is_none_or(|(other, _)| other != ino) {
                            names[at] = None;
                            let over = names[to].replace((ino, data));
                            over.iter().for_each(|(ino, _)| fs.forget(*ino, 1));
                        }
                    } else if names[to].is_none() {
                        names[to] = Some((fs.link(ino, 1, &other).expect("link").ino, data));
                    }
                }
                _ => {
                    let found = fs.read(ino, off as u64, len).expect("read");
                    let end = (off + len).min(model.len());
                    assert_eq!(found, model[off.min(end)..end], "seed {seed} step {step}");
                }
            }
            for (ino, data) in names.iter().flatten() {
                let node = fs.node(*ino).expect("held");
                let state = node.read();
                let mut stored = vec![7; datas[*data].len()];
                assert_eq!(state.inode.size, stored.len() as u64, "seed {seed} step {step}");
                fs.read_node(&node, &state, 0, &mut stored).expect("read");
                assert_eq!(stored, datas[*data], "seed {seed} step {step}: the store");
                match state.content.get() {
                    Some(content) => {
                        assert_eq!(content.len(), stored.len(), "seed {seed} step {step}");
                        content.read(0, &mut stored);
                        assert_eq!(stored, datas[*data], "seed {seed} step {step}: in memory");
                        from_memory += 1;
                    }
                    None => from_store += 1,
                }
            }
        }
        println!("{from_memory} looks at files in memory, {from_store} at others");
        assert!(from_memory > 1000 && from_store > 100);
        names.iter().flatten().for_each(|(ino, _)| fs.forget(*ino, 1));
        fs.close().expect("close");
        let report = crate::check(storage, false).expect("check");
        assert!(report.is_clean() && report.findings.is_empty(), "seed {seed}: {report}");
    }
}

#[test]
fn a_small_file_is_in_memory_from_the_write_on() {
    let storage = SimStorage::new(64 << 20);
    Fs::format(storage.clone(), &Options::default()).expect("format");
    let options = Options { contents_bytes: 1 << 20, ..Options::with_store(betree::Options::tiny()) };
    let fs = Fs::open(storage, &options).expect("open");
    let is_kept = |ino| fs.node(ino).expect("held").read().content.get().is_some();
    let small = file(&fs, b"small");
    for _ in 0..8 {
        fs.append(small, &[1; 8000]).expect("append");
        assert!(is_kept(small));
    }
    fs.append(small, &[1; 8000]).expect("append");
    assert!(!is_kept(small), "72,000 bytes are too many");
    fs.write(small, 0, &[2; 100], false).expect("write");
    assert!(!is_kept(small), "the rest is not known");
    fs.set_attr(small, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("truncate");
    fs.write(small, 5000, &[2; 100], false).expect("write");
    assert!(is_kept(small));
    assert_eq!(fs.read(small, 0, 9000).expect("read"), [vec![0; 5000], vec![2; 100]].concat());
}
