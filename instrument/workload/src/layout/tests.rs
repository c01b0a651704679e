//! Invariants of every tree, and trees known from Filebench.

use std::collections::HashSet;

use super::build::LayoutError;
use super::*;
use crate::model::{Distribution, Draw, Fileset, Rounding, Value};

fn fileset(entries: u64, leafdirs: u64, dir_width: u64, dir_gamma: f64) -> Fileset {
    Fileset {
        name: "set".into(),
        path: "/tmp".into(),
        single: false,
        entries,
        leafdirs,
        dir_width: Value::Int(dir_width),
        dir_gamma,
        dir_depth: None,
        size: Value::Int(1024),
        prealloc_percent: 100,
        parallel_alloc: false,
        reuse: false,
        trust_tree: false,
        read_only: false,
        write_only: false,
        contents: Default::default(),
    }
}

fn draw(distribution: Distribution) -> Draw {
    Draw {
        name: "v".into(),
        seed: 0,
        distribution,
        round: 0,
        rounding: Rounding::Nearest,
        clamp_min: None,
        clamp_max: None,
    }
}

fn build(fileset: &Fileset, draws: &[Draw], seed: u64) -> Layout {
    Layout::build(fileset, draws, seed).unwrap_or_else(|error| panic!("{error}"))
}

fn file_paths(layout: &Layout) -> Vec<String> {
    (0..layout.len()).map(|file| layout.file_path(file)).collect()
}

/// What holds for every tree: all parents exist and come first, no path twice, nothing directly under the root.
fn check_invariants(layout: &Layout, fileset: &Fileset) {
    assert_eq!(layout.len() as u64, fileset.entries);
    assert_eq!(layout.leafdir_count() as u64, fileset.leafdirs);
    assert_eq!(layout.dir_path(0), "");
    assert_eq!(layout.dir_parent(0), None);
    let mut known: HashSet<String> = HashSet::from([String::new()]);
    let mut longest = 0;
    for path in layout.dir_paths() {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        assert!(known.contains(parent), "{path} before its parent");
        longest = longest.max(path.len());
        assert!(known.insert(path.clone()), "{path} twice");
    }
    assert_eq!(known.len(), layout.dir_count());
    let dirs = known.clone();
    let leafdirs = (0..layout.leafdir_count()).map(|leafdir| layout.leafdir_path(leafdir));
    for (path, is_file) in
        file_paths(layout).into_iter().map(|path| (path, true)).chain(leafdirs.map(|path| (path, false)))
    {
        let (parent, name) =
            path.rsplit_once('/').unwrap_or_else(|| panic!("{path} is directly under the root"));
        assert!(dirs.contains(parent), "{path} (file: {is_file}) has no parent");
        assert!(name.len() >= 8 && name.bytes().all(|byte| byte.is_ascii_digit()) && name != "00000000");
        longest = longest.max(path.len());
        assert!(known.insert(path.clone()), "{path} twice");
    }
    assert!(longest as u64 <= layout.path_bytes_max());
    for dir in 1..layout.dir_count() {
        assert!(layout.dir_parent(dir).is_some_and(|parent| parent < dir));
    }
    for file in 0..layout.len() {
        let (dir, mut name) = (layout.dir_path(layout.file_dir(file)), Vec::new());
        layout.write_file_name(file, &mut name);
        assert_eq!(format!("{dir}/{}", String::from_utf8_lossy(&name)), layout.file_path(file));
    }
}

#[test]
fn a_single_file_is_one_below_one() {
    let layout = build(&fileset(1, 0, 10, 0.0), &[], 0);
    assert_eq!(file_paths(&layout), ["00000001/00000001"]);
    assert_eq!(layout.total_bytes(), 1024);
}

#[test]
fn constant_widths_give_the_tree_of_filebench() {
    // ln(8)/ln(2) is a hair below or at 3: directories of depth 3 hold the files.
    let layout = build(&fileset(8, 0, 2, 0.0), &[], 0);
    let depth = (8f64.ln() / 2f64.ln()) as usize;
    assert!(file_paths(&layout).iter().all(|path| path.split('/').count() == depth));
    check_invariants(&layout, &fileset(8, 0, 2, 0.0));

    let layout = build(&fileset(5, 0, 3, 0.0), &[], 0);
    let expected = ["1/1", "1/2", "1/3", "2/1", "2/2"];
    let expected: Vec<String> = expected
        .iter()
        .map(|path| {
            path.split('/')
                .map(|serial| format!("{:08}", serial.parse::<u32>().unwrap()))
                .collect::<Vec<_>>()
                .join("/")
        })
        .collect();
    assert_eq!(file_paths(&layout), expected);
}

