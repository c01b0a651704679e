//! Records of the tracepoints as plain data. Pure.

use std::sync::Arc;

use trace::EventFormat;

/// A file as the kernel numbers it: device as in tracepoints (`major << 20 | minor`), inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The file system's device.
    pub dev: u32,
    /// The inode.
    pub inode: u64,
}

/// Something that a thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// When, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The thread.
    pub tid: i32,
    /// What it was.
    pub what: What,
}

/// What a thread did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A page was not there, and the kernel begins to read it.
    Missed {
        /// The file.
        key: Key,
        /// The first page.
        index: u64,
        /// Pages the read or fault asked for.
        pages: u64,
    },
    /// The kernel begins to read further ahead of a stream that it follows itself.
    Ahead {
        /// The file.
        key: Key,
        /// The first page.
        index: u64,
    },
    /// The kernel reads pages around a fault, or any others that nobody asked for singly.
    Around {
        /// The file.
        key: Key,
    },
    /// A read has pages from `first` on and wants them up to `last`.
    Read {
        /// The file.
        key: Key,
        /// The first page.
        first: u64,
        /// The last page, inclusive.
        last: u64,
    },
    /// A fault mapped pages that are there, of a window around the touched one.
    Mapped {
        /// The file.
        key: Key,
        /// The window's first page.
        first: u64,
        /// The window's last page, inclusive.
        last: u64,
    },
    /// A fault did not find its page ready.
    Fault {
        /// The file.
        key: Key,
        /// The page.
        index: u64,
    },
    /// The thread waits for a device or a lock that others hold meanwhile (state D).
    Blocked,
    /// The thread ended.
    Ended,
}

/// Which of the numbers of a record mean what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Missed,
    Ahead,
    Around,
    Added,
    Read,
    Mapped,
    Fault,
    Switch,
    Exit,
}

/// Offset and size of a number.
type Place = (usize, usize);

/// Where the numbers of an event are.
#[derive(Debug, Clone)]
struct Layout {
    id: u16,
    kind: Kind,
    tid: Place,
    inode: Place,
    dev: Place,
    index: Place,
    second: Place,
}

/// Reads records of the events it knows.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    layouts: Vec<Layout>,
}

impl Decoder {
    /// For events with these layouts; others are passed over.
    pub fn new(formats: &[Arc<EventFormat>]) -> Decoder {
        Decoder { layouts: formats.iter().filter_map(|format| layout(format)).collect() }
    }

    /// One record; `None` when it is of no known event or ends too early.
    pub fn decode(&self, at_ns: u64, record: &[u8]) -> Option<Moment> {
        let id = u16::from_le_bytes(*record.first_chunk()?);
        let layout = self.layouts.iter().find(|layout| layout.id == id)?;
        let get = |place: Place| number(record, place);
        let mut tid = get(layout.tid)? as i32;
        let what = match layout.kind {
            Kind::Switch => {
                tid = get(layout.second)? as i32;
                What::Blocked
            }
            Kind::Exit => What::Ended,
            kind => {
                let key = Key { dev: get(layout.dev)? as u32, inode: get(layout.inode)? };
                let index = get(layout.index)?;
                let second = |fallback: u64| get(layout.second).unwrap_or(fallback);
                match kind {
                    Kind::Missed => What::Missed { key, index, pages: second(1).clamp(1, 1 << 20) },
                    Kind::Ahead => What::Ahead { key, index },
                    Kind::Around => What::Around { key },
                    Kind::Added => What::Missed { key, index, pages: 1 << second(0).min(20) },
                    Kind::Read => What::Read { key, first: index, last: second(index).max(index) },
                    Kind::Mapped => What::Mapped { key, first: index, last: second(index).max(index) },
                    _ => What::Fault { key, index },
                }
            }
        };
        Some(Moment { at_ns, tid, what })
    }
}

