//! Recording: the workload runs on the real file system on an emulated SSD that notes every request.
//!
//! The order of marks and requests is exact: a mark is an entry of the device's own recording, made while the
//! workload waits. What an operation caused before it returned stands before its mark, because the device
//! notes a completion before the host hears of it. What the kernel writes by itself in between may stand on
//! either side, which is true on a real device as well.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use blockdev::record::{EventKind, Reader};
use blockdev::{AttachOptions, Attached};
use camino::Utf8Path;
use host::{Host, ProcessId};
use journal::Journal;
use spec::Device;
use stack::{Builder, MountedStack};

use crate::bring_up::default_bytes;
use crate::error::CrashError;
use crate::history::Contract;
use crate::options::{CrashOptions, Load, unique};
use crate::recording::{BLOCK, ContentId, Mark, Recording};
use crate::workload::{data, drive};

/// The mark at which the base image is taken, and the one at which the recording ends.
const BASE: &str = "base";
const END: &str = "end";
/// Size of a device for a workload of unknown size, when the stack gives none.
const CUSTOM_BYTES: u64 = 1 << 30;
/// The same for a user's program: smaller, since each state is checked whole, and no smaller than xfs can be.
const PROGRAM_BYTES: u64 = 320 << 20;

/// A recording and what it was made on.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) recording: Recording,
    pub(crate) contract: Contract,
    /// The device, for people.
    pub(crate) device: String,
    /// Free blocks filled with a pattern that must never be seen.
    pub(crate) poisoned: u64,
    /// The marks that a user's program has passed.
    pub(crate) marks: Vec<String>,
}

/// The device of a stack, and what it promises.
fn device(options: &CrashOptions, load: &Load) -> Result<(AttachOptions, Contract), CrashError> {
    let name = format!("crash-{}", unique());
    let bytes = match load {
        Load::Script(_) => default_bytes(options.spec.fs()),
        Load::Custom { .. } => CUSTOM_BYTES,
        Load::Program(_) => PROGRAM_BYTES,
    };
    let mut attach = match options.spec.device() {
        Device::Emulated { size, .. } => {
            let mut attach = stack::emulated::options(&options.spec, &name)?.unwrap_or_else(|| {
                // not reached: the device is an emulated one
                AttachOptions::new(&name, "ideal", bytes)
            });
            if size.is_none() {
                attach.bytes = bytes;
            }
            attach
        }
        Device::Image(image) => {
            let bytes = image.size.map_or(bytes, |size| size.bytes());
            let mut attach = AttachOptions::new(&name, "ideal", bytes);
            attach.regime = match options.spec.regime() {
                None => ssd::Regime::Flush,
                Some(regime) => ssd::Regime::parse(regime.name()).unwrap_or(ssd::Regime::Flush),
            };
            attach
        }
        other => {
            let what = format!(
                "{other} cannot be recorded: name an emulated SSD, such as {}@980pro",
                options.spec.fs().name()
            );
            return Err(CrashError::BadOption { what });
        }
    };
    // calibration would only add reads
    attach.compensate = false;
    attach.owner = ProcessId::current(&Host::system());
    let profile = if attach.profile.contains('/') || attach.profile.ends_with(".toml") {
        let text = std::fs::read_to_string(&attach.profile)
            .map_err(CrashError::io(format!("read profile {}", attach.profile)))?;
        ssd::Profile::parse(&attach.profile, &text)
    } else {
        ssd::Profile::named(&attach.profile)
    };
    let profile = profile.map_err(|error| blockdev::SsdError::Model(error.into()))?;
    let order_only = options.order_only;
    if order_only && !attach.regime.is_ordered() {
        let what =
            format!("flushes that only order need regime barrier or streams, not {}", attach.regime.name());
        return Err(CrashError::BadOption { what });
    }
    let contract = Contract { order_only, ..Contract::new(attach.regime, profile.power.plp) };
    if let Load::Program(program) = load
        && program.checker.is_some()
        && !contract.promises_durability()
    {
        let what = "a checker would be told of marks that this device need not keep: flushes make nothing durable here. \
                    Leave out --check, or name a device whose flushes count, such as 980pro:flush";
        return Err(CrashError::BadOption { what: what.into() });
    }
    Ok((attach, contract))
}

