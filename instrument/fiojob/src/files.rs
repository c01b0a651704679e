//! Which files jobs have, and how large: as fio lays them out, one job after the other.

use std::collections::HashMap;

use workload::stream::{QueueEngine, StreamFile, TransferDirection};
use workload::{Contents, Fileset, Value};

use crate::error::JobError;
use crate::iolog::{Iolog, LoggedFile};
use crate::options::{Amount, Job};

/// The files of all jobs.
#[derive(Default)]
pub struct Files {
    /// As the workload has them.
    pub filesets: Vec<Fileset>,
    by_name: HashMap<String, usize>,
    /// Of each fileset the streams' files, to be told its size at the end.
    sizes: Vec<u64>,
}

/// The files of a clone, and the bytes that it moves in a pass.
pub struct Part {
    /// Its files.
    pub files: Vec<StreamFile>,
    /// Bytes.
    pub bytes: u64,
}

impl Files {
    /// Lays out the files of a clone.
    pub fn of(&mut self, job: &Job, clone: u64) -> Result<Part, JobError> {
        let wrong = |message: String| JobError::new(job.line, format!("[{}]: {message}", job.name));
        let least = job.sizes[0].min().min(job.sizes[1].min());
        let largest = match job.way {
            TransferDirection::Read => job.sizes[0].min(),
            TransferDirection::Write | TransferDirection::Trim | TransferDirection::TrimWrite => {
                job.sizes[1].min()
            }
            TransferDirection::Mixed { .. } => least,
        };
        let total = match job.size {
            Some(Amount::Bytes(bytes)) => bytes,
            _ => 0,
        };
        let each = total / job.files;
        let mut larger =
            if least > 0 && job.filesize.is_none() { (total - each * job.files) / least } else { 0 };
        let mut part = Part { files: Vec::new(), bytes: 0 };
        for number in 0..job.files {
            let offset = offset(job, clone, each.max(job.filesize.unwrap_or(0)), least);
            let mut bytes = match job.filesize {
                Some(size) => {
                    size.checked_sub(offset).ok_or_else(|| wrong("offset lies behind the file".into()))?
                }
                None => each,
            };
            if larger > 0 {
                (larger, bytes) = (larger - 1, bytes + least);
            }
            if let Some(Amount::Percent(share)) = job.size {
                let size = bytes + offset;
                let wanted = ((u128::from(size) * u128::from(share) / 100) as u64).min(size - offset);
                bytes = wanted - wanted % least.max(1);
            }
            let size = match (job.filesize, job.size) {
                (Some(size), None | Some(Amount::Bytes(_))) => size,
                _ => bytes + offset,
            };
            let fileset = self.file(job, clone, number, size);
            part.bytes += bytes;
            part.files.push(StreamFile { fileset, offset, bytes, size });
        }
        if total > 0 && total < part.bytes {
            part.bytes = total;
        }
        if part.bytes < largest {
            return Err(wrong(format!("its files of {} bytes do not hold a block of {largest}", part.bytes)));
        }
        match job.io_size {
            Some(Amount::Bytes(bytes)) if bytes > 0 => part.bytes = bytes,
            Some(Amount::Percent(share)) => part.bytes = part.bytes * share / 100,
            _ => {}
        }
        Ok(part)
    }

    /// The files of a log that a job replays, which are there once however many jobs replay it.
    pub fn of_log(&mut self, job: &Job, log: &Iolog) -> Vec<StreamFile> {
        let place = |file: &LoggedFile| {
            let contents = contents(job, file.is_read);
            let fileset = match self.by_name.get(&file.name) {
                Some(&index) => index,
                // a relative path is never that of a device
                None => self.add(file.name.clone(), "", file.name.clone(), file.size, contents),
            };
            let known = &mut self.filesets[fileset];
            if contents == Contents::Data {
                known.contents = contents;
            }
            self.sizes[fileset] = self.sizes[fileset].max(file.size);
            known.size = Value::Int(self.sizes[fileset]);
            StreamFile { fileset, offset: 0, bytes: file.size, size: file.size }
        };
        log.files.iter().map(place).collect()
    }

    /// The file of that number, which is there once however many use it.
    fn file(&mut self, job: &Job, clone: u64, number: u64, size: u64) -> usize {
        let name = match job.names.get(number as usize) {
            Some(name) => name.clone(),
            // fio numbers the files of clones downwards
            None => {
                let number_of_clone = if clone == 0 { 0 } else { job.clones - clone };
                format!("{}.{number_of_clone}.{number}", job.name.replace('/', "-"))
            }
        };
        let contents = contents(job, job.way.reads());
        if let Some(&index) = self.by_name.get(&name) {
            // who needs more of it makes it anew
            if size > self.sizes[index] {
                self.sizes[index] = size;
                let known = &mut self.filesets[index];
                known.size = Value::Int(size);
                // what another job reads stays data
                if known.contents != Contents::Data {
                    known.contents = contents;
                }
            }
            return index;
        }
        let (path, file) = match name.strip_prefix("/dev/") {
            Some(device) => ("/dev", device.to_string()),
            None => ("/tmp", name.clone()),
        };
        self.add(name, path, file, size, contents)
    }

    /// A file `file` of the directory `path`, known by a name; its number.
    fn add(&mut self, name: String, path: &str, file: String, size: u64, contents: Contents) -> usize {
        self.filesets.push(Fileset {
            name: file,
            path: path.into(),
            single: true,
            entries: 1,
            leafdirs: 0,
            dir_width: Value::Int(1024),
            dir_gamma: 0.0,
            dir_depth: None,
            size: Value::Int(size),
            prealloc_percent: 100,
            parallel_alloc: true,
            reuse: false,
            trust_tree: false,
            read_only: false,
            write_only: false,
            contents,
        });
        self.sizes.push(size);
        self.by_name.insert(name, self.filesets.len() - 1);
        self.filesets.len() - 1
    }
}

/// Where a clone begins in a file of `size` bytes: shares are rounded up to the block.
fn offset(job: &Job, clone: u64, size: u64, block: u64) -> u64 {
    let (mut offset, mut rounds) = match job.offset {
        Amount::Bytes(bytes) => (bytes, false),
        Amount::Percent(share) => ((u128::from(size) * u128::from(share) / 100) as u64, true),
    };
    offset += clone
        * match job.offset_increment {
            Amount::Bytes(bytes) => bytes,
            Amount::Percent(share) => {
                rounds = true;
                (u128::from(size) * u128::from(share) / 100) as u64
            }
        };
    if rounds { offset.next_multiple_of(block.max(1)) } else { offset }
}

/// What a file of a job holds when the job begins.
fn contents(job: &Job, is_read: bool) -> Contents {
    match job.reserve {
        // a mapping does not make a file longer
        _ if is_read || job.overwrite || job.queue.engine == QueueEngine::Mapped => Contents::Data,
        reserve => reserve.contents(),
    }
}
