//! What the tests of this crate share.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Arc;

use camino::Utf8PathBuf;
use journal::{Journal, Resource};
use kv::properties::Properties;
use kv::redis::AppendPolicy;
use kv::workload::builtin;
use kv::{Engine, Job, Workload};
use serve::LoadSite;
use serve::drive::Pace;

pub struct Bench {
    _folder: tempfile::TempDir,
    pub path: Utf8PathBuf,
    pub journal: Arc<Journal>,
}

impl Bench {
    pub fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().canonicalize().unwrap()).unwrap();
        let journal = Journal::open(&path.join("journal"), "test").unwrap();
        Bench { _folder: folder, path, journal }
    }

    pub fn place(&self) -> LoadSite<'_> {
        LoadSite {
            root: &self.path,
            temporary: &self.path,
            journal: &self.journal,
            seed: 7,
            stopped: &|| false,
            tell: &|_| {},
            moment: &|_| {},
        }
    }
}

pub fn workload(letter: char, more: &[(&str, &str)], verify: bool) -> Workload {
    let mut properties: Properties = builtin(letter).unwrap();
    properties.set("recordcount", "2000");
    properties.set("operationcount", "3000");
    more.iter().for_each(|(name, value)| properties.set(name, value));
    Workload::of(&properties, verify).unwrap()
}

pub fn job(engine: Engine, workload: Workload) -> Job {
    Job {
        workload,
        engine,
        terminals: 3,
        cache_bytes: 8 << 20,
        flush: AppendPolicy::Written,
        pipeline: 1,
        threads: 1,
        address: None,
    }
}

pub const PACE: Pace = Pace { warmup_seconds: 0.0, seconds: 600.0, rate: None };

/// Numbers of the processes that are in the journal.
pub fn processes(journal: &Journal) -> Vec<u32> {
    let numbers = journal.entries().into_iter().filter_map(|(_, resource)| match resource {
        Resource::Process { process, .. } => Some(process.pid),
        _ => None,
    });
    numbers.collect()
}
