//! The flows: each as WML for the engine, and as the same system calls written out.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::Context;
use engine::{Control, RunOptions, Stage};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::ReadWriteFlags;
use workload::{Fileset, Layout, Workload};

use crate::pairs::Pairs;

/// A loop body; returns the operations that one turn of it made.
type Body = Box<dyn FnMut() -> u64>;

/// A flow to measure.
pub struct Case {
    /// Name.
    pub name: &'static str,
    /// The ratio to reach.
    pub target: f64,
    /// The flow in WML; `$threads` is set from outside.
    wml: &'static str,
    /// The same calls.
    body: fn(&Files, usize, usize) -> Body,
}

/// Every case.
pub const ALL: &[Case] = &[
    Case { name: "varmail", target: 0.95, wml: VARMAIL, body: varmail },
    Case { name: "webserver", target: 0.95, wml: WEBSERVER, body: webserver },
    Case { name: "fileserver", target: 0.95, wml: FILESERVER, body: fileserver },
    Case { name: "statfile", target: 0.90, wml: STATFILE, body: statfile },
    Case { name: "openfile+closefile", target: 0.90, wml: OPENCLOSE, body: openclose },
    Case { name: "pread 1 byte random", target: 0.80, wml: PREAD, body: pread_one },
];

const VARMAIL: &str = "
set $threads=16
define fileset name=mail,path=/x,size=cvar-free,entries=10000,dirwidth=1000000,prealloc=80
define process name=p {
  thread name=t,memsize=1m,instances=$threads {
    flowop deletefile name=delete,filesetname=mail
    flowop createfile name=create,filesetname=mail,fd=1
    flowop appendfilerand name=append1,iosize=16k,fd=1
    flowop fsync name=sync1,fd=1
    flowop closefile name=close1,fd=1
    flowop openfile name=open2,filesetname=mail,fd=1
    flowop readwholefile name=read2,fd=1,iosize=1m
    flowop appendfilerand name=append2,iosize=16k,fd=1
    flowop fsync name=sync2,fd=1
    flowop closefile name=close2,fd=1
    flowop openfile name=open3,filesetname=mail,fd=1
    flowop readwholefile name=read3,fd=1,iosize=1m
    flowop closefile name=close3,fd=1
  }
}
";

const WEBSERVER: &str = "
set $threads=16
define fileset name=pages,path=/x,size=16k,entries=1000,dirwidth=20,prealloc,readonly
define fileset name=logs,path=/x,size=16k,entries=1,dirwidth=20,prealloc
define flowop name=get {
  flowop openfile name=open,filesetname=pages,fd=1
  flowop readwholefile name=read,fd=1,iosize=1m
  flowop closefile name=close,fd=1
}
define process name=p {
  thread name=t,memsize=1m,instances=$threads {
    flowop get name=gets,iters=10
    flowop appendfilerand name=log,filesetname=logs,iosize=16k,fd=2
  }
}
";

const FILESERVER: &str = "
set $threads=16
define fileset name=files,path=/x,size=128k,entries=2000,dirwidth=20,prealloc=80
define process name=p {
  thread name=t,memsize=1m,instances=$threads {
    flowop createfile name=create,filesetname=files,fd=1
    flowop writewholefile name=write,srcfd=1,fd=1,iosize=1m
    flowop closefile name=close1,fd=1
    flowop openfile name=open2,filesetname=files,fd=1
    flowop appendfilerand name=append,iosize=16k,fd=1
    flowop closefile name=close2,fd=1
    flowop openfile name=open3,filesetname=files,fd=1
    flowop readwholefile name=read,fd=1,iosize=1m
    flowop closefile name=close3,fd=1
    flowop deletefile name=delete,filesetname=files
    flowop statfile name=stat,filesetname=files
  }
}
";

const STATFILE: &str = "
set $threads=1
define fileset name=files,path=/x,size=1k,entries=1000,dirwidth=20,prealloc
define process name=p { thread name=t,instances=$threads { flowop statfile name=stat,filesetname=files } }
";

const OPENCLOSE: &str = "
set $threads=1
define fileset name=files,path=/x,size=1k,entries=1000,dirwidth=20,prealloc
define process name=p {
  thread name=t,instances=$threads {
    flowop openfile name=open,filesetname=files,fd=1
    flowop closefile name=close,fd=1
  }
}
";

const PREAD: &str = "
set $threads=1
define file name=file,path=/x,size=64m,prealloc
define process name=p {
  thread name=t,instances=$threads { flowop read name=read,filename=file,iosize=1,random }
}
";

/// The files of a case, for the bare loops.
pub struct Files {
    root: OwnedFd,
    /// Paths of the files that exist, for each fileset.
    sets: Vec<Vec<CString>>,
}

