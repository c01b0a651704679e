//! What a program asked of the kernel, as strace saw it: transfers and syncs of files below a directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Transfers and syncs, as job files of fio make them.
const TRANSFERS: &str = "pread64,pwrite64,preadv,pwritev,preadv2,pwritev2,read,write,lseek,fsync,fdatasync,io_submit,mmap,msync,\
                         ioctl";

/// A transfer or a sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// read, write, fsync, fdatasync; trim of a device; map, msync of a mapped file.
    pub kind: &'static str,
    /// The file's name below the directory.
    pub file: String,
    /// Where.
    pub offset: u64,
    /// How much was moved.
    pub bytes: u64,
}

/// Runs a program under strace; the calls of each of its threads, in order, of those that made any.
///
/// # Errors
///
/// The program failed: what it said.
pub fn of(command: &Command, directory: &Path, logs: &Path) -> Result<Vec<Vec<Call>>, String> {
    let threads = needs::strace(command, TRANSFERS, logs)?;
    Ok(threads.values().map(|log| parse(log, directory)).filter(|calls| !calls.is_empty()).collect())
}

/// The calls of a log.
fn parse(text: &str, directory: &Path) -> Vec<Call> {
    let (mut calls, mut positions, mut mapped) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        let Some((name, rest)) = line.split_once('(') else { continue };
        let Some((arguments, result)) = rest.rsplit_once(" = ") else { continue };
        let answer = result;
        let result: i64 = result.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(-1);
        let words: Vec<&str> = arguments.trim_end_matches(')').split(", ").collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
        if name == "mmap" {
            if let Some(file) = file_of(arguments, directory) {
                mapped.insert(answer.to_string(), file.clone());
                calls.push(Call { kind: "map", file, offset: number(5), bytes: number(1) });
            }
            continue;
        }
        if name == "msync" {
            let file = words.first().and_then(|address| mapped.get(*address)).cloned().unwrap_or_default();
            calls.push(Call { kind: "msync", file, offset: 0, bytes: number(1) });
            continue;
        }
        if name == "io_submit" {
            calls.extend(submitted(arguments, result, directory));
            continue;
        }
        let Some(file) = file_of(arguments, directory) else { continue };
        let last = arguments.trim_end_matches(')').rsplit(", ").next().unwrap_or("");
        let kind = match name {
            "pread64" | "read" | "preadv" | "preadv2" => "read",
            "pwrite64" | "write" | "pwritev" | "pwritev2" => "write",
            "ioctl" if arguments.contains("BLKDISCARD") => {
                let range: Vec<u64> = arguments.split(['[', ']']).nth(1).map_or(Vec::new(), |range| {
                    range.split(", ").filter_map(|word| word.parse().ok()).collect()
                });
                let [offset, bytes] = range[..] else { continue };
                calls.push(Call { kind: "trim", file, offset, bytes });
                continue;
            }
            "fsync" => "fsync",
            "fdatasync" => "fdatasync",
            "lseek" => {
                positions.insert(file, result.max(0) as u64);
                continue;
            }
            _ => continue,
        };
        let bytes = if kind.ends_with("sync") { 0 } else { result.max(0) as u64 };
        let offset = match name {
            "pread64" | "pwrite64" | "preadv" | "pwritev" => last.parse().unwrap_or(0),
            // the flags stand behind the offset
            "preadv2" | "pwritev2" => {
                words.iter().rev().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
            }
            "read" | "write" => {
                let position = positions.entry(file.clone()).or_insert(0);
                *position += bytes;
                *position - bytes
            }
            _ => 0,
        };
        calls.push(Call { kind, file, offset, bytes });
    }
    calls
}

/// What a call of io_submit, which took `result` of them, submitted.
pub fn submitted<'a>(
    arguments: &'a str,
    result: i64,
    directory: &'a Path,
) -> impl Iterator<Item = Call> + 'a {
    let blocks = arguments.split("{aio_data").skip(1).take(result.max(0) as usize);
    blocks.filter_map(move |block| of_block(block, directory))
}

fn of_block(block: &str, directory: &Path) -> Option<Call> {
    let field = |name: &str| {
        let rest = &block[block.find(name)? + name.len()..];
        rest.split([',', '}', ']']).next()
    };
    let kind = match field("aio_lio_opcode=")? {
        "IOCB_CMD_PREAD" => "read",
        "IOCB_CMD_PWRITE" => "write",
        _ => return None,
    };
    Some(Call {
        kind,
        file: file_of(&block[block.find("aio_fildes=")?..], directory)?,
        offset: field("aio_offset=").and_then(|word| word.parse().ok()).unwrap_or(0),
        bytes: field("aio_nbytes=").and_then(|word| word.parse().ok()).unwrap_or(0),
    })
}

/// The first path in angle brackets that lies below the directory: its first component there.
fn file_of(text: &str, directory: &Path) -> Option<String> {
    let path = &text[text.find('<')? + 1..];
    let path = path.strip_prefix(directory.to_str()?)?.strip_prefix('/')?;
    Some(path.split(['/', '>', '<']).next()?.to_string())
}

/// Sums of calls.
#[derive(Debug, Default, PartialEq)]
pub struct Sums {
    /// Calls of each kind.
    pub calls: BTreeMap<String, u64>,
    /// Bytes of each kind.
    pub bytes: BTreeMap<String, u64>,
    /// Calls by kind and size.
    pub sizes: BTreeMap<String, u64>,
    /// Calls by kind, file and tenth of the file.
    pub places: BTreeMap<String, u64>,
}

impl Sums {
    /// Of the calls of all threads; `ends` are the ends of the files that places are told by.
    pub fn of(threads: &[Vec<Call>], ends: &BTreeMap<String, u64>) -> Sums {
        let mut sums = Sums::default();
        for call in threads.iter().flatten() {
            let add =
                |map: &mut BTreeMap<String, u64>, key: String, by: u64| *map.entry(key).or_insert(0) += by;
            add(&mut sums.calls, call.kind.to_string(), 1);
            if call.bytes > 0 {
                add(&mut sums.bytes, call.kind.to_string(), call.bytes);
                add(&mut sums.sizes, format!("{} of {}", call.kind, call.bytes), 1);
                let end = ends.get(&call.file).copied().unwrap_or(1).max(1);
                add(
                    &mut sums.places,
                    format!("{} {}/10 of {}", call.kind, call.offset * 10 / end, call.file),
                    1,
                );
            }
        }
        sums
    }
}

/// The ends of files as transfers reach them, and as both programs have them.
pub fn ends(threads: [&[Vec<Call>]; 2]) -> BTreeMap<String, u64> {
    let mut ends = BTreeMap::new();
    for call in threads.into_iter().flatten().flatten() {
        let end = ends.entry(call.file.clone()).or_insert(0);
        *end = (call.offset + call.bytes).max(*end);
    }
    ends
}
