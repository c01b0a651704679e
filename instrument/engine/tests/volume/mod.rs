//! Runs on a file system in this process.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::sync::Mutex;

use crate::common::{directory, ops, parse, run_in};
use engine::target::{OpenHow, Target};
use engine::volume::{InProcess, Volume};
use engine::{Control, Error, RunOptions, Stage};
use stats::Ended;
use workload::IoMode;

/// Files in memory: handles are numbers of files, which stay when their names go.
#[derive(Default)]
struct InMemory {
    state: Mutex<State>,
    /// Writes at an offset write half of what they are given.
    short: bool,
    /// Closing tells that a delayed write has failed.
    delays: bool,
}

#[derive(Default)]
struct State {
    /// Paths; `None` is a directory.
    names: BTreeMap<Vec<u8>, Option<u64>>,
    files: Vec<Vec<u8>>,
    syncs: usize,
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl InMemory {
    /// The names, a slash after those of directories.
    fn names(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        let name = |(path, file): (&Vec<u8>, &Option<u64>)| {
            String::from_utf8_lossy(path).into_owned() + if file.is_none() { "/" } else { "" }
        };
        state.names.iter().map(name).collect()
    }
}

impl Volume for InMemory {
    fn open(&self, path: &CStr, create: bool) -> io::Result<u64> {
        let mut state = self.state.lock().unwrap();
        match state.names.get(path.to_bytes()) {
            Some(Some(file)) => Ok(*file),
            Some(None) => Err(error(libc::EISDIR)),
            None if create => {
                state.files.push(Vec::new());
                let file = state.files.len() as u64 - 1;
                state.names.insert(path.to_bytes().to_vec(), Some(file));
                Ok(file)
            }
            None => Err(error(libc::ENOENT)),
        }
    }

    fn close(&self, _file: u64) -> io::Result<()> {
        if self.delays { Err(error(libc::EIO)) } else { Ok(()) }
    }

    fn read_at(&self, file: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.state.lock().unwrap();
        let data = state.files[file as usize].get(offset as usize..).unwrap_or_default();
        let length = data.len().min(buffer.len());
        buffer[..length].copy_from_slice(&data[..length]);
        Ok(length)
    }

    fn write_at(&self, file: u64, data: &[u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap();
        let there = &mut state.files[file as usize];
        let data = if self.short { &data[..data.len() / 2] } else { data };
        let end = offset as usize + data.len();
        if there.len() < end {
            there.resize(end, 0);
        }
        there[offset as usize..end].copy_from_slice(data);
        Ok(data.len())
    }

    fn append(&self, file: u64, data: &[u8]) -> io::Result<usize> {
        self.state.lock().unwrap().files[file as usize].extend_from_slice(data);
        Ok(data.len())
    }

    fn fsync(&self, _file: u64) -> io::Result<()> {
        self.sync()
    }

    fn truncate(&self, file: u64, length: u64) -> io::Result<()> {
        self.state.lock().unwrap().files[file as usize].resize(length as usize, 0);
        Ok(())
    }

    fn size(&self, file: u64) -> io::Result<u64> {
        Ok(self.state.lock().unwrap().files[file as usize].len() as u64)
    }

    fn stat(&self, path: &CStr) -> io::Result<u64> {
        let file = match self.state.lock().unwrap().names.get(path.to_bytes()) {
            Some(Some(file)) => *file,
            Some(None) => return Ok(0),
            None => return Err(error(libc::ENOENT)),
        };
        self.size(file)
    }

    fn unlink(&self, path: &CStr) -> io::Result<()> {
        let gone = self.state.lock().unwrap().names.remove(path.to_bytes());
        gone.map(|_| ()).ok_or_else(|| error(libc::ENOENT))
    }

    fn make_dir(&self, path: &CStr) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        match state.names.insert(path.to_bytes().to_vec(), None) {
            Some(_) => Err(error(libc::EEXIST)),
            None => Ok(()),
        }
    }

    fn remove_dir(&self, path: &CStr) -> io::Result<()> {
        let below = [path.to_bytes(), b"/"].concat();
        if self.state.lock().unwrap().names.keys().any(|name| name.starts_with(&below)) {
            return Err(error(libc::ENOTEMPTY));
        }
        self.unlink(path)
    }

