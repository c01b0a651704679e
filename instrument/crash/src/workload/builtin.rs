//! The built-in workloads: small, full of persistence points, in the spirit of ACE (CrashMonkey, OSDI'18).

use super::{Op, Script, ScriptBuilder};
use stats::rng::SplitMix;

/// Name and meaning of each.
pub const NAMES: [(&str, &str); 6] = [
    ("create-fsync", "new files of 1 to 20 KiB in two directories, each fsynced"),
    ("append-fsync", "appends of 0.5 to 12 KiB to one file, each fsynced"),
    ("overwrite-fdatasync", "overwrites of 4 to 16 KiB in a file of 256 KiB, each fdatasynced"),
    ("rename-replace", "a file replaced again and again by a fsynced new one"),
    ("names", "mkdir, link, rename, unlink, rmdir; fsyncs of files and directories"),
    ("random", "everything, by seed"),
];

/// The built-in workload of that name; `None` if there is none.
pub fn builtin(name: &str, seed: u64) -> Option<Script> {
    let rng = &mut SplitMix::new(seed ^ 0x6372_6173_6821);
    let author = match name {
        "create-fsync" => create_fsync(rng),
        "append-fsync" => append_fsync(rng),
        "overwrite-fdatasync" => overwrite_fdatasync(rng),
        "rename-replace" => rename_replace(rng),
        "names" => names(),
        "random" => random(rng),
        _ => return None,
    };
    Some(author.finish(name))
}

fn sectors(rng: &mut SplitMix, most: usize) -> u32 {
    1 + rng.below(most) as u32
}

fn create_fsync(rng: &mut SplitMix) -> ScriptBuilder {
    let mut a = ScriptBuilder::new();
    a.then(Op::Mkdir("d".into()));
    a.begin();
    for i in 0..16 {
        let path = format!("{}f{i}", ["", "d/"][i % 2]);
        a.create(&path);
        a.write(&path, 0, sectors(rng, 40));
        a.then(Op::Fsync(path));
    }
    a.then(Op::Sync);
    a
}

fn append_fsync(rng: &mut SplitMix) -> ScriptBuilder {
    let mut a = ScriptBuilder::new();
    a.create("log");
    a.append("log", 3);
    a.begin();
    for i in 0..24 {
        a.append("log", sectors(rng, 24));
        a.then(if i % 3 == 2 { Op::Fdatasync("log".into()) } else { Op::Fsync("log".into()) });
    }
    a.append("log", 9);
    a.then(Op::Sync);
    a
}

fn overwrite_fdatasync(rng: &mut SplitMix) -> ScriptBuilder {
    let mut a = ScriptBuilder::new();
    a.create("table");
    a.write("table", 0, 512);
    a.begin();
    for _ in 0..16 {
        for _ in 0..1 + rng.below(3) {
            let length = 8 * sectors(rng, 4);
            a.write("table", 8 * rng.below(60) as u32, length);
        }
        a.then(Op::Fdatasync("table".into()));
    }
    a.then(Op::Sync);
    a
}

fn rename_replace(rng: &mut SplitMix) -> ScriptBuilder {
    let mut a = ScriptBuilder::new();
    a.create("config");
    a.write("config", 0, 20);
    a.begin();
    for i in 0..10 {
        a.create("config.tmp");
        a.write("config.tmp", 0, sectors(rng, 40));
        a.then(Op::Fsync("config.tmp".into()));
        a.then(Op::Rename("config.tmp".into(), "config".into()));
        if i % 2 == 0 {
            a.then(Op::FsyncDir(String::new()));
        }
    }
    a.then(Op::Sync);
    a
}

fn names() -> ScriptBuilder {
    let mut a = ScriptBuilder::new();
    for path in ["a", "b"] {
        a.create(path);
        a.write(path, 0, 8);
    }
    a.begin();
    for i in 0..4 {
        let dir = format!("d{i}");
        let inside = |name: &str| format!("{dir}/{name}");
        a.then(Op::Mkdir(dir.clone()));
        a.create(&inside("new"));
        a.write(&inside("new"), 0, 10);
        a.then(Op::Fsync(inside("new")));
        a.then(Op::Link("a".into(), inside("linked")));
        a.then(Op::FsyncDir(dir.clone()));
        a.then(Op::Rename(inside("new"), format!("moved{i}")));
        a.then(Op::Fsync(format!("moved{i}")));
        a.then(Op::Rename("b".into(), inside("b")));
        a.then(Op::FsyncDir(dir.clone()));
        a.then(Op::Unlink(inside("linked")));
        a.then(Op::Rename(inside("b"), "b".into()));
        a.then(Op::Fsync("b".into()));
        a.then(Op::Rmdir(dir.clone()));
        a.then(Op::FsyncDir(String::new()));
    }
    a.then(Op::Sync);
    a
}

const DIRS: [&str; 3] = ["", "d0/", "d1/"];
const OPS: usize = 120;

fn random(rng: &mut SplitMix) -> ScriptBuilder {
    let mut a = ScriptBuilder::new();
    a.then(Op::Mkdir("d0".into()));
    a.then(Op::Mkdir("d1".into()));
    for name in ["f0", "d0/f1", "d1/f2"] {
        a.create(name);
        a.write(name, 0, sectors(rng, 30));
    }
    a.begin();
    for _ in 0..OPS {
        random_step(&mut a, rng);
    }
    a.then(Op::Sync);
    a
}

fn random_step(a: &mut ScriptBuilder, rng: &mut SplitMix) {
    let new = format!("{}f{}", DIRS[rng.below(3)], rng.below(6));
    let paths = a.paths();
    let Some(old) = rng.pick(&paths).cloned() else { return a.create(&new) };
    match rng.below(100) {
        0..14 if !a.exists(&new) => {
            a.create(&new);
            a.write(&new, 0, sectors(rng, 24));
        }
        0..26 => a.append(&old, sectors(rng, 24)),
        26..42 => {
            let place = rng.below(a.length(&old) as usize + 9) as u32;
            a.write(&old, place, sectors(rng, 24));
        }
        42..64 => a.then(Op::Fsync(old)),
        64..74 => a.then(Op::Fdatasync(old)),
        74..79 => a.then(Op::FsyncDir(DIRS[rng.below(3)].trim_end_matches('/').into())),
        79..81 => a.then(Op::Sync),
        81..88 if old != new => a.then(Op::Rename(old, new)),
        88..92 if !a.exists(&new) => a.then(Op::Link(old, new)),
        92..97 => a.then(Op::Unlink(old)),
        97..100 => {
            let sectors = rng.below(a.length(&old) as usize + 5) as u32;
            a.then(Op::Truncate { path: old, sectors });
        }
        _ => a.then(Op::Fsync(old)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_workload_and_seeds_matter_where_they_should() {
        for (name, _) in NAMES {
            let script = builtin(name, 1).unwrap();
            assert_eq!(Some(script.clone()), builtin(name, 1), "{name}: same seed, same operations");
            assert_eq!(script.ops[script.setup - 1], Op::Sync, "{name}");
            assert!(script.ops.len() > script.setup + 20, "{name}");
            assert_eq!(script != builtin(name, 2).unwrap(), name != "names", "{name}");
        }
        assert_eq!(builtin("nothing", 1), None);
    }
}