/// Records the workload; `dir` is a private directory.
pub(crate) fn record(
    options: &CrashOptions,
    load: &mut Load,
    journal: &Arc<Journal>,
    dir: &Utf8Path,
    stop: &AtomicBool,
) -> Result<Recorded, CrashError> {
    let (mut attach, contract) = device(options, load)?;
    let file = dir.join("requests");
    attach.record = Some(file.clone());
    let mut ssd = blockdev::attach(&options.home, &attach, &options.launcher)?;
    let worked = on_device(options, load, journal, dir, &ssd, stop);
    let detached = ssd.detach();
    let marks = worked?;
    detached?;
    let setup = match load {
        Load::Script(script) => script.setup,
        Load::Custom { .. } | Load::Program(_) => 0,
    };
    let mut recording = read(&file, Events::new(setup, contract))?;
    let _ = std::fs::remove_file(&file);
    let poisoned = poison(&mut recording);
    let size = spec::Size::from_bytes(attach.bytes);
    let flushes = if contract.order_only { ", flushes only order" } else { "" };
    let device = format!("{} of {size}, regime {}{flushes}", attach.profile, attach.regime.name());
    Ok(Recorded { recording, contract, device, poisoned, marks })
}

fn on_device(
    options: &CrashOptions,
    load: &mut Load,
    journal: &Arc<Journal>,
    dir: &Utf8Path,
    ssd: &Attached,
    stop: &AtomicBool,
) -> Result<Vec<String>, CrashError> {
    let builder = Builder { program: options.program.clone(), ..Builder::new(dir) };
    let stack = builder.build_on(&options.spec, ssd.device(), journal)?;
    let worked = work(load, &stack, ssd, dir, stop);
    let down = stack.teardown();
    let marks = worked?;
    down?;
    Ok(marks)
}

/// Writes everything that the kernel holds of a file system to its device.
fn sync(root: &Utf8Path) -> Result<(), CrashError> {
    let io = |what: String| CrashError::io(what);
    let dir = File::open(root).map_err(io(format!("open {root}")))?;
    rustix::fs::syncfs(&dir).map_err(|e| io(format!("sync {root}"))(e.into()))?;
    // which does not reach a FUSE file system
    dir.sync_all().map_err(io(format!("sync {root}")))
}

/// Carries out the load; the marks of a user's program.
fn work(
    load: &mut Load,
    stack: &MountedStack,
    ssd: &Attached,
    dir: &Utf8Path,
    stop: &AtomicBool,
) -> Result<Vec<String>, CrashError> {
    let root = stack.path();
    let note = |text: &str| ssd.mark(text).map(|_| ()).map_err(CrashError::from);
    let begin = || -> Result<(), CrashError> {
        let io = |what: String| CrashError::io(what);
        sync(root)?;
        let device = ssd.device();
        let flushed = File::options().write(true).open(device).and_then(|opened| opened.sync_all());
        flushed.map_err(io(format!("flush {device}")))?;
        note(BASE)
    };
    match load {
        Load::Script(script) => {
            drive(script, 0..script.setup, root, |_| Ok::<(), CrashError>(()))?;
            begin()?;
            drive(script, script.setup..script.ops.len(), root, |mark| match mark {
                Mark::Begin(op) => note(&format!("b {op}")),
                Mark::Return(op) => note(&format!("r {op}")),
            })?;
        }
        Load::Custom { prepare, run, .. } => {
            prepare(root).map_err(CrashError::Workload)?;
            begin()?;
            run(root).map_err(CrashError::Workload)?;
        }
        Load::Program(program) => {
            program.set_up(root, stop)?;
            begin()?;
            let marks = program.run((root, dir), stop, &mut |number| note(&format!("r {number}")))?;
            // what the kernel still holds is written one day, and the power may fail then too
            sync(root)?;
            note(END)?;
            program.check_uncut((root, dir), &marks, stop)?;
            return Ok(marks);
        }
    }
    note(END)?;
    Ok(Vec::new())
}