/// Measures one case with this many threads.
pub fn measure(case: &Case, threads: usize, pairs: &Pairs, tmpfs: &Path) -> anyhow::Result<()> {
    let directory = tempfile::Builder::new()
        .prefix("loadline-bench-")
        .tempdir_in(tmpfs)
        .with_context(|| format!("cannot make a directory in {}", tmpfs.display()))?;
    let text = case.wml.replace("size=cvar-free", "size=randvar(type=gamma,mean=16384,gamma=1500)");
    let text = inline_randvar(&text);
    let workload = load(&text, threads)?;
    let ours = |seconds: f64| engine_run(&workload, directory.path(), seconds);
    let theirs = |seconds: f64| {
        // The same files: the bare loop makes its own tree anew, as the engine does for each run.
        let files = prepare(&workload, directory.path())?;
        let body = case.body;
        Ok(crate::bare::run(threads, seconds, |thread| body(&files, thread, threads)))
    };
    pairs.run(&format!("{}, {threads} thr", case.name), case.target, ours, theirs)
}

/// A random variable cannot stand in an attribute; it gets a name.
fn inline_randvar(text: &str) -> String {
    match text.find("size=randvar(") {
        Some(at) => {
            let end = at + text[at..].find(')').expect("written above") + 1;
            let value = &text[at + "size=".len()..end];
            format!("set $drawn={value}\n{}size=$drawn{}", &text[..at], &text[end..])
        }
        None => text.to_owned(),
    }
}

/// Parses WML; `$threads` is set to `threads`.
pub fn load(text: &str, threads: usize) -> anyhow::Result<Workload> {
    let settings = wml::Settings {
        machine: wml::Machine { ram_bytes: 8 << 30, cores: 2, free_bytes: 8 << 30 },
        set: vec![("threads".into(), threads.to_string())],
        name: "bench".into(),
    };
    match wml::load(text.as_bytes(), &settings) {
        Ok(loaded) => Ok(loaded.workload),
        Err(errors) => anyhow::bail!("{}", errors.render("bench.f", text.as_bytes(), false)),
    }
}

/// One run of the engine; operations per second.
pub fn engine_run(workload: &Workload, root: &Path, seconds: f64) -> anyhow::Result<f64> {
    let options = RunOptions { seconds: Some(seconds), settle: false, ..RunOptions::default() };
    engine_run_with(workload, root, &options)
}

/// One run of the engine with these options; operations per second.
pub fn engine_run_with(workload: &Workload, root: &Path, options: &RunOptions) -> anyhow::Result<f64> {
    Ok(outcome(workload, root, options)?.io_ops_per_second())
}

/// What one run of the engine with these options came to.
pub fn outcome(workload: &Workload, root: &Path, options: &RunOptions) -> anyhow::Result<stats::Outcome> {
    let outcome = engine::run(workload, root, options, &Control::new(), &mut |_| {})?;
    anyhow::ensure!(
        matches!(outcome.ended, stats::Ended::TimeUp),
        "the run ended otherwise than by its time: {:?}",
        outcome.ended
    );
    Ok(outcome)
}

fn prepare(workload: &Workload, root: &Path) -> anyhow::Result<Files> {
    let options = RunOptions { stage: Stage::Prepare, settle: false, ..RunOptions::default() };
    engine::run(workload, root, &options, &Control::new(), &mut |_| {})?;
    let sets = workload
        .filesets
        .iter()
        .map(|fileset| paths(workload, fileset, options.seed))
        .collect::<Result<_, _>>()?;
    let root = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    Ok(Files { root, sets })
}

fn paths(workload: &Workload, fileset: &Fileset, seed: u64) -> anyhow::Result<Vec<CString>> {
    let layout = Layout::build(fileset, &workload.draws, seed)?;
    let mut files: Vec<usize> = layout.initial_files(fileset.prealloc_percent, seed).order().collect();
    files.sort_unstable();
    files
        .into_iter()
        .map(|file| Ok(CString::new(format!("{}/{}", fileset.name, layout.file_path(file)))?))
        .collect()
}

/// What every loop body needs.
struct Hand {
    root: BorrowedFd<'static>,
    buffer: Vec<u8>,
    random: u64,
}

impl Hand {
    fn new(files: &Files, thread: usize) -> Hand {
        // SAFETY: the descriptor outlives the loops: `Files` lives until they have ended.
        let root = unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&files.root)) };
        Hand { root, buffer: vec![7; 1 << 20], random: 88_172_645_463_325_252 + thread as u64 * 7919 }
    }

    /// Marsaglia's xorshift.
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn open(&self, path: &CString, flags: OFlags) -> OwnedFd {
        rustix::fs::openat(self.root, path.as_c_str(), flags, Mode::from_raw_mode(0o666)).expect("open")
    }

    fn append(&mut self, file: &OwnedFd) {
        let size = self.next() as usize % (16 << 10) + 1;
        let data = [std::io::IoSlice::new(&self.buffer[..size])];
        rustix::io::pwritev2(file, &data, 0, ReadWriteFlags::APPEND).expect("append");
    }

    fn read_whole(&mut self, file: &OwnedFd) {
        let mut at = 0;
        loop {
            match rustix::io::pread(file, &mut self.buffer, at).expect("read") {
                0 => return,
                got => at += got as u64,
            }
        }
    }
}

/// All files, each thread beginning elsewhere: the same working set as the engine's, whose threads share one rotation.
fn rotation(files: &[CString], thread: usize, threads: usize) -> Vec<CString> {
    let mut rotation = files.to_vec();
    rotation.rotate_left(files.len() * thread / threads);
    rotation
}

