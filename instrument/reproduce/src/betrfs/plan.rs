//! The study that a request means.

use record::study::{Bytes, Load, Seconds, Settings, Study, Sweeps, Workload};
use spec::StackSpec;

use super::columns::is_filebench;
use super::{Column, Row, Sizes};
use crate::distinct;
use crate::{ReproduceError, Scale};

/// The titles of runs begin with it.
pub const TITLE: &str = "BetrFS, EuroSys 2022: Table 3 and Figure 2";

/// Filebench's personalities in loadline's own words.
const PERSONALITIES: [(&str, &str); 4] = [
    ("oltp", include_str!("../../../../workloads/oltp.f")),
    ("fileserver", include_str!("../../../../workloads/fileserver.f")),
    ("webproxy", include_str!("../../../../workloads/webproxy.f")),
    ("webserver", include_str!("../../../../workloads/webserver.f")),
];

/// What is to be reproduced.
#[derive(Debug, Clone)]
pub struct Request {
    /// The rows.
    pub rows: Vec<Row>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The sizes.
    pub sizes: Sizes,
    /// The device of every row: `860evo:4G`, `/dev/sdx`.
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
    let mut stacks: Vec<StackSpec> = Vec::new();
    for row in &request.rows {
        let stack = row.stack(&request.device, sizes.memory_bytes / 4)?;
        if !stacks.contains(&stack) {
            stacks.push(stack);
        }
    }
    if stacks.is_empty() || request.columns.is_empty() {
        return Err(ReproduceError::Unknown(
            "name a row and a column at least (--rows ext4 --columns grep)".into(),
        ));
    }
    let loads = distinct(request.columns.iter().map(|column| column.load));
    let trials = |load: &str| {
        let own = match load {
            _ if is_micro(load) => sizes.micro_trials,
            // claims rest on these two
            "imap" | "rsync" => sizes.application_trials.max(sizes.micro_trials),
            _ => sizes.application_trials,
        };
        request.trials.unwrap_or(own)
    };
    let workloads =
        loads.iter().map(|load| Workload { trials: Some(trials(load)), ..workload(load, sizes) }).collect();
    Ok(Study {
        stacks,
        study: Settings {
            title: format!("{TITLE} ({})", sizes.scale.word()),
            seed: request.seed,
            trials: loads.iter().map(|load| trials(load)).max().unwrap_or(1),
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

/// Some twenty times what a trial takes: one that hangs must not end the run.
fn timeout_seconds(scale: Scale) -> f64 {
    match scale {
        Scale::Quick => 120.0,
        Scale::Default => 900.0,
        Scale::Paper => 12.0 * 3600.0,
    }
}

fn is_micro(load: &str) -> bool {
    ["large-file", "random-4k", "random-4b", "tokubench", "tree"].contains(&load)
}

fn workload(load: &str, sizes: &Sizes) -> Workload {
    if is_filebench(load) {
        // Each thread's buffer is 10 MiB there, of 32 GiB; a small memory limit has no room for 100 of them.
        let text = personality(load).replace("memsize=10m", "memsize=1m");
        let script = Load::Wml { text, origin: None };
        return Workload { set: variables(load, sizes), ..Workload::new(load, script) };
    }
    let number = |number: u64| number.to_string();
    let random = |bytes: u64| {
        vec![
            ("file_bytes", number(sizes.random_file_bytes)),
            ("writes", number(sizes.random_writes)),
            ("write_bytes", number(bytes)),
            ("buffers", number(sizes.buffers)),
        ]
    };
    let (app, words) = match load {
        "large-file" => {
            (load, vec![("file_bytes", number(sizes.large_file_bytes)), ("buffers", number(sizes.buffers))])
        }
        "random-4k" => ("random-write", random(4096)),
        "random-4b" => ("random-write", random(4)),
        "tokubench" => (load, vec![("files", number(sizes.tokubench_files)), ("threads", number(4))]),
        "imap" => (load, vec![("messages", number(sizes.imap_messages)), ("ops", number(sizes.imap_ops))]),
        other => (other, vec![("subset", sizes.subset.word().to_string())]),
    };
    let app = Load::App { name: app.to_string() };
    Workload { set: set(words), ..Workload::new(load, app) }
}

fn personality(load: &str) -> &'static str {
    PERSONALITIES.iter().find(|(name, _)| *name == load).map_or("", |(_, text)| text)
}

/// The artifact's parameters: webproxy with 100,000 files, webserver with 10,000, 60 s; thread counts as in Filebench's
/// own files, whatever the machine.
fn variables(load: &str, sizes: &Sizes) -> Sweeps {
    let files = |full: u64| (full / sizes.filebench_divisor).to_string();
    let mut words = vec![("runtime", sizes.filebench_seconds.to_string())];
    match load {
        "oltp" => words.extend([
            ("filesize", "10m".to_string()),
            ("logfilesize", "10m".to_string()),
            ("nshadows", "200".to_string()),
            ("memperthread", "256k".to_string()),
        ]),
        "fileserver" => words.extend([("nfiles", files(10_000)), ("nthreads", "50".to_string())]),
        "webproxy" => words.extend([("nfiles", files(100_000)), ("nthreads", "100".to_string())]),
        _ => words.extend([("nfiles", files(10_000)), ("nthreads", "100".to_string())]),
    }
    set(words)
}

fn set(words: Vec<(&str, String)>) -> Sweeps {
    let mut set = Sweeps::default();
    for (name, value) in words {
        // These names and values are well formed, which is all that `put` asks for.
        let _ = set.put(name, vec![value]);
    }
    set
}

#[cfg(test)]
mod tests {
    use super::super::scale::Machine;
    use super::super::{columns, rows};
    use super::*;

    fn request(columns: &str) -> Request {
        let machine = Machine { memory_bytes: 24 << 30, device_bytes: None };
        Request {
            rows: rows::choose("ext4,xfs,zfs,sfl,betrfs").unwrap(),
            columns: columns::choose(columns).unwrap(),
            sizes: Sizes::new(Scale::Quick, machine),
            device: "860evo:4G".into(),
            trials: None,
            seed: 1,
        }
    }

    #[test]
    fn the_study_is_one_that_the_lab_reads_back() {
        let study = study(&request("micro,applications")).unwrap();
        assert_eq!(study.stacks.len(), 5);
        assert_eq!(study.workloads.len(), 13);
        let again = Study::from_stored(&study.to_toml()).unwrap();
        assert_eq!(again.hash(), study.hash());
        assert_eq!(Sizes::of_study(&again), Some(request("grep").sizes));
        let machine = lab::load::machine(Some(512 << 20), 4 << 30);
        let checked = lab::check::workloads(&again, machine).unwrap();
        let scripts = checked.iter().filter(|one| one.model().is_some()).count();
        assert_eq!((checked.len(), scripts), (13, 4), "the personalities are WML");
        assert!(checked.iter().all(|one| one.warnings.is_empty()), "{checked:?}");
        let proxy = checked.iter().find(|one| one.workload == "webproxy").unwrap();
        assert!(proxy.variables.contains(&("nfiles".into(), "12500".into())), "{:?}", proxy.variables);
    }

    #[test]
    fn columns_of_one_load_are_measured_once() {
        let study = study(&request("grep,find,del,seq-read")).unwrap();
        let names: Vec<&str> = study.workloads.iter().map(|workload| workload.label()).collect();
        assert_eq!(names, ["tree", "large-file"].map(|name| name).to_vec());
    }

    #[test]
    fn a_request_for_nothing_is_refused() {
        assert!(study(&Request { rows: vec![], ..request("grep") }).is_err());
        assert!(study(&Request { columns: vec![], ..request("grep") }).is_err());
    }
}