    fn list_dir(&self, path: &CStr, each: &mut dyn FnMut(&[u8], bool)) -> io::Result<()> {
        let state = self.state.lock().unwrap();
        let path = path.to_bytes();
        let below = [path.strip_suffix(b"/").unwrap_or(path), b"/"].concat();
        for (name, file) in &state.names {
            match name.strip_prefix(&below[..]) {
                Some(rest) if !rest.contains(&b'/') => each(rest, file.is_none()),
                _ => {}
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.state.lock().unwrap().syncs += 1;
        Ok(())
    }

    fn free_bytes(&self) -> u64 {
        1 << 30
    }
}

#[test]
fn asynchronous_writes_tell_their_failure_when_they_are_waited_for() {
    let (volume, control) = (InMemory { short: true, ..InMemory::default() }, Control::new());
    let target = InProcess::new(&volume, &control);
    engine::exec::block_on(async {
        let file = target.open(c"f", OpenHow { create: true, ..OpenHow::default() }).await.unwrap();
        target.aio_write(&file, b"abcd", 0).await.unwrap();
        assert_eq!(target.aio_outstanding(), 1);
        assert_eq!(target.aio_wait(1).await.unwrap_err().kind(), io::ErrorKind::WriteZero);
        assert_eq!(target.aio_outstanding(), 0);
        assert_eq!(target.aio_wait(1).await.unwrap(), 0);
    });
}

/// What fails after the last operation is a failure of the run: an asynchronous write, and a delayed one that closing tells of.
#[test]
fn failures_after_the_last_operation_are_told() {
    let text = |write: &str| {
        format!(
            "define file name=f,path=/x,size=64k,prealloc\ndefine process name=p {{ thread name=t {{ \
             flowop {write} name=w,filename=f,iosize=1k,fd=1 }} }}\nrun 60\n"
        )
    };
    for (write, options, message) in [
        ("aiowrite", RunOptions { stage: Stage::Measure, ..ops(1) }, "write zero"),
        ("write", RunOptions { stage: Stage::Measure, ..ops(1) }, "Input/output error"),
    ] {
        let parsed = parse(&text(write));
        let mut volume = InMemory::default();
        let prepare = RunOptions { stage: Stage::Prepare, ..ops(1) };
        engine::run_on(&parsed, &volume, &prepare, &Control::new(), &mut |_| {}).expect("the files");
        (volume.short, volume.delays) = (write == "aiowrite", write == "write");
        let outcome =
            engine::run_on(&parsed, &volume, &options, &Control::new(), &mut |_| {}).expect("the run");
        let Ended::Failed { message: told } = &outcome.ended else { panic!("{write}: {:?}", outcome.ended) };
        assert!(told.contains(message) && told.contains("t-1"), "{told}");
    }
}

/// Creates, appends, reads, lists, syncs, removes; draws sizes and files at random.
const MIXED: &str = "set $s=cvar(type=cvar-gamma,parameters=mean:4096;gamma:1.5)\n\
    define fileset name=a,path=/x,size=$s,entries=60,dirwidth=7,prealloc=60\n\
    define fileset name=b,path=/x,size=8k,entries=10,leafdirs=5,dirwidth=5,prealloc\n\
    define process name=p { thread name=t {\n\
    flowop createfile name=c,filesetname=a,fd=1\nflowop appendfilerand name=w,iosize=9k,fd=1\n\
    flowop fsync name=s,fd=1\nflowop closefile name=x,fd=1\nflowop deletefile name=d,filesetname=a\n\
    flowop openfile name=o,filesetname=b,fd=1\nflowop write name=r,fd=1,iosize=4k,random\n\
    flowop closefile name=y,fd=1\nflowop statfile name=st,filesetname=b\n\
    flowop listdir name=l,filesetname=b\n} }\nrun 60\n";

#[test]
fn a_volume_ends_up_with_what_a_directory_does() {
    let options = RunOptions { seed: 9, ..ops(507) };
    let directory = directory();
    let (expected, _) = run_in(directory.path(), MIXED, &options);
    let volume = InMemory::default();
    let outcome =
        engine::run_on(&parse(MIXED), &volume, &options, &Control::new(), &mut |_| {}).expect("the run");
    assert_eq!((&outcome.ended, &expected.ended), (&Ended::OpsReached, &Ended::OpsReached));
    let counts = |outcome: &stats::Outcome| -> Vec<_> {
        outcome.ops.iter().map(|op| (op.name.clone(), op.ops, op.bytes)).collect()
    };
    assert_eq!(counts(&outcome), counts(&expected));
    let state = volume.state.lock().unwrap();
    let mut files = 0;
    for (path, file) in &state.names {
        let there = directory.path().join(String::from_utf8(path.clone()).unwrap());
        match file {
            None => assert!(there.is_dir(), "{}", there.display()),
            Some(file) => {
                files += 1;
                let bytes =
                    std::fs::read(&there).unwrap_or_else(|error| panic!("{}: {error}", there.display()));
                assert_eq!(state.files[*file as usize], bytes, "{}", there.display());
            }
        }
    }
    assert!(files > 10);
    let on_disk = walk(directory.path());
    assert_eq!(on_disk, state.names.len());
    assert!(state.syncs > 10);
}

/// Number of entries below a directory.
fn walk(path: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
    entries.map(|entry| 1 + if entry.path().is_dir() { walk(&entry.path()) } else { 0 }).sum()
}

#[test]
fn a_second_run_starts_from_an_empty_tree() {
    let volume = InMemory::default();
    for _ in 0..2 {
        engine::run_on(&parse(MIXED), &volume, &ops(50), &Control::new(), &mut |_| {}).expect("the run");
    }
    let other = InMemory::default();
    engine::run_on(&parse(MIXED), &other, &ops(50), &Control::new(), &mut |_| {}).expect("the run");
    assert_eq!(volume.names(), other.names());
}

#[test]
fn what_needs_the_kernel_is_refused() {
    let volume = InMemory::default();
    let refused = |text: &str, options: &RunOptions| match engine::run_on(
        &parse(text),
        &volume,
        options,
        &Control::new(),
        &mut |_| {},
    ) {
        Err(Error::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    let uring = RunOptions { io: IoMode::Uring { depth: 4 }, ..ops(50) };
    assert!(refused(MIXED, &uring).contains("io_uring"));
    let shell = MIXED.replace("run 60", "system \"true\"\nrun 60");
    let allowed = RunOptions { allow_system: true, ..ops(50) };
    assert!(refused(&shell, &allowed).contains("mounted"));
}
