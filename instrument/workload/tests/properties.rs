//! Random filesets and random variables, extremes included: invariants hold, nothing panics.

use std::collections::HashSet;

use proptest::prelude::*;
use workload::{
    Distribution, Draw, Fileset, Layout, LayoutError, Purpose, Rounding, Sampler, StreamId, TableRow, Value,
};

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..100.0f64,
        2 => any::<f64>(),
        1 => prop_oneof![
            Just(0.0), Just(-1.0), Just(1.0), Just(f64::NAN), Just(f64::INFINITY), Just(f64::MAX),
            Just(f64::MIN_POSITIVE), Just(5e-324), Just(-f64::MAX), Just(1e18),
        ],
    ]
}

fn distribution() -> impl Strategy<Value = Distribution> {
    let rows = prop::collection::vec((number(), number(), number()), 0..4);
    prop_oneof![
        number().prop_map(Distribution::Constant),
        (number(), number()).prop_map(|(low, high)| Distribution::Uniform { low, high }),
        (number(), number(), number()).prop_map(|(shift, shape, scale)| Distribution::Gamma {
            shift,
            shape,
            scale
        }),
        (rows, number(), number()).prop_map(|(rows, factor, shift)| {
            let share = 100.0 / rows.len() as f64;
            let row = |(percent, low, high): (f64, f64, f64)| {
                // Mostly tables that add up.
                TableRow { percent: if percent < 90.0 { share } else { percent }, low, high }
            };
            Distribution::Table { rows: rows.into_iter().map(row).collect(), factor, shift }
        }),
        (number(), number()).prop_map(|(mean, sigma)| Distribution::Normal { mean, sigma }),
        (number(), number())
            .prop_map(|(log_mean, log_sigma)| Distribution::LogNormal { log_mean, log_sigma }),
        number().prop_map(|mean| Distribution::Exponential { mean }),
        (any::<u64>(), number()).prop_map(|(shape, mean)| Distribution::Erlang { shape, mean }),
        (number(), number()).prop_map(|(shape, scale)| Distribution::Weibull { shape, scale }),
        (number(), number(), number()).prop_map(|(low, high, mode)| Distribution::Triangular {
            low,
            high,
            mode
        }),
    ]
}

fn draw() -> impl Strategy<Value = Draw> {
    let clamp = || prop::option::weighted(0.3, number());
    let round = prop_oneof![3 => Just(0), 1 => Just(4096), 1 => any::<u64>()];
    (distribution(), any::<u64>(), round, any::<bool>(), clamp(), clamp()).prop_map(
        |(distribution, seed, round, nearest, clamp_min, clamp_max)| Draw {
            name: "v".into(),
            seed,
            distribution,
            round,
            rounding: if nearest { Rounding::Nearest } else { Rounding::TruncatedNearest },
            clamp_min,
            clamp_max,
        },
    )
}

fn value() -> impl Strategy<Value = Value> {
    let extreme = prop_oneof![Just(0), Just(1), Just(2), Just(u64::MAX), any::<u64>()];
    prop_oneof![
        4 => (0..50u64).prop_map(Value::Int),
        2 => extreme.prop_map(Value::Int),
        2 => (0..4usize).prop_map(Value::Draw),
    ]
}

fn fileset() -> impl Strategy<Value = Fileset> {
    let count = || prop_oneof![8 => 0..400u64, 1 => Just(0), 1 => Just(1), 1 => Just(u64::MAX)];
    let gamma = prop_oneof![Just(0.0), Just(1.5), Just(0.1), number()];
    let depth = prop::option::weighted(0.3, 0..4usize);
    (count(), count(), value(), gamma, depth, value()).prop_map(
        |(entries, leafdirs, dir_width, dir_gamma, dir_depth, size)| Fileset {
            name: "set".into(),
            path: "p".into(),
            single: false,
            entries,
            leafdirs,
            dir_width,
            dir_gamma,
            dir_depth,
            size,
            prealloc_percent: 80,
            parallel_alloc: false,
            reuse: false,
            trust_tree: false,
            read_only: false,
            write_only: false,
            contents: Default::default(),
        },
    )
}

/// All paths are distinct, all parents are known directories; only then is there a tree to create.
fn check_tree(layout: &Layout, set: &Fileset) -> Result<(), TestCaseError> {
    prop_assert_eq!(layout.len() as u64, set.entries);
    prop_assert_eq!(layout.leafdir_count() as u64, set.leafdirs);
    // A tree of a million levels has paths of terabytes in all; its chain is tested elsewhere.
    if layout.path_bytes_max() * layout.dir_count() as u64 > 10_000_000 {
        return Ok(());
    }
    let mut dirs = HashSet::new();
    for (dir, path) in layout.dir_paths().enumerate() {
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        prop_assert!(parent.is_none_or(|parent| dirs.contains(parent)), "{} before its parent", path);
        prop_assert_eq!(layout.dir_path(dir + 1), path.clone());
        prop_assert!(dirs.insert(path));
    }
    let mut entries = HashSet::new();
    let files = (0..layout.len()).map(|file| (layout.file_path(file), layout.file_dir(file)));
    let leafdirs =
        (0..layout.leafdir_count()).map(|leaf| (layout.leafdir_path(leaf), layout.leafdir_dir(leaf)));
    for (path, dir) in files.chain(leafdirs) {
        let parent = path.rsplit_once('/').map(|(parent, _)| parent.to_string());
        prop_assert!(dir != 0, "{} is directly under the root", path);
        prop_assert_eq!(parent, Some(layout.dir_path(dir)));
        prop_assert!(!dirs.contains(&path), "{} is a directory too", path);
        prop_assert!(entries.insert(path));
    }
    let total = (0..layout.len()).fold(0u64, |sum, file| sum.saturating_add(layout.file_size(file)));
    prop_assert_eq!(total, layout.total_bytes());
    prop_assert!(layout.initial_files(80, 1).count() <= layout.len());
    Ok(())
}