/// Blocks that the requests of a recording may change in all: the content of each is kept as a number of 4 bytes, so this is
/// 256 MiB of memory.
const BLOCKS_MAX: u64 = 1 << 26;

/// Blocks whose content a request changes.
fn written_blocks(what: &EventKind) -> u64 {
    match what {
        EventKind::Write { data, .. } => data.len().div_ceil(BLOCK) as u64,
        EventKind::Discard { length, .. } | EventKind::WriteZeroes { length, .. } => length / BLOCK as u64,
        _ => 0,
    }
}

/// Reads a device's recording: the base image up to its mark, then events up to the end's.
pub(crate) fn read(path: &Utf8Path, mut events: Events) -> Result<Recording, CrashError> {
    let reader = Reader::open(path)?;
    events.recording.blocks = reader.device_bytes() / BLOCK as u64;
    let mut blocks = 0u64;
    for event in reader {
        let what = event?.what;
        blocks = blocks.saturating_add(written_blocks(&what));
        if blocks > BLOCKS_MAX {
            let what =
                format!("it writes, discards and zeroes more than {} GiB", (BLOCKS_MAX * BLOCK as u64) >> 30);
            return Err(CrashError::Unusable { path: path.to_owned(), what });
        }
        if events.take(what) {
            return Ok(events.recording);
        }
    }
    Err(CrashError::Unusable { path: path.to_owned(), what: "its end is missing".into() })
}

enum Open {
    Write(u32),
    Flush(u32),
    /// Flushes from before the base: they promise nothing about what follows.
    Ignored,
}

/// Turns a device's events into a recording.
pub(crate) struct Events {
    recording: Recording,
    begun: bool,
    /// Before the base: writes that have not completed.
    early: HashMap<u64, (u64, Vec<ContentId>, bool)>,
    open: HashMap<u64, Open>,
    /// Where there are epochs: how many have ended, which is the one of what is submitted now.
    epoch: Option<u64>,
    /// Flushes end epochs and do nothing else.
    order_only: bool,
}

impl Events {
    pub(crate) fn new(setup: usize, contract: Contract) -> Events {
        let mut recording = Recording::new(u64::MAX);
        recording.base_progress.begun = setup;
        recording.base_progress.returned = setup;
        Events {
            recording,
            begun: false,
            early: HashMap::new(),
            open: HashMap::new(),
            epoch: contract.regime.is_ordered().then_some(0),
            order_only: contract.order_only,
        }
    }

    /// Whether this was the end.
    fn take(&mut self, what: EventKind) -> bool {
        match what {
            EventKind::Write { id, offset, data, fua } => {
                let contents =
                    data.chunks(BLOCK).map(|block| self.recording.contents.intern(block)).collect();
                self.write(id, offset / BLOCK as u64, contents, fua);
            }
            EventKind::Discard { id, offset, length } | EventKind::WriteZeroes { id, offset, length } => {
                let blocks = (length / BLOCK as u64) as usize;
                self.write(id, offset / BLOCK as u64, vec![ContentId::ZERO; blocks], false);
            }
            EventKind::Flush { id } if self.begun => {
                let flush = self.recording.flush(id, None);
                self.open.insert(id, Open::Flush(flush));
            }
            EventKind::Flush { id } => {
                self.open.insert(id, Open::Ignored);
            }
            // it completes at once, and what is submitted from here on belongs to the next epoch
            EventKind::Barrier { .. } => self.epoch = self.epoch.map(|epoch| epoch + 1),
            EventKind::Complete { id, errno } => self.complete(id, errno == 0),
            EventKind::Mark { text } => return self.mark(&text),
            EventKind::PowerCut => return true,
        }
        false
    }

