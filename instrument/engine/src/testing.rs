//! Small workloads for tests.

use workload::{Fileset, Value};

/// A fileset of 1 KiB files, twenty to a directory, all there.
pub fn fileset(name: &str, path: &str, entries: u64) -> Fileset {
    Fileset {
        name: name.into(),
        path: path.into(),
        single: false,
        entries,
        leafdirs: 0,
        dir_width: Value::Int(20),
        dir_gamma: 1.5,
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