/// The algorithm as it stands in the specification, recursive, for constant widths and depths.
struct Reference {
    files: u64,
    leafdirs: u64,
    width: u64,
    depth: u64,
    file_paths: Vec<String>,
    leafdir_paths: Vec<String>,
}

impl Reference {
    fn node(&mut self, path: &str, own_depth: u64) {
        let mut serial = 0;
        for second_pass in [false, true] {
            let mut children = 0;
            while own_depth == 1 || children < self.width {
                let done = if second_pass {
                    self.leafdir_paths.len() as u64 == self.leafdirs
                } else {
                    self.file_paths.len() as u64 == self.files
                };
                if done {
                    break;
                }
                children += 1;
                serial += 1;
                let child = format!("{path}{}{serial:08}", if path.is_empty() { "" } else { "/" });
                if own_depth == 1 || own_depth < self.depth {
                    self.node(&child, own_depth + 1);
                } else if second_pass {
                    self.leafdir_paths.push(child);
                } else {
                    self.file_paths.push(child);
                }
            }
        }
    }
}

#[test]
fn a_deep_small_tree_keeps_within_its_memory() {
    let set = Fileset { entries: 1100, dir_width: Value::Int(2), dir_gamma: 0.0, ..plain() };
    let layout = Layout::build(&set, &[], 0).unwrap();
    assert!(layout.memory_bytes() < 56 * 1100 + (1 << 16) + 1024, "{}", layout.memory_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_fileset_is_a_tree_or_an_error(
        set in fileset(),
        draws in prop::collection::vec(draw(), 3..5),
        seed: u64,
    ) {
        match Layout::build(&set, &draws, seed) {
            Ok(layout) => check_tree(&layout, &set)?,
            Err(LayoutError::TooManyEntries { entries, .. }) => prop_assert!(entries > 4_000_000_000),
            Err(error) => prop_assert!(error.to_string().starts_with("fileset set: "), "{}", error),
        }
    }

    #[test]
    fn plain_filesets_are_never_errors(
        entries in 0..2000u64,
        leafdirs in 0..200u64,
        width in prop_oneof![0..100u64, any::<u64>()],
        gamma in prop_oneof![Just(0.0), 0.05..5.0f64],
        seed: u64,
    ) {
        let set = Fileset { entries, leafdirs, dir_width: Value::Int(width), dir_gamma: gamma, ..plain() };
        let layout = Layout::build(&set, &[], seed);
        let layout = layout.map_err(|error| TestCaseError::fail(error.to_string()))?;
        check_tree(&layout, &set)?;
        // the cache of prefixes may always have 64 KiB: small deep trees fill them
        prop_assert!(layout.memory_bytes() < 56 * (entries + leafdirs) as usize + (1 << 16) + 1024);
    }

    #[test]
    fn constant_trees_are_those_of_the_specification(
        files in 0..600u64,
        leafdirs in prop_oneof![Just(0), 0..60u64],
        width in 0..40u64,
        seed: u64,
    ) {
        let set = Fileset { entries: files, leafdirs, dir_width: Value::Int(width), dir_gamma: 0.0, ..plain() };
        let layout = Layout::build(&set, &[], seed);
        let layout = layout.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let mean_depth = ((files + leafdirs) as f64).ln() / (width as f64).ln();
        let depth = if mean_depth.is_finite() { mean_depth as u64 } else { 1 };
        let mut reference = Reference {
            files,
            leafdirs,
            width: width.max(1),
            depth: depth.max(1),
            file_paths: Vec::new(),
            leafdir_paths: Vec::new(),
        };
        reference.node("", 1);
        let file_paths: Vec<String> = (0..layout.len()).map(|file| layout.file_path(file)).collect();
        prop_assert_eq!(file_paths, reference.file_paths);
        let leafdir_paths: Vec<String> = (0..layout.leafdir_count()).map(|leaf| layout.leafdir_path(leaf)).collect();
        prop_assert_eq!(leafdir_paths, reference.leafdir_paths);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_variable_draws_or_is_an_error(draw in draw(), seed: u64) {
        let rng = StreamId { seed, process: 0, thread: 0, purpose: Purpose::Operations }.rng();
        let sampler = Sampler::new(&draw, rng);
        prop_assert_eq!(sampler.is_ok(), draw.check().is_ok());
        let Ok(mut sampler) = sampler else { return Ok(()) };
        prop_assert!(!draw.mean().is_nan());
        for _ in 0..20 {
            let value = sampler.next_f64();
            prop_assert!(!value.is_nan());
            prop_assert!(draw.clamp_min.is_none_or(|min| value >= min));
            prop_assert!(draw.clamp_max.is_none_or(|max| value <= max));
            sampler.next_u64();
        }
    }
}

fn plain() -> Fileset {
    Fileset {
        name: "set".into(),
        path: "p".into(),
        single: false,
        entries: 0,
        leafdirs: 0,
        dir_width: Value::Int(0),
        dir_gamma: 1.5,
        dir_depth: None,
        size: Value::Int(100),
        prealloc_percent: 100,
        parallel_alloc: false,
        reuse: false,
        trust_tree: false,
        read_only: false,
        write_only: false,
        contents: Default::default(),
    }
}
