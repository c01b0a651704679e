//! Ring-buffer pages: bytes in, records out. Pure; garbage gives fewer records, never a panic.
//!
//! The layout is that of the kernel's include/linux/ring_buffer.h and kernel/trace/ring_buffer.c as told by
//! `events/header_page` and `events/header_event`: a header with the time of the first record and the bytes
//! committed, then records whose 32-bit head holds a type in 5 bits and a time difference in 27.

use crate::error::TraceError;
use crate::format::fields;

/// Bytes committed; the bits above are flags.
const COMMIT_MASK: u64 = (1 << 27) - 1;
/// Events were lost before this page.
const MISSED_EVENTS: u64 = 1 << 31;
/// How many were lost stands behind the committed bytes.
const MISSED_STORED: u64 = 1 << 30;
/// An absolute time has 59 bits; the ones above come from the time before it.
const TIME_HIGH_BITS: u64 = 0xf8 << 56;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;

/// Where things are in a page, from `events/header_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    /// First byte of the commit word; the time of the page is in the 8 bytes at 0.
    pub commit_offset: usize,
    /// Bytes of the commit word: the size of a `long`.
    pub commit_size: usize,
    /// First byte of the records.
    pub data_offset: usize,
    /// Bytes of a whole page: what one read of `trace_pipe_raw` returns at most.
    pub page_size: usize,
}

impl PageLayout {
    /// Reads the text of `events/header_page`.
    ///
    /// # Errors
    /// When a field is missing or the sizes cannot be those of a page.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let error = |what: &str| TraceError::Format { event: "header_page".into(), what: what.into() };
        let fields = fields(text).ok_or_else(|| error("a field without offset and size"))?;
        let find = |name: &str| {
            fields.iter().find(|field| field.name == name).ok_or_else(|| error(&format!("no field {name}")))
        };
        let (time, commit, data) = (find("timestamp")?, find("commit")?, find("data")?);
        let page_size = data.offset.checked_add(data.size).filter(|size| *size <= 1 << 26);
        let page_size = page_size.ok_or_else(|| error("a page of more than 64 MiB"))?;
        let sane = time.offset == 0
            && time.size == 8
            && matches!(commit.size, 4 | 8)
            && commit.offset.checked_add(commit.size).is_some_and(|end| end <= data.offset);
        if !sane {
            return Err(error("fields that overlap, or of unknown sizes"));
        }
        Ok(PageLayout {
            commit_offset: commit.offset,
            commit_size: commit.size,
            data_offset: data.offset,
            page_size,
        })
    }
}

/// One record of a page: the event's bytes, its number in the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time in the unit of the trace clock; nanoseconds for `mono`.
    pub at_ns: u64,
    /// The event's fields.
    pub data: &'a [u8],
}

/// What one page held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page<'a> {
    /// Records in the order of the page.
    pub records: Vec<Record<'a>>,
    /// Events lost before this page; 1 when the kernel does not say how many.
    pub missed: u64,
    /// The page ended in the middle of a record: it was cut, or is not a page.
    pub damaged: bool,
}

/// Reads one page.
pub fn parse<'a>(layout: &PageLayout, bytes: &'a [u8]) -> Page<'a> {
    let mut page = Page::default();
    let (Some(start), Some(commit)) = (word64(bytes, 0), commit_word(layout, bytes)) else {
        page.damaged = true;
        return page;
    };
    let committed = (commit & COMMIT_MASK) as usize;
    let Some(data) = bytes.get(layout.data_offset..layout.data_offset + committed) else {
        page.damaged = true;
        return page;
    };
    if commit & MISSED_EVENTS != 0 {
        let stored = (commit & MISSED_STORED != 0)
            .then(|| stored_count(layout, bytes, layout.data_offset + committed))
            .flatten();
        page.missed = stored.unwrap_or(0).max(1);
    }
    read_records(start, data, &mut page);
    page
}