#[test]
fn a_width_beyond_the_entries_puts_all_files_into_one_directory() {
    let layout = build(&fileset(1000, 0, 1_000_000, 1.5), &[], 42);
    let first = layout.file_dir(0);
    let together = (0..1000).filter(|&file| layout.file_dir(file) == first).count();
    assert_eq!(together, 1000);
    assert_eq!(layout.file_path(999), "00000001/00001000");
}

#[test]
fn widths_of_zero_and_one_give_a_directory_for_each_file() {
    for width in [0, 1] {
        let layout = build(&fileset(100, 0, width, 0.0), &[], 0);
        let expected: Vec<String> = (1..=100).map(|serial| format!("{serial:08}/00000001")).collect();
        assert_eq!(file_paths(&layout), expected);
        build(&fileset(100, 100, width, 1.5), &[], 0);
    }
}

#[test]
fn leaf_directories_never_have_the_name_of_a_file() {
    for seed in 0..20 {
        for gamma in [0.0, 0.5, 1.5] {
            let set = fileset(50, 80, 4, gamma);
            check_invariants(&build(&set, &[], seed), &set);
        }
    }
    let only_leafdirs = build(&fileset(0, 3, 10, 0.0), &[], 0);
    let paths: Vec<String> = (0..3).map(|leafdir| only_leafdirs.leafdir_path(leafdir)).collect();
    assert_eq!(paths, ["00000001/00000001", "00000001/00000002", "00000001/00000003"]);
}

#[test]
fn the_tree_depends_on_seed_and_name_only() {
    let draws = [draw(Distribution::Uniform { low: 0.0, high: 1e6 })];
    let mut set = fileset(2000, 10, 8, 1.5);
    set.size = Value::Draw(0);
    let tree = |set: &Fileset, seed| {
        let layout = build(set, &draws, seed);
        let sizes: Vec<u64> = (0..layout.len()).map(|file| layout.file_size(file)).collect();
        (file_paths(&layout), sizes)
    };
    let first = tree(&set, 1);
    assert_eq!(first, tree(&set, 1));
    let second = tree(&set, 2);
    assert_ne!(first.0, second.0);
    assert_ne!(first.1, second.1);
    set.name = "other".into();
    assert_ne!(first.1, tree(&set, 1).1);
    // Sizes come from a stream of their own: a fixed size does not move any file.
    set.name = "set".into();
    set.size = Value::Int(1);
    assert_eq!(first.0, tree(&set, 1).0);
}

#[test]
fn sizes_beyond_32_bits_are_kept() {
    let limit = f64::from(u32::MAX);
    let draws = [draw(Distribution::Uniform { low: 0.0, high: 4.0 * limit })];
    let mut set = fileset(1000, 0, 20, 0.0);
    set.size = Value::Draw(0);
    let layout = build(&set, &draws, 3);
    let sizes: Vec<u64> = (0..1000).map(|file| layout.file_size(file)).collect();
    let large = sizes.iter().filter(|&&size| size > u64::from(u32::MAX)).count();
    assert!((650..850).contains(&large), "{large}");
    assert!(sizes.iter().any(|&size| size < u64::from(u32::MAX)));
    assert_eq!(sizes.iter().sum::<u64>(), layout.total_bytes());
    assert_eq!(sizes.iter().max().copied(), Some(layout.largest_file_bytes()));
}

#[test]
fn a_chain_of_a_million_directories_is_possible() {
    let draws = [draw(Distribution::Constant(1_000_000.0))];
    let mut set = fileset(3, 0, 4, 0.0);
    set.dir_depth = Some(0);
    let layout = build(&set, &draws, 0);
    assert_eq!(layout.dir_count(), 1_000_000);
    let path = layout.file_path(2);
    assert_eq!(path.len(), 999_999 * 9 + 8);
    assert!(path.starts_with("00000001/00000001/") && path.ends_with("/00000003"));
    assert!(layout.memory_bytes() < 64 << 20);
}

