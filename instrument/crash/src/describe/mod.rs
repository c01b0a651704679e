//! Saying what a failing state is: where the power failed, which blocks were lost, what they are.

mod betrfs;
mod btrfs;
mod ext4;
mod f2fs;
mod numbers;
mod xfs;

use spec::FsKind;

use crate::explore::StateVerdict;
use crate::history::{History, State};
use crate::oracle::Kind;
use crate::recording::{ContentId, Event, Recording, Write};
use crate::verdict::{LostBlock, MinimalCase, Request};
use crate::workload::data::{self, Sector};
use crate::workload::{Op, Script};

/// Requests before the cut that are told.
const LAST: usize = 8;

/// What is said of a block that has no label of its own. Data of a script has one, that of other loads has not.
const UNLABELLED: [&str; 2] = ["metadata", "directory or extent block"];
/// Characters of a text that are told.
const BEGINNING: usize = 24;

/// How a text begins; nothing of other bytes.
fn beginning(bytes: &[u8]) -> String {
    let text: String = bytes
        .iter()
        .take(BEGINNING)
        .map_while(|b| (b' '..0x7f).contains(b).then(|| char::from(*b)))
        .collect();
    if text.trim().len() < 4 { String::new() } else { format!(", \"{text}\"") }
}

/// What a block is on one file system, as far as its address and bytes tell.
enum Layout {
    Ext4(Option<ext4::Layout>),
    Xfs(Option<xfs::Layout>),
    Btrfs,
    F2fs(Option<f2fs::Layout>),
    Betrfs(Option<betrfs::Layout>),
}

/// Describes states of one recording.
pub(crate) struct Describer<'a> {
    history: &'a History<'a>,
    script: Option<&'a Script>,
    /// Of a user's program, the marks that it passed.
    marks: Option<&'a [String]>,
    layout: Layout,
}

