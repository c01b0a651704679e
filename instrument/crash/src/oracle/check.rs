//! Comparing what is found with what must and may be there.

use std::collections::{BTreeMap, BTreeSet};

use super::breach::{Breach, Kind, Weakness, Window};
use super::timeline::{Binding, Line, Timeline, last_before};
use super::tree::{Node, Tree};
use crate::recording::BLOCK;
use crate::workload::data::{SECTOR, Sector};
use crate::workload::parent;

/// Sectors of a block, which file systems write as a whole.
const BLOCK_SECTORS: u32 = (BLOCK / SECTOR) as u32;

/// Compares what is found with a script of which some part had been done.
pub fn check(timeline: &Timeline, window: Window, tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    // per path, the files that it may be
    let mut found: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for path in timeline.names.keys().chain(tree.nodes.keys()).collect::<BTreeSet<_>>() {
        match name(timeline, window, path, tree.nodes.get(path)) {
            Ok(files) => {
                found.insert(path, files);
            }
            Err(breach) => breaches.push(breach),
        }
    }
    // what cannot be told apart by name is only worth a word if all names are fine by themselves
    if breaches.is_empty() {
        for (file, line) in timeline.files.iter().enumerate() {
            let at: Vec<&str> =
                found.iter().filter(|(_, files)| files.contains(&(file as u32))).map(|(p, _)| *p).collect();
            let surely: Vec<&str> = at.iter().filter(|p| found[**p].len() == 1).copied().collect();
            breaches.extend(existence(line, window, &at));
            breaches.extend(together(line, window, &surely));
        }
    }
    if breaches.is_empty() {
        breaches.extend(timeline.states.as_ref().and_then(|states| states.check(window, tree)));
    }
    breaches.sort_by_key(|breach| breach.kind);
    breaches
}

/// Judges one name; the files that it may be.
fn name(
    timeline: &Timeline,
    window: Window,
    path: &str,
    node: Option<&Node>,
) -> Result<BTreeSet<u32>, Breach> {
    let Some(name) = timeline.names.get(path) else {
        return match node {
            Some(Node::Unreadable(why)) => Err(Breach::new(Kind::Unreadable, format!("{path}: {why}"))),
            _ => Err(Breach::new(Kind::Strange, format!("{path} was never made"))),
        };
    };
    let synced = last_before(&name.syncs, window.must);
    let then = synced.map_or(Binding::Absent, |op| name.after(op));
    let is_later = |op: usize| synced.is_none_or(|s| op > s) && op < window.may;
    let later: Vec<Binding> = name.bindings.iter().filter(|(op, _)| is_later(*op)).map(|(_, b)| *b).collect();
    let allowed: BTreeSet<Binding> = later.iter().copied().chain([then]).collect();
    let wrong = |what: &str| {
        let replaced =
            later.iter().any(|b| matches!(b, Binding::File(_))) && !allowed.contains(&Binding::Absent);
        let kind = if replaced { Kind::NotAtomic } else { Kind::Lost };
        let since = synced.map_or(String::new(), |op| format!(" since operation {op}"));
        Err(Breach::new(kind, format!("{path} {what}{since}")))
    };
    match node {
        None if allowed.contains(&Binding::Absent) => Ok(BTreeSet::new()),
        None => wrong("is missing, and was synced"),
        Some(Node::Dir) if allowed.contains(&Binding::Dir) => Ok(BTreeSet::new()),
        Some(Node::Dir) => wrong("is a directory, and should not be"),
        Some(Node::Unreadable(why)) => Err(Breach::new(Kind::Unreadable, format!("{path}: {why}"))),
        Some(Node::File { bytes, sectors }) => {
            let judge = |bindings: &BTreeSet<Binding>| -> Vec<(u32, Result<(), Breach>)> {
                let files = bindings.iter().filter_map(|b| match b {
                    Binding::File(file) => Some(*file),
                    _ => None,
                });
                let line = |file: u32| &timeline.files[file as usize];
                files.map(|f| (f, contents(line(f), f, window, path, *bytes, sectors))).collect()
            };
            let judged = judge(&allowed);
            let fits: BTreeSet<u32> = judged.iter().filter(|(_, r)| r.is_ok()).map(|(f, _)| *f).collect();
            if !fits.is_empty() {
                return Ok(fits);
            }
            let older = name.bindings.iter().map(|(op, b)| (*op, *b)).filter(|(op, _)| Some(*op) < synced);
            let older = judge(&older.map(|(_, b)| b).collect());
            if !later.is_empty() && older.iter().any(|(_, r)| r.is_ok()) {
                return wrong("is the file that was there before the synced one")
                    .map_err(|b| b.known(Weakness::OlderFile));
            }
            // the most telling of the reasons is the one for the file that it seems to be
            let seems = sectors.iter().find_map(|s| match s {
                Sector::Data { file, .. } => Some(*file),
                _ => None,
            });
            let told = judged.iter().find(|(f, _)| Some(*f) == seems).or(judged.last());
            match told {
                Some((_, Err(breach))) => Err(breach.clone()),
                _ => wrong("is there, and should not be"),
            }
        }
    }
}

