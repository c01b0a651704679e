//! Small writes anywhere in one large file, for long without a sync: what the store holds back of its log.
//!
//! Write `n` goes to a block that follows from the seed and `n`, and every 16 bytes of it say `n`. So the file tells by
//! itself which writes are there: with the newest of them, every older one must be there too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{Done, Progress};

/// Bytes of a write, and of a block of the file.
const BLOCK: usize = 4096;

fn mix(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `block` with write `n`; the second half of each 16 bytes does not compress.
fn stamp(block: &mut [u8], seed: u64, n: u64) {
    for (i, part) in block.chunks_exact_mut(16).enumerate() {
        part[..8].copy_from_slice(&n.to_le_bytes());
        part[8..].copy_from_slice(&mix(seed ^ n, i as u64).to_le_bytes());
    }
}

/// Writes to `dir`/scattered of `mib` MiB until `seconds` are over or the connection is lost; syncs after `every` writes.
pub fn scatter(dir: &Path, log: &Path, seed: u64, mib: u64, every: u64, seconds: u64) -> Done {
    let text = |e: std::io::Error| format!("prepare: {e}");
    let progress = Progress::create(log).map_err(text)?;
    let file = File::create(dir.join("scattered")).map_err(text)?;
    file.set_len(mib << 20).and_then(|()| file.sync_all()).map_err(text)?;
    File::open(dir).and_then(|d| d.sync_all()).map_err(text)?;
    let (blocks, end) = ((mib << 20) / BLOCK as u64, Instant::now() + Duration::from_secs(seconds));
    let mut block = [0; BLOCK];
    let mut n = 0;
    while Instant::now() < end {
        n += 1;
        progress.begun(n).map_err(text)?;
        stamp(&mut block, seed, n);
        let mut done = file.write_all_at(&block, mix(seed, n) % blocks * BLOCK as u64);
        if done.is_ok() && n.is_multiple_of(every.max(1)) {
            done = file.sync_data();
            if done.is_ok() {
                progress.durable(n).map_err(text)?;
            }
        }
        match done.map_err(|e| (e.raw_os_error(), e)) {
            Ok(()) => {}
            Err((Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED), _)) => {
                return Ok(format!("connection lost at write {n}"));
            }
            Err((_, e)) => return Err(format!("write {n}: {e}")),
        }
    }
    Ok(format!("{n} writes"))
}

/// Says what of the writes is there: all up to some point not before the last sync, and none after.
pub fn scattered(dir: &Path, log: &Path, seed: u64, mib: u64) -> Done {
    let text = |e: std::io::Error| format!("read: {e}");
    let (begun, durable) = Progress::load(log).map_err(text)?;
    let file = File::open(dir.join("scattered")).map_err(text)?;
    let blocks = (mib << 20) / BLOCK as u64;
    if file.metadata().map_err(text)?.len() != mib << 20 {
        return Err("the file has not its length".into());
    }
    let mut found = vec![0; blocks as usize];
    let (mut block, mut want) = ([0; BLOCK], [0; BLOCK]);
    for (at, found) in found.iter_mut().enumerate() {
        file.read_exact_at(&mut block, (at * BLOCK) as u64).map_err(text)?;
        let n = u64::from_le_bytes(block[..8].try_into().map_err(|_| "8 bytes")?);
        if n == 0 {
            want.fill(0);
        } else {
            stamp(&mut want, seed, n);
        }
        if block != want || n > begun || n > 0 && mix(seed, n) % blocks != at as u64 {
            return Err(format!("block {at} is no write of {begun}, it says {n}"));
        }
        *found = n;
    }
    let last = found.iter().copied().max().unwrap_or(0);
    let mut want = vec![0; blocks as usize];
    (1..=last).for_each(|n| want[(mix(seed, n) % blocks) as usize] = n);
    let wrong: Vec<_> = (0..blocks as usize).filter(|&at| want[at] != found[at]).collect();
    if let Some(&at) = wrong.first() {
        let (count, w, f) = (wrong.len(), want[at], found[at]);
        return Err(format!(
            "{count} blocks are not of {last} writes; block {at} is of write {f} instead of {w}"
        ));
    }
    if last < durable {
        return Err(format!("{last} writes are there, {durable} were synced"));
    }
    Ok(format!("{durable} <= {last} <= {begun}"))
}