/// Every `threads`-th file from `thread` on: what a thread may delete is its own.
fn share(files: &[CString], thread: usize, threads: usize) -> Vec<CString> {
    let mut share: Vec<CString> = files.iter().skip(thread).step_by(threads).cloned().collect();
    // A rotation of threes must not meet the same roles each time round.
    if share.len().is_multiple_of(3) {
        share.pop();
    }
    share
}

/// Which of the next files in turn gets which role: at random, as it comes out where files come and go. (Fixed roles would
/// give every file one append in its life; by chance it is one on average, and the files that are read are larger.)
fn roles<const N: usize>(hand: &mut Hand) -> [usize; N] {
    let mut roles = std::array::from_fn(|role| role);
    for role in (1..N).rev() {
        roles.swap(role, hand.next() as usize % (role + 1));
    }
    roles
}

fn varmail(files: &Files, thread: usize, threads: usize) -> Body {
    let mut hand = Hand::new(files, thread);
    let own = share(&files.sets[0], thread, threads);
    let mut at = 0;
    Box::new(move || {
        let [a, b, c] = roles::<3>(&mut hand).map(|role| (at + role) % own.len());
        at += 3;
        rustix::fs::unlinkat(hand.root, own[a].as_c_str(), AtFlags::empty()).expect("unlink");
        let file = hand.open(&own[a], OFlags::RDWR | OFlags::CREATE);
        hand.append(&file);
        rustix::fs::fsync(&file).expect("fsync");
        drop(file);
        let file = hand.open(&own[b], OFlags::RDWR);
        hand.read_whole(&file);
        hand.append(&file);
        rustix::fs::fsync(&file).expect("fsync");
        drop(file);
        let file = hand.open(&own[c], OFlags::RDWR);
        hand.read_whole(&file);
        13
    })
}

fn webserver(files: &Files, thread: usize, threads: usize) -> Body {
    let mut hand = Hand::new(files, thread);
    let pages = rotation(&files.sets[0], thread, threads);
    let log = hand.open(&files.sets[1][0], OFlags::RDWR);
    let mut at = 0;
    Box::new(move || {
        for _ in 0..10 {
            let file = hand.open(&pages[at % pages.len()], OFlags::RDONLY);
            at += 1;
            hand.read_whole(&file);
        }
        hand.append(&log);
        31
    })
}

fn fileserver(files: &Files, thread: usize, threads: usize) -> Body {
    let mut hand = Hand::new(files, thread);
    let own = share(&files.sets[0], thread, threads);
    let (mut at, mut gone) = (1, 0);
    rustix::fs::unlinkat(hand.root, own[gone].as_c_str(), AtFlags::empty()).expect("unlink");
    Box::new(move || {
        let [append, read, delete, stat] = roles::<4>(&mut hand).map(|role| (at + role) % own.len());
        at += 4;
        let file = hand.open(&own[gone], OFlags::RDWR | OFlags::CREATE);
        rustix::io::pwrite(&file, &hand.buffer[..128 << 10], 0).expect("write");
        drop(file);
        let file = hand.open(&own[append], OFlags::RDWR);
        hand.append(&file);
        drop(file);
        let file = hand.open(&own[read], OFlags::RDWR);
        hand.read_whole(&file);
        drop(file);
        rustix::fs::statat(hand.root, own[stat].as_c_str(), AtFlags::empty()).expect("stat");
        rustix::fs::unlinkat(hand.root, own[delete].as_c_str(), AtFlags::empty()).expect("unlink");
        gone = delete;
        11
    })
}

/// Calls in one turn of a loop whose call is cheap, so that the loop itself costs nothing.
const BATCH: u64 = 64;

fn statfile(files: &Files, thread: usize, threads: usize) -> Body {
    let hand = Hand::new(files, thread);
    let own = rotation(&files.sets[0], thread, threads);
    let mut at = 0;
    Box::new(move || {
        for _ in 0..BATCH {
            at = if at + 1 == own.len() { 0 } else { at + 1 };
            std::hint::black_box(
                rustix::fs::statat(hand.root, own[at].as_c_str(), AtFlags::empty()).expect("stat"),
            );
        }
        BATCH
    })
}

fn openclose(files: &Files, thread: usize, threads: usize) -> Body {
    let hand = Hand::new(files, thread);
    let own = rotation(&files.sets[0], thread, threads);
    let mut at = 0;
    Box::new(move || {
        for _ in 0..BATCH {
            at = if at + 1 == own.len() { 0 } else { at + 1 };
            drop(hand.open(&own[at], OFlags::RDWR));
        }
        2 * BATCH
    })
}

fn pread_one(files: &Files, thread: usize, _threads: usize) -> Body {
    let mut hand = Hand::new(files, thread);
    let file = hand.open(&files.sets[0][0], OFlags::RDWR);
    Box::new(move || {
        for _ in 0..BATCH {
            let at = hand.next() % (64 << 20);
            rustix::io::pread(&file, &mut hand.buffer[..1], at).expect("read");
        }
        BATCH
    })
}
