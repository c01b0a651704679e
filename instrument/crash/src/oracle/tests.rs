//! Honest file systems pass, planted faults do not.

use camino::Utf8Path;

use super::*;
use crate::workload::data::Sector;
use crate::workload::{DriveError, NAMES, Op, Script, ScriptBuilder, builtin, drive};
use stats::rng::SplitMix;

/// The tree after each operation; `[0]` is before the first.
fn trees(script: &Script) -> Vec<Tree> {
    let dir = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(dir.path()).unwrap();
    let mut trees = vec![observe(root)];
    for op in 0..script.ops.len() {
        drive::<DriveError>(script, op..op + 1, root, |_| Ok(())).unwrap();
        trees.push(observe(root));
    }
    trees
}

fn kinds(timeline: &Timeline, must: usize, may: usize, tree: &Tree) -> Vec<Kind> {
    check(timeline, Window { must, may }, tree).into_iter().map(|b| b.kind).collect()
}

#[test]
fn whatever_a_prefix_of_the_operations_leaves_is_fine() {
    for (name, _) in NAMES {
        for seed in 0..2 {
            let script = builtin(name, seed).unwrap();
            let timeline = Timeline::new(&script);
            let trees = trees(&script);
            let mut rng = SplitMix::new(seed);
            for _ in 0..150 {
                let done = rng.below(trees.len());
                let (must, may) = (rng.below(done + 1), done + rng.below(trees.len() - done));
                let breaches = check(&timeline, Window { must, may }, &trees[done]);
                assert!(breaches.is_empty(), "{name} {seed}: {must} <= {done} <= {may}: {breaches:?}");
            }
        }
    }
}

#[test]
fn going_back_behind_a_sync_is_noticed() {
    let mut noticed = 0;
    for seed in 0..4 {
        let script = builtin("random", seed).unwrap();
        let timeline = Timeline::new(&script);
        let trees = trees(&script);
        for (op, what) in script.ops.iter().enumerate() {
            if *what == Op::Sync {
                // everything before this is durable, so an earlier and different tree is a loss
                for earlier in 0..=op {
                    let same = trees[earlier] == trees[op];
                    let fine = kinds(&timeline, op + 1, op + 1, &trees[earlier]).is_empty();
                    assert_eq!(fine, same, "seed {seed}: tree {earlier} at the sync {op}");
                    noticed += u32::from(!same);
                }
            }
        }
    }
    assert!(noticed > 150, "{noticed}");
}

/// `keep` is synced, then overwritten; `new` replaces `old`.
fn small() -> (Timeline, Vec<Tree>) {
    let mut a = ScriptBuilder::new();
    a.create("keep"); // 0
    a.write("keep", 0, 16); // 1
    a.then(Op::Fsync("keep".into())); // 2
    a.write("keep", 4, 8); // 3
    a.create("old"); // 4
    a.write("old", 0, 4); // 5
    a.then(Op::Fsync("old".into())); // 6
    a.create("new"); // 7
    a.write("new", 0, 4); // 8
    a.then(Op::Fsync("new".into())); // 9
    a.then(Op::Rename("new".into(), "old".into())); // 10
    let script = a.finish("small");
    (Timeline::new(&script), trees(&script))
}

