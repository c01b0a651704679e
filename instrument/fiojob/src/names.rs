//! The names of options that are taken.

/// Options that may stand without a value.
pub const FLAGS: [&str; 6] =
    ["time_based", "thread", "group_reporting", "stonewall", "norandommap", "refill_buffers"];

/// Options that are taken, each as fio's HOWTO calls it.
pub const KNOWN: [&str; 36] = [
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "size",
    "filesize",
    "nrfiles",
    "numjobs",
    "iodepth",
    "ioengine",
    "direct",
    "buffered",
    "sync",
    "fsync",
    "fdatasync",
    "bssplit",
    "runtime",
    "time_based",
    "ramp_time",
    "rwmixread",
    "rwmixwrite",
    "randseed",
    "randrepeat",
    "random_distribution",
    "norandommap",
    "thread",
    "group_reporting",
    "stonewall",
    "name",
    "description",
    "invalidate",
    "directory",
    "fallocate",
    "refill_buffers",
    "create_on_open",
    "end_fsync",
];

/// `; did you mean ...` for an option that is not known.
pub fn nearest_known(name: &str) -> String {
    let near = KNOWN.iter().min_by_key(|known| distance(name, known));
    match near.filter(|known| distance(name, known) <= (name.len() / 3).max(1)) {
        Some(known) => format!("; did you mean `{known}`?"),
        None => String::new(),
    }
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().take(64).enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let next = (corner + usize::from(letter != *other)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}
