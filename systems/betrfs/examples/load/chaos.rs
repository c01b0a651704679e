//! Threads that get in each other's way: no model, but only certain errors are allowed.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::Instant;

use crate::Done;
use crate::walk::Random;

/// Errors that others' operations in between can cause.
const ALLOWED: [i32; 8] = [
    libc::ENOENT,
    libc::EEXIST,
    libc::ENOTDIR,
    libc::EISDIR,
    libc::ENOTEMPTY,
    libc::EINVAL,
    libc::ELOOP,
    libc::EPERM,
];

/// Works in `dir` with names that others use as well, until `end`.
pub fn quarrel(dir: &Path, seed: u64, end: Instant) -> Done {
    let mut random = Random::new(seed);
    let mut count = 0u64;
    while Instant::now() < end {
        let kind = random.below(12);
        let done = operate(dir, &mut random, kind);
        match done.err().and_then(|e| e.raw_os_error()) {
            None => {}
            Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED) => {
                return Ok("connection lost".into());
            }
            Some(e) if ALLOWED.contains(&e) => {}
            Some(e) => return Err(format!("quarrel: operation kind {kind}: errno {e}")),
        }
        count += 1;
    }
    Ok(format!("{count} quarrelled"))
}

fn path(random: &mut Random) -> String {
    let depth = 1 + random.below(4);
    (0..depth).map(|_| format!("n{}/", random.below(6))).collect::<String>().trim_end_matches('/').to_owned()
}

fn operate(dir: &Path, random: &mut Random, kind: u64) -> io::Result<()> {
    let one = dir.join(path(random));
    let other = dir.join(path(random));
    match kind {
        0 | 1 => fs::create_dir(one),
        2 => File::create(one).and_then(|mut f| f.write_all(&random.bytes(5000))),
        3 => fs::remove_file(one),
        4 => fs::remove_dir(one),
        5 | 6 => fs::rename(one, other),
        7 => fs::hard_link(one, other),
        8 => {
            // Open and unlinked: what is written must be there as long as it is open.
            let one = dir.join(format!("open{}", random.below(1 << 40)));
            let mut file = File::options().read(true).write(true).create_new(true).open(&one)?;
            let data = random.bytes(20_000);
            file.write_all(&data[..10_000])?;
            fs::remove_file(&one)?;
            file.write_all(&data[10_000..])?;
            file.sync_all()?;
            file.rewind()?;
            let mut all = Vec::new();
            file.read_to_end(&mut all)?;
            if all == data { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
        }
        9 => fs::read_dir(one)?.try_for_each(|item| item.map(drop)),
        10 => File::options().write(true).open(one)?.set_len(random.below(20_000)),
        _ => fs::symlink_metadata(one).map(drop),
    }
}
