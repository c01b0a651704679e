//! The study that a request means: loads, the configuration as a parameter.

use record::study::{Bytes, Load, Seconds, Settings, Study, Sweeps, Workload};
use spec::StackSpec;

use super::{Column, Row, Sizes, claims};
use crate::distinct;
use crate::{ReproduceError, Scale};

/// The titles of runs begin with it.
pub const TITLE: &str = "CrossPrefetch, ASPLOS 2024: figures 5 to 9, table 4";
/// The device when none is named.
pub const DEVICE: &str = "slow(1ms,1GB/s)";
/// The parameter that holds a row.
pub const PARAMETER: &str = "config";
/// The parameter that names what a load measures.
const COLUMNS: &str = "columns";
/// What follows a load's name where it runs under rows that no claim is about, with fewer trials.
pub const OTHERS: &str = " (other rows)";

/// What is to be reproduced.
#[derive(Debug, Clone)]
pub struct Request {
    /// The rows.
    pub rows: Vec<Row>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The sizes.
    pub sizes: Sizes,
    /// The device (`slow(20ms,400MB/s)`, `image:4G`, `/dev/sdx`), put under ext4; or a whole stack (`f2fs@...`).
    pub device: String,
    /// Trials of each load; without it those of the sizes.
    pub trials: Option<u32>,
    /// Seed.
    pub seed: u64,
}

/// The study that a request means.
///
/// # Errors
/// A device that cannot be read, or no row or column.
pub fn study(request: &Request) -> Result<Study, ReproduceError> {
    let sizes = &request.sizes;
    if request.rows.is_empty() || request.columns.is_empty() {
        return Err(ReproduceError::Unknown(
            "name a row and a column at least (--rows app-only --columns multi-read)".into(),
        ));
    }
    let loads = distinct(request.columns.iter().map(|column| column.load));
    // Claims rest on two rows; the others show what they are.
    let (judged, shown): (Vec<&Row>, Vec<&Row>) =
        request.rows.iter().partition(|row| [claims::BASE, claims::OURS].contains(&row.id()));
    let many = request.trials.unwrap_or(sizes.trials);
    let few = request.trials.unwrap_or(sizes.other_trials);
    let mut workloads = Vec::new();
    for (rows, ending, trials) in [(judged, "", many), (shown, OTHERS, few)] {
        if rows.is_empty() {
            continue;
        }
        let words: Vec<String> = rows.iter().map(|row| row.id().to_string()).collect();
        let mut parameters = Sweeps::default();
        parameters.put(PARAMETER, words).map_err(ReproduceError::Unknown)?;
        for load in &loads {
            let app = Load::App { name: load.to_string() };
            workloads.push(Workload {
                set: set(load, &request.columns, sizes)?,
                parameters: parameters.clone(),
                trials: Some(trials),
                ..Workload::new(format!("{load}{ending}"), app)
            });
        }
    }
    Ok(Study {
        stacks: vec![stack(&request.device, sizes.device_bytes)?],
        study: Settings {
            title: format!("{TITLE} ({})", sizes.scale.word()),
            seed: request.seed,
            trials: workloads.iter().filter_map(|workload| workload.trials).max().unwrap_or(1),
            memory: Some(Bytes(sizes.memory_bytes)),
            timeout: Seconds::new(timeout_seconds(sizes.scale)).ok(),
            ..Settings::default()
        },
        parameters: Sweeps::default(),
        workloads,
        published: Vec::new(),
        claims: Vec::new(),
    })
}

fn stack(device: &str, bytes: u64) -> Result<StackSpec, ReproduceError> {
    let sized = device.starts_with('/') || device.contains("@/") || device.contains(':');
    let device = if sized { device.to_string() } else { format!("{device}:{}M", bytes >> 20) };
    Ok(if device.contains('@') { device.parse()? } else { format!("ext4@{device}").parse()? })
}

/// Some ten times what a trial takes on a device of 20 ms.
fn timeout_seconds(scale: Scale) -> f64 {
    match scale {
        Scale::Quick => 900.0,
        Scale::Default => 1800.0,
        Scale::Paper => 24.0 * 3600.0,
    }
}

