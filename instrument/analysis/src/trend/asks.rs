//! What the cells of studies ask: which of them belong to one series.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use study::results::{Cell, Run};
use study::{Settings, Study};

/// Settings that a result does not depend on, and `containers`, which is a parameter of the cell.
const IRRELEVANT: [&str; 9] =
    ["title", "seed", "trials", "order", "timeout", "keep", "stop_early", "turns", "containers"];

/// Version of what [`defined_cells`] gives of a study. Who keeps that keeps it under this number: what another loadline kept under
/// another one is found anew. A test holds it against the outcome for a study.
pub const VERSION: u32 = 1;

/// What the cells of many studies ask, found once for each study: studies recur, runs are many. What a study asks follows
/// from its hash, so that nothing here ever has to be found anew.
#[derive(Debug, Default)]
pub struct CellDefinitions {
    studies: HashMap<String, Vec<Arc<DefinedCell>>>,
}

/// A cell, and what it asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinedCell {
    /// The cell.
    pub cell: Cell,
    /// The workload with its parameters.
    pub load: String,
    /// Which series it belongs to: hash of what is asked (XXH3, 128 bits), whose text may be long.
    pub(super) series: String,
    /// What the workload sets, and settings other than the usual ones.
    pub(super) settings: Vec<String>,
}

/// What each cell of the study of a run asks; the run's trials are not looked at.
pub fn defined_cells(head: &Run) -> Vec<DefinedCell> {
    let study = Study::from_stored(&head.study).ok();
    let unusual = study.as_ref().map(unusual).unwrap_or_default();
    let cells = head.cells.iter().map(|cell| {
        let (text, settings) = asked_of(study.as_ref(), &unusual, cell);
        let series = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()));
        DefinedCell { cell: cell.clone(), load: cell.load_label(), series, settings }
    });
    cells.collect()
}

impl CellDefinitions {
    /// Of one run of each study; their trials are not looked at.
    pub fn of(heads: &[Run]) -> CellDefinitions {
        let mut asks = CellDefinitions::default();
        for head in heads {
            asks.add(&head.study_hash, defined_cells(head).into_iter().map(Arc::new).collect());
        }
        asks
    }

    /// Adds what the cells of a study ask; many studies may share it.
    pub fn add(&mut self, study_hash: &str, cells: Vec<Arc<DefinedCell>>) {
        self.studies.insert(study_hash.to_string(), cells);
    }

    /// Every study that is known, by its hash, and what its cells ask.
    pub fn studies(&self) -> impl Iterator<Item = (&str, &[Arc<DefinedCell>])> {
        self.studies.iter().map(|(hash, cells)| (hash.as_str(), cells.as_slice()))
    }

    /// Whether a study is known, by its hash.
    pub fn has_study(&self, study_hash: &str) -> bool {
        self.studies.contains_key(study_hash)
    }

    /// The cells of a study; none when it is not known.
    pub fn cells(&self, study_hash: &str) -> &[Arc<DefinedCell>] {
        self.studies.get(study_hash).map_or(&[], Vec::as_slice)
    }

    /// A cell of a study by its id.
    pub(super) fn cell(&self, study_hash: &str, id: u32) -> Option<&DefinedCell> {
        self.cells(study_hash).iter().map(Arc::as_ref).find(|asked| asked.cell.id == id)
    }

    /// Id of the cell of a study with the same load on another stack.
    pub(super) fn same_load_on(&self, study_hash: &str, cell: &Cell, stack: &str) -> Option<u32> {
        let is = |other: &Cell| {
            other.stack == stack && other.workload == cell.workload && other.parameters == cell.parameters
        };
        self.cells(study_hash).iter().find(|asked| is(&asked.cell)).map(|asked| asked.cell.id)
    }
}

/// Settings that a result depends on, and that are other than the usual ones.
fn unusual(study: &Study) -> Map<String, Value> {
    let mut settings = object(&study.study);
    let usual = object(&Settings::default());
    settings.retain(|name, value| !IRRELEVANT.contains(&name.as_str()) && usual.get(name) != Some(value));
    settings
}

/// What a cell was asked: all of it as a text, and in short for readers.
fn asked_of(study: Option<&Study>, settings: &Map<String, Value>, cell: &Cell) -> (String, Vec<String>) {
    let (mut load, mut set) = (Value::Null, Vec::new());
    if let Some(workload) =
        study.and_then(|study| study.workloads.iter().find(|one| one.label() == cell.workload))
    {
        set = workload.variables(&[]);
        load = serde_json::to_value(workload).unwrap_or_default();
        if let Value::Object(load) = &mut load {
            // how often, and what else was swept, is no matter of this cell; nor is where a text was read from
            load.retain(|name, _| !["trials", "parameters", "origin"].contains(&name.as_str()));
        }
    }
    let others = settings.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    let shown = set.into_iter().map(|(name, value)| format!("{name}={value}")).chain(others).collect();
    let parameters = serde_json::to_value(&cell.parameters).unwrap_or_default();
    (
        Value::from(vec![load, parameters, cell.stack.clone().into(), settings.clone().into()]).to_string(),
        shown,
    )
}

fn object(settings: &Settings) -> Map<String, Value> {
    match serde_json::to_value(settings) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