fn commit_word(layout: &PageLayout, bytes: &[u8]) -> Option<u64> {
    match layout.commit_size {
        4 => word32(bytes, layout.commit_offset).map(u64::from),
        _ => word64(bytes, layout.commit_offset),
    }
}

/// The count has the size of the commit word: a `long`.
fn stored_count(layout: &PageLayout, bytes: &[u8], offset: usize) -> Option<u64> {
    match layout.commit_size {
        4 => word32(bytes, offset).map(u64::from),
        _ => word64(bytes, offset),
    }
}

fn read_records<'a>(start: u64, data: &'a [u8], page: &mut Page<'a>) {
    let mut now = start;
    let mut at = 0;
    while at < data.len() {
        let Some(step) = step(data, at, now) else {
            page.damaged = true;
            return;
        };
        match step {
            Step::End => return,
            Step::Time { time, bytes } => (now, at) = (time, at + bytes),
            Step::Record { time, from, to } => {
                now = time;
                page.records.push(Record { at_ns: time, data: &data[from..to] });
                at = to;
            }
        }
    }
}

enum Step {
    End,
    Time { time: u64, bytes: usize },
    Record { time: u64, from: usize, to: usize },
}

/// The record at `at`; `None` when it does not fit in `data`.
fn step(data: &[u8], at: usize, now: u64) -> Option<Step> {
    let head = word32(data, at)?;
    let (kind, delta) = (head & 0x1f, u64::from(head >> 5));
    let (from, length) = match kind {
        TYPE_PADDING if delta == 0 => return Some(Step::End),
        TYPE_PADDING => {
            let bytes = word32(data, at + 4)? as usize;
            return Some(Step::Time { time: now.wrapping_add(delta), bytes: bytes.checked_add(4)? });
        }
        TYPE_TIME_EXTEND => {
            let high = u64::from(word32(data, at + 4)?) << 27;
            return Some(Step::Time { time: now.wrapping_add(high.wrapping_add(delta)), bytes: 8 });
        }
        TYPE_TIME_STAMP => {
            let stamp = (u64::from(word32(data, at + 4)?) << 27).wrapping_add(delta);
            return Some(Step::Time { time: absolute(stamp, now), bytes: 8 });
        }
        // The length word counts itself.
        0 => (at + 8, (word32(data, at + 4)? as usize).checked_sub(4)?),
        words => (at + 4, words as usize * 4),
    };
    let to = from.checked_add(length).filter(|to| *to <= data.len())?;
    Some(Step::Record { time: now.wrapping_add(delta), from, to })
}