impl<'a> Describer<'a> {
    pub(crate) fn new(
        history: &'a History<'a>,
        script: Option<&'a Script>,
        marks: Option<&'a [String]>,
        fs: FsKind,
    ) -> Describer<'a> {
        let recording = history.recording();
        let base = |lba: u64| recording.contents.get(recording.base_of(lba));
        let layout = match fs {
            FsKind::Xfs => Layout::Xfs(xfs::Layout::read(base(0))),
            FsKind::Btrfs => Layout::Btrfs,
            FsKind::F2fs => Layout::F2fs(f2fs::Layout::read(base(0))),
            FsKind::Betrfs => {
                Layout::Betrfs([0, 2].into_iter().find_map(|lba| betrfs::Layout::read(base(lba))))
            }
            _ => Layout::Ext4(ext4::Layout::read(&base)),
        };
        Describer { history, script, marks, layout }
    }

    fn recording(&self) -> &'a Recording {
        self.history.recording()
    }

    /// What these bytes at this address are.
    fn what(&self, lba: u64, content: ContentId) -> String {
        let bytes = self.recording().contents.get(content);
        if let Some(data) = self.data(bytes) {
            return data;
        }
        if content == ContentId::ZERO {
            return "zeroes".into();
        }
        let what = match &self.layout {
            Layout::Ext4(layout) => ext4::what(layout.as_ref(), lba, bytes),
            Layout::Xfs(layout) => xfs::what(layout.as_ref(), lba, bytes),
            Layout::Btrfs => btrfs::what(lba, bytes),
            Layout::F2fs(layout) => f2fs::what(layout.as_ref(), lba, bytes),
            Layout::Betrfs(layout) => betrfs::what(layout.as_ref(), lba, bytes),
        };
        if self.script.is_none() && UNLABELLED.contains(&what.as_str()) {
            return format!("data or metadata{}", beginning(bytes));
        }
        what
    }

    /// What the block is in the request that wrote it: a part of a tree node is told by the node's first
    /// block.
    fn what_of_write(&self, write: u32, lba: u64, content: ContentId) -> String {
        let of = &self.recording().writes[write as usize];
        let place = (lba - of.lba) as usize;
        if matches!(self.layout, Layout::Btrfs) && self.data(self.recording().contents.get(content)).is_none()
        {
            for back in 0..=place.min(3) {
                let first = of.contents[place - back];
                let bytes = self.recording().contents.get(first);
                if let Some(node) = btrfs::node(lba - back as u64, bytes) {
                    return if back == 0 { node } else { format!("{node}, its part {}", back + 1) };
                }
            }
        }
        self.what(lba, content)
    }

    fn data(&self, bytes: &[u8]) -> Option<String> {
        let first = bytes.chunks(data::SECTOR).map(data::read).find(|sector| *sector != Sector::Zero)?;
        match first {
            Sector::Data { file, version, place } => {
                let name = self.name_of(file).unwrap_or_else(|| format!("file {file}"));
                Some(format!("data of {name} at {} KiB, version {version}", f64::from(place) / 2.0))
            }
            Sector::Stale => Some("what lay in free space".into()),
            _ => None,
        }
    }

    fn name_of(&self, file: u32) -> Option<String> {
        self.script?.ops.iter().find_map(|op| match op {
            Op::Create { path, file: f } if *f == file => Some(path.clone()),
            _ => None,
        })
    }

    /// The operation under way, or the last one.
    fn during(&self, cut: usize) -> String {
        let progress = self.recording().progress_at(cut);
        if let Some(marks) = self.marks {
            return match progress.returned.checked_sub(1).and_then(|last| marks.get(last)) {
                Some(name) => format!("after mark {}, {name}", progress.returned),
                None => "before any mark".into(),
            };
        }
        let op = |number: usize| self.script.and_then(|script| script.ops.get(number)).map(Op::to_string);
        let told = |number: usize| match op(number) {
            Some(text) => format!("operation {number}, {text}"),
            None => format!("operation {number}"),
        };
        match (progress.begun > progress.returned, progress.returned) {
            (true, returned) => format!("during {}", told(returned)),
            (false, 0) => "before the first operation".into(),
            (false, returned) => format!("after {}", told(returned - 1)),
        }
    }

    pub(crate) fn smallest(&self, state: &State, kind: Kind, judged: StateVerdict) -> MinimalCase {
        let recording = self.recording();
        let lost = state.lost.iter().map(|(block, version)| {
            let lba = self.history.lba(*block);
            let newest = self.history.newest_at(*block, state.cut);
            let write = self.history.write_of(*block, newest).unwrap_or_default();
            let content = self.history.content(*block, newest);
            LostBlock {
                lba,
                what: self.what_of_write(write, lba, content),
                request: recording.writes[write as usize].id,
                when: self.during(recording.writes[write as usize].submitted),
                holds: self.what(lba, self.history.content(*block, *version)),
                versions: newest - version,
            }
        });
        let sent = recording.writes.iter().filter(|write| write.submitted < state.cut).count();
        MinimalCase {
            kind,
            breaches: judged.breaches.iter().map(|breach| breach.detail.clone()).collect(),
            when: self.during(state.cut),
            requests: sent,
            of: recording.writes.len(),
            lost: lost.collect(),
            last: self.last(state, sent),
            output: judged.output,
            said: judged.said,
            ..MinimalCase::default()
        }
    }

    /// The requests just before the cut, and how much of each is there.
    fn last(&self, state: &State, sent: usize) -> Vec<Request> {
        let recording = self.recording();
        let is_lost = |w: usize, lba: u64| {
            let Some(block) = self.history.block_at(lba) else { return false };
            let kept = state.lost.iter().find(|(b, _)| *b == block).map(|(_, version)| *version);
            let made = self.history.version_by(block, w as u32);
            kept.is_some_and(|kept| made.is_some_and(|made| kept < made))
        };
        let first = recording.writes.get(sent.saturating_sub(LAST)).map_or(0, |write| write.submitted);
        let events = recording.events.iter().take(state.cut).skip(first);
        events
            .filter_map(|event| {
                let w = match *event {
                    Event::Write(w) => w as usize,
                    Event::Flush(flush) => return Some(self.flush(flush, state.cut)),
                    _ => return None,
                };
                let write = &recording.writes[w];
                let blocks = write.contents.len();
                let lost = (write.lba..).take(blocks).filter(|lba| is_lost(w, *lba)).count();
                let first = write.contents.first().copied().unwrap_or_default();
                let what = self.what_of_write(w as u32, write.lba, first);
                let what = if write.fua { format!("{what}, with FUA") } else { what };
                Some(Request { id: write.id, lba: write.lba, blocks, lost, what })
            })
            .collect()
    }

    /// A flush before the cut. It covers what had completed when it was sent, and nothing else.
    fn flush(&self, flush: u32, cut: usize) -> Request {
        let flush = &self.recording().flushes[flush as usize];
        let done = flush.completed.is_some_and(|completed| completed < cut);
        let sent = flush.submitted;
        let late = |write: &&Write| write.submitted < sent && write.completed.is_none_or(|done| done > sent);
        let late: Vec<String> =
            self.recording().writes.iter().filter(late).map(|write| write.id.to_string()).collect();
        let mut what = if done { "flush" } else { "flush, under way" }.to_string();
        if !late.is_empty() {
            what.push_str(&format!(", sent before the end of {}, which it does not cover", late.join(", ")));
        }
        Request { id: flush.id, lba: 0, blocks: 0, lost: 0, what }
    }
}

#[cfg(test)]
mod tests;