fn sectors<'t>(tree: &'t mut Tree, path: &str) -> &'t mut Vec<Sector> {
    match tree.nodes.get_mut(path) {
        Some(Node::File { sectors, .. }) => sectors,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn contents_may_be_mixed_from_versions_but_not_made_up() {
    let (timeline, trees) = small();
    let data = |file, version, place| Sector::Data { file, version, place };
    let cases: [(usize, Sector, &[Kind]); 8] = [
        (5, data(0, 1, 5), &[]),
        (5, data(0, 2, 5), &[]),
        (13, data(0, 2, 13), &[Kind::Lost]),
        (5, Sector::Zero, &[Kind::Lost]),
        (5, Sector::Stale, &[Kind::Stale]),
        (5, Sector::Garbage, &[Kind::Stale]),
        (5, data(0, 1, 6), &[Kind::Stale]),
        (5, data(1, 3, 5), &[Kind::Stale]),
    ];
    for (place, sector, expected) in cases {
        let mut tree = trees[4].clone();
        sectors(&mut tree, "keep")[place] = sector;
        assert_eq!(kinds(&timeline, 4, 4, &tree), expected, "{place} {sector:?}");
    }
    // unsynced, it may be gone; synced, it may not
    let mut tree = trees[4].clone();
    tree.nodes.remove("keep");
    assert_eq!(kinds(&timeline, 2, 4, &tree), []);
    assert_eq!(kinds(&timeline, 3, 4, &tree), [Kind::Lost]);
    // what no operation has begun to write cannot be there
    assert_eq!(kinds(&timeline, 3, 3, &trees[4]), [Kind::Lost]);
}

#[test]
fn a_replacement_is_old_or_new_but_never_neither_nor_both() {
    let (timeline, trees) = small();
    let (before, after) = (&trees[10], &trees[11]);
    assert_eq!(kinds(&timeline, 10, 11, before), []);
    assert_eq!(kinds(&timeline, 10, 11, after), []);
    let mut neither = after.clone();
    neither.nodes.remove("old");
    assert_eq!(kinds(&timeline, 10, 11, &neither), [Kind::NotAtomic]);
    let mut both = after.clone();
    both.nodes.insert("new".into(), after.nodes["old"].clone());
    assert_eq!(kinds(&timeline, 10, 11, &both), [Kind::NotAtomic]);
    let mut gone = before.clone();
    gone.nodes.remove("new");
    assert_eq!(kinds(&timeline, 10, 11, &gone), [Kind::NotAtomic], "`old` is old, and `new` is nowhere");
    let mut torn = after.clone();
    sectors(&mut torn, "old")[3] = Sector::Zero;
    assert_eq!(kinds(&timeline, 10, 11, &torn), [Kind::Lost]);
}

#[test]
fn on_a_device_that_keeps_the_order_new_data_asks_for_old_syncs() {
    let mut a = ScriptBuilder::new();
    for (i, path) in ["a", "b", "c"].into_iter().enumerate() {
        a.create(path); // 0, 3, 6
        a.write(path, 0, 1 + i as u32);
        a.then(Op::Fsync(path.into()));
    }
    let script = a.finish("chain");
    let (timeline, trees) = (Timeline::new(&script), trees(&script));
    assert_eq!([0, 1, 2, 5, 9].map(|op| timeline.newest_seen(&trees[op])), [0, 0, 1, 4, 7]);
    let mut hole = trees[9].clone();
    hole.nodes.remove("a");
    let seen = timeline.newest_seen(&hole);
    assert_eq!(
        kinds(&timeline, seen, 9, &hole),
        [Kind::Lost],
        "`c` is there, and the fsync of `a` came before"
    );
    hole.nodes.remove("c");
    hole.nodes.remove("b");
    assert_eq!(kinds(&timeline, timeline.newest_seen(&hole), 9, &hole), []);
}

#[test]
fn the_patterns_of_known_weaknesses_are_told() {
    let mut a = ScriptBuilder::new();
    a.then(Op::Mkdir("d".into()));
    a.create("f");
    a.write("f", 0, 4);
    a.begin();
    a.then(Op::Rename("f".into(), "d/f".into()));
    a.then(Op::FsyncDir("d".into()));
    a.create("f");
    a.write("f", 0, 8);
    a.then(Op::Fsync("f".into()));
    a.then(Op::Unlink("f".into()));
    let script = a.finish("weak");
    let (timeline, trees) = (Timeline::new(&script), trees(&script));
    let weaknesses = |must, may, tree: &Tree| -> Vec<Option<Weakness>> {
        check(&timeline, Window { must, may }, tree).iter().map(|breach| breach.weakness).collect()
    };
    let end = script.ops.len();
    let mut both = trees[5].clone();
    both.nodes.insert("f".into(), trees[5].nodes["d/f"].clone());
    assert_eq!(weaknesses(5, 5, &both), [Some(Weakness::BothNames)]);
    let mut older = trees[end].clone();
    older.nodes.insert("f".into(), trees[4].nodes["f"].clone());
    assert_eq!(weaknesses(end - 1, end, &older), [Some(Weakness::OlderFile)]);
    // before the removal has begun it is a plain loss
    assert_eq!(weaknesses(end - 1, end - 1, &older), [None]);
    assert!(Weakness::of(spec::FsKind::Ext4).is_empty());
    // free space within what is written and not yet synced; in what was synced it is a loss of more than order
    let mut stale = trees[end - 2].clone();
    sectors(&mut stale, "f")[3] = Sector::Stale;
    assert_eq!(weaknesses(end - 2, end - 1, &stale), [Some(Weakness::StaleUnsynced)]);
    assert_eq!(weaknesses(end - 1, end - 1, &stale), [None]);
    // a worse one behind it is not covered up
    sectors(&mut stale, "f")[5] = Sector::Garbage;
    assert_eq!(weaknesses(end - 2, end - 1, &stale), [None]);
    assert_eq!(Weakness::of(spec::FsKind::F2fs), [Weakness::StaleUnsynced]);
}

#[test]
fn strange_names_unreadable_files_and_undone_removals() {
    let (timeline, trees) = small();
    let mut tree = trees[11].clone();
    tree.nodes.insert("what".into(), Node::Dir);
    assert_eq!(kinds(&timeline, 10, 11, &tree), [Kind::Strange]);
    tree.nodes.insert("keep".into(), Node::Unreadable("Input/output error".into()));
    assert_eq!(kinds(&timeline, 10, 11, &tree), [Kind::Unreadable, Kind::Strange]);
    let mut a = ScriptBuilder::new();
    a.create("f");
    a.then(Op::Sync);
    a.then(Op::Unlink("f".into()));
    a.then(Op::FsyncDir(String::new()));
    let script = a.finish("unlink");
    let (timeline, trees) = (Timeline::new(&script), self::trees(&script));
    assert_eq!(kinds(&timeline, 3, 4, &trees[1]), [], "before the directory's sync it may come back");
    assert_eq!(kinds(&timeline, 4, 4, &trees[1]), [Kind::Lost]);
}

#[test]
fn holes_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = Utf8Path::from_path(dir.path()).unwrap();
    let sparse = std::fs::File::create(root.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"x", 1 << 30).unwrap();
    sparse.set_len(1 << 42).unwrap();
    let start = std::time::Instant::now();
    assert_eq!(unreadable(root, &std::sync::atomic::AtomicBool::new(false)), None);
    assert!(start.elapsed() < std::time::Duration::from_secs(10));
}