/// Whether a workload of such a study measures a column.
pub(super) fn measures(workload: &Workload, column: &Column) -> bool {
    let label = workload.label();
    let sections = workload.set.get(COLUMNS).and_then(|values| values.first());
    label.strip_suffix(OTHERS).unwrap_or(label) == column.load
        && sections.is_some_and(|words| words.split_whitespace().any(|word| word == column.section()))
}

fn set(load: &str, columns: &[Column], sizes: &Sizes) -> Result<Sweeps, ReproduceError> {
    let mut sections: Vec<String> = Vec::new();
    for section in columns.iter().filter(|column| column.load == load).map(Column::section) {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    let own: &[(&str, u64)] = match load {
        "read-shared" => &[("bytes", sizes.bytes), ("milliseconds", sizes.milliseconds)],
        "compress" => {
            &[("bytes", sizes.bytes), ("memory_bytes", sizes.memory_bytes), ("file_bytes", sizes.file_bytes)]
        }
        "db-bench" => &[("memory_bytes", sizes.memory_bytes), ("keys", sizes.keys), ("reads", sizes.reads)],
        "ycsb" => &[("milliseconds", sizes.milliseconds), ("records", sizes.records)],
        _ => &[("bytes", sizes.bytes)],
    };
    let mut set = Sweeps::default();
    let mut put = |name: &str, value: String| set.put(name, vec![value]).map_err(ReproduceError::Unknown);
    put(COLUMNS, sections.join(" "))?;
    put("threads", sizes.threads.to_string())?;
    own.iter().try_for_each(|(name, value)| put(name, value.to_string()))?;
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::super::{columns, rows};
    use super::*;

    fn request(columns: &str) -> Request {
        Request {
            rows: rows::choose("all").unwrap(),
            columns: columns::choose(columns).unwrap(),
            sizes: Sizes::new(Scale::Quick, 24 << 30, true),
            device: DEVICE.into(),
            trials: None,
            seed: 1,
        }
    }

    #[test]
    fn the_study_is_one_that_the_lab_and_the_loads_read_back() {
        let study = study(&request("all")).unwrap();
        assert_eq!((study.workloads.len(), study.stacks.len()), (10, 1));
        let again = Study::from_stored(&study.to_toml()).unwrap();
        assert_eq!(again.hash(), study.hash());
        assert_eq!(Sizes::of_study(&again), Some(request("all").sizes));
        assert_eq!(record::plan::cells(&again).len(), 5 * 7);
        let loads = lab::check::workloads(&again, lab::load::machine(None, 1 << 30)).unwrap();
        for cell in record::plan::cells(&again) {
            let app = loads.of(&cell).unwrap().app().unwrap();
            let sections = columns::COLUMNS
                .iter()
                .filter(|one| one.load == cell.workload.trim_end_matches(OTHERS))
                .map(Column::section);
            let sections: std::collections::BTreeSet<String> = sections.collect();
            assert_eq!(
                app.phases() as usize,
                sections.len() + 1,
                "a phase for the data, one for each section"
            );
        }
    }

    #[test]
    fn only_what_is_asked_for_is_measured() {
        let study = study(&request("writers-4,readers-4,readseq")).unwrap();
        let sections: Vec<&str> =
            study.workloads.iter().map(|one| one.set.get(COLUMNS).unwrap()[0].as_str()).collect();
        let trials: Vec<Option<u32>> = study.workloads.iter().map(|one| one.trials).collect();
        assert_eq!(trials, [Some(3), Some(3), Some(1), Some(1)]);
        assert_eq!(sections, ["readers-4", "readseq", "readers-4", "readseq"]);
    }

    #[test]
    fn devices_get_a_file_system_and_a_size() {
        let label = |device: &str| stack(device, 2 << 30).map(|stack| stack.label());
        assert_eq!(label("slow(1ms,1GB/s)").unwrap(), "ext4@slow(1ms,1GB/s):2G");
        assert_eq!(label("image:3G").unwrap(), "ext4@image:3G");
        assert_eq!(label("xfs@slow(20ms,400MB/s)").unwrap(), "xfs@slow(20ms,400MB/s):2G");
        assert!(label("/dev/sdx").unwrap().starts_with("ext4@"));
        assert!(study(&Request { rows: vec![], ..request("all") }).is_err());
    }
}
