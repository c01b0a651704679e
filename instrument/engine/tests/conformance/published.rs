//! Job files that others have published, which may not be copied here: `FIO_FILES=FOLDER make conformance` makes each small
//! enough to be watched, and runs it by both programs.

use std::path::{Path, PathBuf};

use needs::needs;

use super::rows::{Compare, Row};
use super::{by_fio, by_us, differences};

/// Bytes of the files of each job, at most; of each transfer, too.
const BYTES_MAX: u64 = 4 << 20;
/// Clones of a job, at most.
const CLONES_MAX: u64 = 4;
/// Places of a queue, at most.
const DEPTH_MAX: u64 = 64;

/// A number of fio's with its suffix; none for what is more than that.
fn number(value: &str) -> Option<u64> {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match value[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

/// An option as it is run: smaller, shorter, and below the directory; none for what says where the files lie.
fn fitted(name: &str, value: &str) -> Option<String> {
    let at_most = |most: u64| match number(value) {
        Some(number) if number > most => format!("{name}={most}"),
        _ => format!("{name}={value}"),
    };
    Some(match name {
        "directory" => return None,
        // what is said of a device holds for a file of its name
        "filename" => {
            let names = value.split(':').map(|name| name.rsplit('/').next().unwrap_or(name));
            format!("filename={}", names.collect::<Vec<_>>().join(":"))
        }
        "size" | "filesize" | "io_size" | "io_limit" if value.ends_with('%') => format!("{name}={value}"),
        "size" | "filesize" | "io_size" | "io_limit" => at_most(BYTES_MAX),
        "offset" | "offset_increment" => at_most(BYTES_MAX / 4),
        "numjobs" => at_most(CLONES_MAX),
        "iodepth" => at_most(DEPTH_MAX),
        "nrfiles" => at_most(16),
        "bs" | "blocksize" => at_most(1 << 20),
        "runtime" | "timeout" => format!("{name}=1"),
        "ramp_time" | "startdelay" => format!("{name}=0"),
        "loops" => at_most(3),
        // strace does not see what goes through a ring
        "ioengine" if value == "io_uring" => "ioengine=libaio".into(),
        _ => format!("{name}={value}"),
    })
}

fn small(text: &str) -> String {
    let mut small = String::new();
    for line in text.lines().map(|line| line.split([';', '#']).next().unwrap_or_default().trim()) {
        let (line, section) = match line.strip_prefix("[/dev/") {
            Some(name) => (format!("[{}", name.replace('/', "-")), true),
            None => (line.to_string(), line.starts_with('[')),
        };
        let fitted = match line.split_once('=') {
            Some((name, value)) if !section => fitted(name.trim(), value.trim()),
            _ => Some(line),
        };
        small.extend(fitted.filter(|line| !line.is_empty()).map(|line| line + "\n"));
    }
    let says = |name: &str| small.lines().any(|line| line.starts_with(&format!("{name}=")));
    let mut more = String::new();
    // it leaves its size to the command line, or to the device
    if !says("size") && !says("filesize") {
        more += &format!("size={BYTES_MAX}\n");
    }
    // what paces itself may take for ever
    if !says("runtime") && !says("timeout") && ["rate", "rate_iops", "thinktime"].into_iter().any(says) {
        more += "runtime=2\n";
    }
    if !more.is_empty() {
        let times = if small.contains("[global]") { 1 } else { usize::MAX };
        small = small.replacen("]\n", &format!("]\n{more}"), times);
    }
    small
}

/// What can be compared of a job.
fn compare(text: &str) -> Compare {
    let says = |part: &str| text.contains(part);
    if says("runtime=") || says("timeout=") || says("time_based") || says("randrepeat=0") {
        Compare::Shares
    } else if says("zipf") || says("pareto") || says("normal") {
        Compare::Totals
    } else if says("libaio") || says("io_uring") {
        Compare::Counts
    } else {
        Compare::Order
    }
}

/// The last line that says something.
fn said(error: &str) -> String {
    error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().chars().take(160).collect()
}

#[test]
#[ignore = "no test: it takes minutes, and make conformance runs it"]
fn all_published_job_files_do_what_fio_does() {
    needs!(Tool { program: "fio", package: "fio" }, Tool { program: "strace", package: "strace" });
    let Some(folder) = std::env::var_os("FIO_FILES").map(PathBuf::from) else { return };
    let wanted = std::env::var("CONFORMANCE").unwrap_or_default();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut counts = [0; 4];
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !name.contains(&wanted) {
            continue;
        }
        let outcome = judge(&name, &small(&String::from_utf8_lossy(&std::fs::read(file).expect("a file"))));
        let kinds = ["equal", "refused", "fio", "differs"];
        counts[kinds.iter().position(|kind| outcome.starts_with(kind)).unwrap_or(3)] += 1;
        println!("{name:<40} {outcome}");
    }
    let [equal, refused, failed, differ] = counts;
    println!("{equal} equal, {refused} refused here, {failed} fail in fio, {differ} differ");
}

fn judge(name: &str, text: &str) -> String {
    let groups = fiojob::groups(text);
    // fio chooses sections by what stands in brackets, so that one group is left as it is
    let groups: Vec<Option<&str>> = match groups.len() {
        0 | 1 => vec![None],
        _ => groups.iter().map(|group| Some(group.as_str())).collect(),
    };
    let row = Row {
        name: Box::leak(name.to_string().into_boxed_str()),
        job: Box::leak(text.to_string().into_boxed_str()),
        compare: compare(text),
        short: false,
    };
    let mut found = Vec::new();
    for group in groups {
        let sections: Vec<&str> = group.map_or(Vec::new(), |group| group.split('+').collect());
        let places =
            [(); 2].map(|()| tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap());
        let by = |run: &dyn Fn(&Row, &[&str], &Path) -> _, at: usize| run(&row, &sections, places[at].path());
        let ours = match by(&by_us, 1) {
            Ok(ours) => ours,
            Err(error) => return format!("refused: {}", said(&error)),
        };
        match by(&by_fio, 0) {
            Err(error) => return format!("fio fails: {}", said(&error)),
            Ok(fio) => {
                let group = group.unwrap_or_default();
                found.extend(
                    differences(&row, &fio, &ours).into_iter().take(3).map(|one| format!("[{group}] {one}")),
                );
            }
        }
    }
    if found.is_empty() { "equal".into() } else { format!("differs: {}", found.join("; ")) }
}