/// An absolute time with the high bits it lacks, taken from the time before it.
fn absolute(stamp: u64, before: u64) -> u64 {
    let high = before & TIME_HIGH_BITS;
    if high == 0 {
        return stamp;
    }
    let whole = (stamp & !TIME_HIGH_BITS) | high;
    if whole < before { whole.wrapping_add(1 << 59) } else { whole }
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout =
        PageLayout { commit_offset: 8, commit_size: 8, data_offset: 16, page_size: 4096 };

    fn head(kind: u32, delta: u32) -> [u8; 4] {
        (kind | delta << 5).to_le_bytes()
    }

    fn page(start: u64, flags: u64, data: &[u8], after: &[u8]) -> Vec<u8> {
        let mut bytes = start.to_le_bytes().to_vec();
        bytes.extend((data.len() as u64 | flags).to_le_bytes());
        bytes.extend(data);
        bytes.extend(after);
        bytes
    }

    #[test]
    fn layout_of_the_running_kernels() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(PageLayout::parse(text).expect("a layout"), LAYOUT);
        assert!(PageLayout::parse(&text.replace("commit", "comit")).is_err());
        assert!(PageLayout::parse(&text.replace("offset:16", "offset:9")).is_err());
        assert!(PageLayout::parse(&text.replace("4080", "18446744073709551615")).is_err());
    }

    #[test]
    fn every_record_type_moves_the_clock_as_the_kernel_does() {
        let mut data = Vec::new();
        data.extend(head(2, 10)); // 8 bytes, t = 1010
        data.extend([1; 8]);
        data.extend(head(TYPE_TIME_EXTEND, 5)); // t += (1 << 27) + 5
        data.extend(1_u32.to_le_bytes());
        data.extend(head(0, 0)); // long form, 12 bytes
        data.extend(16_u32.to_le_bytes());
        data.extend([2; 12]);
        data.extend(head(TYPE_PADDING, 7)); // a discarded event of 4 + 8 bytes still moves the clock
        data.extend(8_u32.to_le_bytes());
        data.extend([9; 4]);
        data.extend(head(TYPE_TIME_STAMP, 3)); // absolute
        data.extend(4_u32.to_le_bytes());
        data.extend(head(1, 1));
        data.extend([3; 4]);
        data.extend(head(TYPE_PADDING, 0)); // nothing but padding from here
        data.extend([0xff; 16]);
        let bytes = page(1000, 0, &data, &[]);
        let page = parse(&LAYOUT, &bytes);
        let stamp = (4_u64 << 27) + 3;
        let seen: Vec<_> = page.records.iter().map(|r| (r.at_ns, r.data.len(), r.data[0])).collect();
        assert_eq!(seen, [(1010, 8, 1), (1015 + (1 << 27), 12, 2), (stamp + 1, 4, 3)]);
        assert!(!page.damaged && page.missed == 0);
    }

    #[test]
    fn absolute_times_keep_the_high_bits() {
        assert_eq!(absolute(5, 0x1000), 5);
        assert_eq!(absolute(7, (8 << 56) | 3), (8 << 56) | 7);
        assert_eq!(absolute(2, (8 << 56) | 3), (16 << 56) | 2);
    }

    #[test]
    fn lost_events_are_counted() {
        let record = [head(1, 0), [0; 4]].concat();
        let told = page(0, MISSED_EVENTS | MISSED_STORED, &record, &41_u64.to_le_bytes());
        assert_eq!(parse(&LAYOUT, &told).missed, 41);
        let untold = page(0, MISSED_EVENTS, &record, &41_u64.to_le_bytes());
        assert_eq!(parse(&LAYOUT, &untold).missed, 1);
        let cut = page(0, MISSED_EVENTS | MISSED_STORED, &record, &[]);
        assert_eq!(parse(&LAYOUT, &cut).missed, 1);
    }

    #[test]
    fn cut_pages_are_damaged_and_keep_their_whole_records() {
        let record = [head(1, 0), [7; 4]].concat();
        let whole = page(0, 0, &[record.clone(), record.clone()].concat(), &[]);
        assert_eq!(parse(&LAYOUT, &whole).records.len(), 2);
        assert!(parse(&LAYOUT, &whole[..20]).damaged);
        assert!(parse(&LAYOUT, &[]).damaged);
        let half = page(0, 0, &[&record[..], &record[..6]].concat(), &[]);
        let half = parse(&LAYOUT, &half);
        assert!(half.damaged && half.records.len() == 1);
        let short = page(0, 0, &[head(0, 0), 3_u32.to_le_bytes()].concat(), &[]);
        assert!(parse(&LAYOUT, &short).damaged, "a length below its own word");
    }

    proptest::proptest! {
        #[test]
        fn garbage_never_panics_and_records_lie_inside(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..512),
            commit in 0_u64..600,
        ) {
            let mut bytes = bytes;
            parse(&LAYOUT, &bytes);
            if bytes.len() >= 16 {
                bytes[8..16].copy_from_slice(&commit.to_le_bytes());
                let total: usize = parse(&LAYOUT, &bytes).records.iter().map(|r| r.data.len() + 4).sum();
                proptest::prop_assert!(total <= bytes.len());
            }
        }
    }
}
