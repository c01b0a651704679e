//! Runs a job file of fio, or a file of Filebench's language (`.f`), below a directory: `job FILE DIRECTORY prepare|measure
//! [OPTION=VALUE ...]`; `erase=/dev/NAME` lets it write to a block device that the job names. What it has done, as the engine
//! counts it, goes to standard output. The conformance suite watches it from outside.

use std::path::Path;

use engine::raw::ApprovedDevice;
use engine::{Control, RunOptions, Stage};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, directory, stage, set @ ..] = &arguments[..] else {
        return Err("job FILE DIRECTORY prepare|measure [OPTION=VALUE ...]".into());
    };
    let set: Vec<(String, String)> = set
        .iter()
        .map(|word| word.split_once('=').map(|(name, value)| (name.to_string(), value.to_string())))
        .collect::<Option<_>>()
        .ok_or("an option without a value")?;
    let (erase, set): (Vec<_>, Vec<_>) = set.into_iter().partition(|(name, _)| name == "erase");
    let workload = if file.ends_with(".f") {
        let machine = wml::Machine { ram_bytes: 1 << 30, cores: 2, free_bytes: 1 << 34 };
        let settings = wml::Settings { machine, set, name: "script".into() };
        wml::load(&std::fs::read(file)?, &settings)
            .map_err(|mistakes| format!("{file}: {mistakes:?}"))?
            .workload
    } else {
        let beside = Path::new(file).parent().unwrap_or(Path::new(""));
        let read = |name: &str| std::fs::read_to_string(beside.join(name)).map_err(|error| error.to_string());
        let text = fiojob::attach(&fiojob::include(&std::fs::read_to_string(file)?, &read)?, &read)?;
        fiojob::load(&text, "job", &set)?.workload
    };
    let stage = if stage == "prepare" { Stage::Prepare } else { Stage::Measure };
    let options = RunOptions { stage, settle: false, ..RunOptions::default() };
    let mut approved = Vec::new();
    for (_, device) in &erase {
        let file = std::fs::File::options().read(true).write(true).open(device)?.into();
        approved.push(ApprovedDevice { path: device.into(), file });
    }
    let (root, control) = (Path::new(directory), Control::new());
    let outcome = engine::run_with_devices(&workload, root, &options, &control, &mut |_| {}, &approved)?;
    for op in &outcome.ops {
        println!("{} {} {}", op.name, op.ops, op.bytes);
    }
    if let stats::Ended::Failed { message } = &outcome.ended {
        return Err(message.clone().into());
    }
    Ok(())
}
