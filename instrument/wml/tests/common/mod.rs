//! What the tests share.
#![allow(dead_code, reason = "not every test file uses every helper")]

use wml::{Diagnostics, Loaded, Machine, Settings};
use workload::{FlowOp, Node, Step};

/// 24 GiB of memory, 2 cores, 7 GiB free.
pub fn machine() -> Machine {
    Machine { ram_bytes: 24 << 30, cores: 2, free_bytes: 7 << 30 }
}

pub fn settings(set: &[(&str, &str)]) -> Settings {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Settings { machine: machine(), set, name: "test".into() }
}

pub fn try_load(text: &str, set: &[(&str, &str)]) -> Result<Loaded, Diagnostics> {
    wml::load(text.as_bytes(), &settings(set))
}

/// Loads what must load; shows the diagnostics otherwise.
pub fn load_with(text: &str, set: &[(&str, &str)]) -> Loaded {
    try_load(text, set).unwrap_or_else(|found| panic!("{}", found.render("test.f", text.as_bytes(), false)))
}

pub fn load(text: &str) -> Loaded {
    load_with(text, &[])
}

/// Loads what must load without a warning.
pub fn load_clean(text: &str) -> Loaded {
    let loaded = load(text);
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings.render("test.f", text.as_bytes(), false));
    loaded
}

/// The messages of the diagnostics.
pub fn messages(found: &Diagnostics) -> Vec<String> {
    found.iter().map(|one| one.message.clone()).collect()
}

/// A script of one fileset (`set`, 100 files) and one thread with these flowops, after these commands.
pub fn script(commands: &str, flowops: &str) -> String {
    format!(
        "{commands}\ndefine fileset name=set,path=/tmp,entries=100,size=16k,dirwidth=20,prealloc=80\n\
         define process name=p\n{{\n  thread name=t\n  {{\n    {flowops}\n  }}\n}}\nrun 1\n"
    )
}

/// The flowops of the first thread, composite ones flattened.
pub fn ops(loaded: &Loaded) -> Vec<FlowOp> {
    fn flatten(nodes: &[Node], into: &mut Vec<FlowOp>) {
        for node in nodes {
            match node {
                Node::Op(op) => into.push(op.clone()),
                Node::Group { body, .. } => flatten(body, into),
            }
        }
    }
    let mut result = Vec::new();
    flatten(&loaded.workload.processes[0].threads[0].body, &mut result);
    result
}

/// Seconds, operations, report period and warm-up of the run.
pub fn run_of(loaded: &Loaded) -> (Option<u64>, Option<u64>, Option<i64>, u64) {
    match loaded.workload.script.last() {
        Some(Step::Run { seconds, ops, report_period_seconds, warmup_seconds }) => {
            (*seconds, *ops, *report_period_seconds, *warmup_seconds)
        }
        other => panic!("the last step is {other:?}"),
    }
}
