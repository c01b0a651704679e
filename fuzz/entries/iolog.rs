//! Any text is an iolog that a job replays, or an error that can be shown; so is a job file with such a log behind it.

pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for version in 2..=3 {
        let log = format!("fio version {version} iolog\n{text}");
        match fiojob::load(&log, "fuzz", &[]) {
            Ok(loaded) => {
                let threads = loaded.workload.processes.iter().flat_map(|process| &process.threads);
                for stream in threads.filter_map(|thread| thread.stream.as_ref()) {
                    let Some(replay) = &stream.replay else { continue };
                    assert!(replay.trace.records().all(|record| (record.file as usize) < stream.files.len()));
                }
            }
            Err(error) => drop(error.to_string()),
        }
        // options before the first empty line, and the log
        let (options, log) = text.split_once("\n\n").unwrap_or(("", &log));
        let job = format!("[x]\n{options}\nread_iolog=log\n");
        if let Ok(whole) = fiojob::attach(&job, &|_| Ok(log.to_string())) {
            let _ = fiojob::load(&whole, "fuzz", &[]).map_err(|error| error.to_string());
        }
    }
}