fn layout(format: &EventFormat) -> Option<Layout> {
    let (kind, second) = match format.name.as_str() {
        "page_cache_sync_ra" => (Kind::Missed, "req_count"),
        "page_cache_async_ra" => (Kind::Ahead, "req_count"),
        "page_cache_ra_order" | "page_cache_ra_unbounded" => (Kind::Around, "index"),
        "mm_filemap_add_to_page_cache" => (Kind::Added, "order"),
        "mm_filemap_get_pages" => (Kind::Read, "last_index"),
        "mm_filemap_map_pages" => (Kind::Mapped, "last_index"),
        "mm_filemap_fault" => (Kind::Fault, "index"),
        "sched_switch" => (Kind::Switch, "prev_pid"),
        "sched_process_exit" => (Kind::Exit, "common_pid"),
        _ => return None,
    };
    // A place that does not exist lies beyond every record.
    let place = |name: &str| format.field(name).map_or((usize::MAX, 0), |field| (field.offset, field.size));
    Some(Layout {
        id: format.id,
        kind,
        tid: place("common_pid"),
        inode: place("i_ino"),
        dev: place("s_dev"),
        index: place("index"),
        second: place(second),
    })
}

fn number(record: &[u8], (offset, size): Place) -> Option<u64> {
    let bytes = record.get(offset..offset.checked_add(size)?)?;
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(wide))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The format of an event with the fields of the kernel's, 8 bytes each behind the common ones.
    fn format(id: u16, name: &str, fields: &[&str]) -> Arc<EventFormat> {
        let mut text = format!(
            "name: {name}\nID: {id}\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
        );
        for (at, field) in fields.iter().enumerate() {
            let (offset, size) = (8 + 8 * at, if *field == "order" { 1 } else { 8 });
            text += &format!("\tfield:unsigned long {field};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
        }
        Arc::new(EventFormat::parse(&text).unwrap())
    }

    fn decoder() -> Decoder {
        Decoder::new(&[
            format(1, "page_cache_sync_ra", &["i_ino", "s_dev", "index", "req_count"]),
            format(2, "mm_filemap_add_to_page_cache", &["i_ino", "s_dev", "index", "order"]),
            format(3, "mm_filemap_get_pages", &["i_ino", "s_dev", "index", "last_index"]),
            format(4, "mm_filemap_map_pages", &["i_ino", "s_dev", "index", "last_index"]),
            format(5, "mm_filemap_fault", &["i_ino", "s_dev", "index"]),
            format(6, "sched_switch", &["prev_pid"]),
            format(7, "sched_process_exit", &[]),
            format(9, "page_cache_async_ra", &["i_ino", "s_dev", "index", "req_count"]),
            format(10, "page_cache_ra_order", &["i_ino", "s_dev", "index"]),
            format(8, "something_else", &["i_ino", "s_dev", "index"]),
        ])
    }

    fn record(id: u16, tid: i32, words: &[u64]) -> Vec<u8> {
        let mut bytes = id.to_le_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(tid.to_le_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    }

    #[test]
    fn every_event_is_read() {
        let key = Key { dev: 7 << 20, inode: 12 };
        let words = [12, 7 << 20, 5, 9];
        let what = |id, words: &[u64]| decoder().decode(3, &record(id, 42, words)).unwrap().what;
        assert_eq!(what(1, &words), What::Missed { key, index: 5, pages: 9 });
        assert_eq!(what(2, &[12, 7 << 20, 5, 3]), What::Missed { key, index: 5, pages: 8 });
        assert_eq!(what(9, &words), What::Ahead { key, index: 5 });
        assert_eq!(what(10, &words), What::Around { key });
        assert_eq!(what(3, &words), What::Read { key, first: 5, last: 9 });
        assert_eq!(what(4, &words), What::Mapped { key, first: 5, last: 9 });
        assert_eq!(what(5, &words), What::Fault { key, index: 5 });
        let switch = decoder().decode(3, &record(6, 42, &[77])).unwrap();
        assert_eq!(switch, Moment { at_ns: 3, tid: 77, what: What::Blocked });
        assert_eq!(what(7, &[]), What::Ended);
    }

    #[test]
    fn other_and_short_records_are_passed_over() {
        assert_eq!(decoder().decode(0, &record(8, 1, &[1, 2, 3])), None);
        assert_eq!(decoder().decode(0, &record(3, 1, &[1, 2])), None);
        assert_eq!(decoder().decode(0, &[]), None);
        // A read whose last page lies before its first is taken for one page.
        let what = decoder().decode(0, &record(3, 1, &[1, 2, 9, 3])).unwrap().what;
        assert_eq!(what, What::Read { key: Key { dev: 2, inode: 1 }, first: 9, last: 9 });
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(id in 0u16..12, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let mut record = id.to_le_bytes().to_vec();
            record.extend(bytes);
            decoder().decode(0, &record);
        }
    }
}