#[test]
fn a_depth_that_never_ends_is_an_error() {
    let draws = [draw(Distribution::Constant(1e18))];
    let mut set = fileset(10, 0, 1, 0.0);
    set.dir_depth = Some(0);
    let error = Layout::build(&set, &draws, 0).unwrap_err();
    assert!(matches!(error, LayoutError::TooManyDirs { .. }));
    assert_starts(&error, "fileset set: the tree would need more than");
}

fn assert_starts(error: &LayoutError, start: &str) {
    let text = error.to_string();
    assert!(text.starts_with(start), "{text}");
}

#[test]
fn impossible_filesets_are_errors() {
    let build = |set: &Fileset, draws: &[Draw]| Layout::build(set, draws, 0).unwrap_err().to_string();
    let many = build(&fileset(u64::MAX, u64::MAX, 10, 1.5), &[]);
    assert!(many.contains("the limit is 4294967294"), "{many}");
    for gamma in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(build(&fileset(1, 0, 10, gamma), &[]).contains("dirgamma"));
    }
    let mut set = fileset(10, 0, 10, 1.5);
    set.size = Value::Draw(3);
    let text = build(&set, &[]);
    assert_eq!(text, "fileset set: size refers to random variable 3, which does not exist");
    set.size = Value::Draw(0);
    let text = build(&set, &[draw(Distribution::Exponential { mean: -1.0 })]);
    assert_eq!(text, "fileset set: size: random variable v: mean is -1, but has to be 0 or more");
}

#[test]
fn the_line_about_the_tree_is_that_of_filebench() {
    let mut set = fileset(1000, 0, 1_000_000, 1.5);
    set.size = Value::Int(16 << 10);
    let line = build(&set, &[], 0).populated_line("bigfileset");
    assert_eq!(
        line,
        "bigfileset populated: 1000 files, avg. dir. width = 1000000, avg. dir. depth = 0.5, 0 leafdirs, \
         15.625MB total size"
    );
}

#[test]
fn exactly_the_asked_share_exists_at_the_start() {
    let layout = build(&fileset(1000, 37, 20, 1.5), &[], 0);
    for (percent, files, leafdirs) in
        [(0, 0, 0), (1, 10, 0), (50, 500, 19), (80, 800, 30), (100, 1000, 37), (255, 1000, 37)]
    {
        for (initial, count, entries) in [
            (layout.initial_files(percent, 7), files, 1000),
            (layout.initial_leafdirs(percent, 7), leafdirs, 37),
        ] {
            assert_eq!(initial.count(), count);
            let order: Vec<usize> = initial.order().collect();
            assert_eq!(order.len(), count);
            let set: HashSet<usize> = order.iter().copied().collect();
            assert_eq!(set.len(), count);
            let bits = initial.bitset();
            assert_eq!(bits.iter().map(|word| word.count_ones() as usize).sum::<usize>(), count);
            for entry in 0..entries {
                assert_eq!(initial.contains(entry), set.contains(&entry));
                assert_eq!(bits[entry / 64] >> (entry % 64) & 1 == 1, set.contains(&entry));
            }
            assert!(!initial.contains(entries));
            assert!(order.iter().enumerate().all(|(rank, &entry)| initial.at(rank) == entry));
        }
    }
    let order: Vec<usize> = layout.initial_files(100, 7).order().collect();
    assert!(!order.is_sorted(), "creation is shuffled");
    assert_ne!(order, layout.initial_files(100, 8).order().collect::<Vec<_>>());
}

#[test]
fn every_file_is_as_likely_to_exist() {
    let layout = build(&fileset(10, 0, 20, 1.5), &[], 0);
    let mut counts = [0u32; 10];
    for seed in 0..5000 {
        layout.initial_files(30, seed).order().for_each(|file| counts[file] += 1);
    }
    // 1500 each, standard deviation 32.
    assert!(counts.iter().all(|&count| count.abs_diff(1500) < 200), "{counts:?}");
}