    fn write(&mut self, id: u64, lba: u64, contents: Vec<ContentId>, fua: bool) {
        if self.begun {
            let epochs = [self.epoch.map(|epoch| (0, epoch)), None];
            let write = self.recording.write(id, lba, contents, fua, epochs);
            self.open.insert(id, Open::Write(write));
        } else {
            self.early.insert(id, (lba, contents, fua));
        }
    }

    fn complete(&mut self, id: u64, well: bool) {
        if let Some((lba, contents, _)) = self.early.remove(&id) {
            for (lba, content) in (lba..).zip(contents) {
                self.recording.base.insert(lba, content);
                if content == ContentId::ZERO {
                    self.recording.base.remove(&lba);
                }
            }
            return;
        }
        match self.open.remove(&id) {
            // one that failed may have done something or nothing, for ever
            Some(Open::Write(write)) if well => self.recording.write_done(write),
            Some(Open::Flush(flush)) if well => {
                self.recording.flush_done(flush);
                if self.order_only {
                    self.epoch = self.epoch.map(|epoch| epoch + 1);
                }
            }
            _ => {}
        }
    }

    fn mark(&mut self, text: &str) -> bool {
        match text.split_once(' ').map(|(kind, op)| (kind, op.parse())) {
            Some(("b", Ok(op))) => self.recording.mark(Mark::Begin(op)),
            Some(("r", Ok(op))) => self.recording.mark(Mark::Return(op)),
            _ if text == BASE => {
                self.begun = true;
                let mut under_way: Vec<_> = self.early.drain().collect();
                under_way.sort_by_key(|(id, _)| *id);
                for (id, (lba, contents, fua)) in under_way {
                    self.write(id, lba, contents, fua);
                }
            }
            _ => return text == END,
        }
        false
    }
}