/// Judges the contents of a file.
fn contents(
    line: &Line,
    file: u32,
    window: Window,
    path: &str,
    bytes: u64,
    found: &[Sector],
) -> Result<(), Breach> {
    let synced = last_before(&line.data_syncs, window.must);
    let is_later = |op: usize| synced.is_none_or(|s| op > s) && op < window.may;
    let then = synced.map_or(0, |op| line.sectors_after(op));
    let later = || line.sizes.iter().filter(|(op, _)| is_later(*op)).map(|(_, sectors)| *sectors);
    let (least, most) = later().fold((then, then), |(a, b), s| (a.min(s), b.max(s)));
    let kib = |sectors: u32| f64::from(sectors) / 2.0;
    if bytes < u64::from(least) * SECTOR as u64 || bytes > u64::from(most) * SECTOR as u64 {
        let range =
            if least == most { format!("{}", kib(most)) } else { format!("{} to {}", kib(least), kib(most)) };
        let detail = format!("{path} has {} KiB, due are {range} KiB", bytes as f64 / 1024.0);
        return Err(Breach::new(Kind::Lost, detail));
    }
    let durable = durable_versions(line, synced, then);
    let shortest =
        line.cuts.iter().filter(|(op, _)| is_later(*op)).map(|(_, s)| *s).min().unwrap_or(then).min(then);
    let mut weak = None;
    for (place, sector) in (0..).zip(found) {
        let due = durable.get(place as usize).copied().unwrap_or(0);
        let (kind, what) = match *sector {
            Sector::Zero if due == 0 || place >= shortest => continue,
            Sector::Zero => (Kind::Lost, format!("zeroes instead of version {due}")),
            Sector::Data { file: f, version, place: p } if f == file && p == place => {
                let covers = |(op, v, at, n): &(usize, u32, u32, u32)| {
                    *v == version && is_later(*op) && (*at..at + n).contains(&place)
                };
                if version == due || line.writes.iter().any(covers) {
                    continue;
                }
                (Kind::Lost, format!("version {version} instead of {due}"))
            }
            Sector::Data { file: f, place: p, .. } if f == file => {
                (Kind::Stale, format!("what was written at {} KiB", kib(p)))
            }
            Sector::Data { file, .. } => (Kind::Stale, format!("data of another file (number {file})")),
            Sector::Stale => (Kind::Stale, "what lay in free space before".into()),
            Sector::Garbage => (Kind::Stale, "bytes that were never data".into()),
        };
        let breach = Breach::new(kind, format!("{path} at {} KiB holds {what}", kib(place)));
        let block = place / BLOCK_SECTORS * BLOCK_SECTORS..(place / BLOCK_SECTORS + 1) * BLOCK_SECTORS;
        let under_way = |(op, _, at, n): &(usize, u32, u32, u32)| {
            is_later(*op) && *at < block.end && at + n > block.start
        };
        // an older version that is gone would be a loss, also beside it in the block
        let nothing_due = block.clone().all(|at| durable.get(at as usize).is_none_or(|due| *due == 0));
        if *sector == Sector::Stale && nothing_due && line.writes.iter().any(under_way) {
            // what follows may be worse
            weak.get_or_insert(breach.known(Weakness::StaleUnsynced));
        } else {
            return Err(breach);
        }
    }
    weak.map_or(Ok(()), Err)
}

/// The version of each sector at the sync: 0 = zeroes.
fn durable_versions(line: &Line, synced: Option<usize>, sectors: u32) -> Vec<u32> {
    let Some(synced) = synced else { return Vec::new() };
    let mut versions = vec![0; sectors as usize];
    let cuts = line.cuts.iter().map(|(op, left)| (*op, None, *left, u32::MAX));
    let writes = line.writes.iter().map(|(op, version, at, n)| (*op, Some(*version), *at, at + n));
    let mut steps: Vec<_> = cuts.chain(writes).filter(|step| step.0 <= synced).collect();
    steps.sort_by_key(|step| step.0);
    for (_, version, from, to) in steps {
        for place in from..to.min(sectors) {
            versions[place as usize] = version.unwrap_or(0);
        }
    }
    versions
}

/// A file whose name was synced has a name, unless its last one was taken since.
fn existence(line: &Line, window: Window, at: &[&str]) -> Option<Breach> {
    let synced = last_before(&line.name_syncs, window.must)?;
    let i = line.names.partition_point(|(op, _)| *op <= synced).checked_sub(1)?;
    let since = line.names[i..].iter().take_while(|(op, _)| *op <= synced || *op < window.may);
    let mut names = BTreeSet::new();
    for (_, of_then) in since {
        if of_then.is_empty() {
            return None;
        }
        names.extend(of_then.iter().map(String::as_str));
    }
    let detail = || {
        let names: Vec<&str> = names.iter().copied().collect();
        format!("the file synced by operation {synced} is at none of its names: {}", names.join(", "))
    };
    at.is_empty().then(|| Breach::new(Kind::NotAtomic, detail()))
}

/// Two names of a file that never were its names together.
fn together(line: &Line, window: Window, at: &[&str]) -> Option<Breach> {
    let has = |set: &BTreeSet<String>, pair: [&str; 2]| pair.iter().all(|name| set.contains(*name));
    for (i, a) in at.iter().enumerate() {
        for b in &at[i + 1..] {
            let ever = line.names.iter().any(|(op, set)| *op < window.may && has(set, [a, b]));
            if !ever {
                let detail = format!("{a} and {b} are the same file: a rename left both names");
                let breach = Breach::new(Kind::NotAtomic, detail);
                let across = parent(a) != parent(b);
                return Some(if across { breach.known(Weakness::BothNames) } else { breach });
            }
        }
    }
    None
}