/// Fills free space with a pattern that no file may ever show: the blocks that hold nothing in the base image
/// and first receive data of the workload. What a free block holds is nothing to any file system.
fn poison(recording: &mut Recording) -> u64 {
    let mut first: HashMap<u64, ContentId> = HashMap::new();
    for write in &recording.writes {
        for (lba, content) in (write.lba..).zip(&write.contents) {
            first.entry(lba).or_insert(*content);
        }
    }
    let mut poisoned = 0;
    let mut block = [0; BLOCK];
    for (lba, content) in first {
        let holds_data = recording.contents.get(content).chunks(data::SECTOR).any(data::is_data);
        if holds_data && recording.base_of(lba) == ContentId::ZERO {
            data::poison(lba, &mut block);
            let id = recording.contents.intern(&block);
            recording.base.insert(lba, id);
            poisoned += 1;
        }
    }
    poisoned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::recording::Event;

    fn block(byte: u8) -> Vec<u8> {
        vec![byte; BLOCK]
    }

    #[test]
    fn the_base_is_what_had_completed_and_the_rest_follows() {
        let mut b = Events::new(2, Contract::default());
        let mark = |text: &str| EventKind::Mark { text: text.into() };
        let write = |id, lba: u64, byte| EventKind::Write {
            id,
            offset: lba * BLOCK as u64,
            data: block(byte),
            fua: lba == 7,
        };
        let done = |id| EventKind::Complete { id, errno: 0 };
        let discard = EventKind::Discard { id: 3, offset: 0, length: 2 * BLOCK as u64 };
        let before = [write(1, 0, 1), write(2, 5, 2), done(1), done(2), discard, done(3)];
        let early = [write(4, 6, 4), EventKind::Flush { id: 5 }, mark("base"), done(5), done(4), mark("b 2")];
        let after = [write(6, 5, 6), EventKind::Flush { id: 7 }, done(6), done(7), mark("r 2")];
        let failed = [write(8, 7, 8), EventKind::Complete { id: 8, errno: 5 }];
        for what in before.into_iter().chain(early).chain(after).chain(failed) {
            assert!(!b.take(what));
        }
        assert!(b.take(mark("end")));
        let r = b.recording;
        let two = r.base_of(5);
        assert_eq!((r.base.len(), r.contents.get(two)[0]), (1, 2), "written, and not discarded");
        let events = [
            Event::Write(0),
            Event::WriteDone(0),
            Event::Mark(Mark::Begin(2)),
            Event::Write(1),
            Event::Flush(0),
            Event::WriteDone(1),
            Event::FlushDone(0),
            Event::Mark(Mark::Return(2)),
            Event::Write(2),
        ];
        assert_eq!(r.events, events, "the flush from before is not one of them");
        assert_eq!((r.writes[0].id, r.writes[2].completed), (4, None));
        assert_eq!([r.writes[0].fua, r.writes[2].fua], [false, true]);
        let progress = r.progress_at(r.events.len());
        assert_eq!((r.base_progress.returned, progress.begun, progress.returned), (2, 3, 3));
    }

    #[test]
    fn flushes_that_only_order_end_epochs() {
        let contract = Contract { order_only: true, ..Contract::new(ssd::Regime::Streams, false) };
        let mut e = Events::new(0, contract);
        let write = |id| EventKind::Write { id, offset: id * BLOCK as u64, data: block(1), fua: false };
        let done = |id| EventKind::Complete { id, errno: 0 };
        let mark = EventKind::Mark { text: "base".into() };
        let all = [
            mark,
            write(1),
            done(1),
            EventKind::Flush { id: 2 },
            write(3),
            done(2),
            write(4),
            done(3),
            done(4),
        ];
        all.into_iter().for_each(|what| assert!(!e.take(what)));
        let epochs: Vec<_> = e.recording.writes.iter().map(|write| write.epochs[0]).collect();
        // write 3 was on its way beside the flush: it is taken to come before what follows the flush
        assert_eq!(epochs, [Some((0, 0)), Some((0, 0)), Some((0, 1))]);
    }

    #[test]
    fn epoch_boundaries_order_and_flushes_make_durable() {
        let mut e = Events::new(0, Contract::new(ssd::Regime::Streams, false));
        let write = |id| EventKind::Write { id, offset: id * BLOCK as u64, data: block(1), fua: false };
        let done = |id| EventKind::Complete { id, errno: 0 };
        let mark = EventKind::Mark { text: "base".into() };
        let log = [mark, write(1), done(1), EventKind::Barrier { id: 2 }, done(2)];
        let commit = [write(3), done(3), EventKind::Flush { id: 4 }, done(4), write(5)];
        log.into_iter().chain(commit).for_each(|what| assert!(!e.take(what)));
        let epochs: Vec<_> = e.recording.writes.iter().map(|write| write.epochs[0]).collect();
        assert_eq!(epochs, [Some((0, 0)), Some((0, 1)), Some((0, 1))]);
        assert_eq!(e.recording.flushes.len(), 1);
        let history = History::new(&e.recording, Contract::new(ssd::Regime::Streams, false));
        // before the flush: the commit record never without the log
        let open = history.open_at(4);
        assert_eq!(open.len(), 2);
        let settled = |mut choice: Vec<u32>| {
            history.settle(4, &open, &mut choice);
            choice
        };
        assert_eq!([settled(vec![0, 1]), settled(vec![1, 0])], [vec![1, 1], vec![1, 0]]);
    }

    #[test]
    fn only_free_blocks_that_receive_data_are_poisoned() {
        let mut r = Recording::new(64);
        let data = r.contents.intern(&data::data(1, 1, 0, 8));
        let other = r.contents.intern(&block(7));
        r.base.insert(3, other);
        r.write(1, 1, vec![data, other, data], false, [None; 2]);
        r.write(2, 2, vec![data], false, [None; 2]);
        assert_eq!(poison(&mut r), 1);
        let told = |lba| data::read(&r.contents.get(r.base_of(lba))[..data::SECTOR]);
        assert_eq!(told(1), data::Sector::Stale);
        assert_eq!((r.base_of(2), r.base_of(3)), (ContentId::ZERO, other));
    }
}
