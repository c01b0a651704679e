//! One event with access to its fields; events of many CPUs in one order.

use std::collections::HashMap;
use std::sync::Arc;

use crate::format::{EventFormat, Field, Kind};
use crate::page::{self, PageLayout};

/// One event as it was recorded.
#[derive(Debug, Clone)]
pub struct Event {
    /// Time in nanoseconds of the trace clock (`mono`: CLOCK_MONOTONIC).
    pub at_ns: u64,
    /// The CPU that recorded it.
    pub cpu: u16,
    format: Arc<EventFormat>,
    data: Box<[u8]>,
}

impl Event {
    /// An event from its bytes, for tests and other sources of records.
    pub fn new(at_ns: u64, cpu: u16, format: Arc<EventFormat>, data: &[u8]) -> Self {
        Event { at_ns, cpu, format, data: data.into() }
    }

    /// The event's name, e.g. `block_rq_issue`.
    pub fn name(&self) -> &str {
        &self.format.name
    }

    /// The thread that was running: the field `common_pid`.
    pub fn pid(&self) -> i32 {
        self.number("common_pid").unwrap_or(0) as i32
    }

    /// A number as 64 bits, sign-extended when the field is signed; `None` when there is no such field, it is
    /// no number of 1, 2, 4 or 8 bytes, or the record ends before it.
    pub fn number(&self, name: &str) -> Option<u64> {
        let field = self.format.field(name)?;
        let bytes = self.bytes_at(field.offset, field.size)?;
        if !matches!(bytes.len(), 1 | 2 | 4 | 8) || field.kind != Kind::Number {
            return None;
        }
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let value = u64::from_le_bytes(wide);
        let unused = 64 - 8 * bytes.len() as u32;
        Some(if field.signed { ((value << unused) as i64 >> unused) as u64 } else { value })
    }

    /// The bytes of an array or of dynamic data.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        let field = self.format.field(name)?;
        match field.kind {
            Kind::Number | Kind::Array => self.bytes_at(field.offset, field.size),
            Kind::DataLocation => self.located(field, 0),
            Kind::RelativeLocation => self.located(field, field.offset.checked_add(4)?),
        }
    }

    /// Text up to its first NUL; bytes that are not UTF-8 are replaced.
    pub fn text(&self, name: &str) -> Option<String> {
        let bytes = self.bytes(name)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    fn located(&self, field: &Field, base: usize) -> Option<&[u8]> {
        let word = u32::from_le_bytes(self.bytes_at(field.offset, 4)?.try_into().ok()?);
        self.bytes_at(base.checked_add((word & 0xffff) as usize)?, (word >> 16) as usize)
    }

    fn bytes_at(&self, offset: usize, size: usize) -> Option<&[u8]> {
        self.data.get(offset..offset.checked_add(size)?)
    }
}

/// The pages of one CPU, in the order they were read.
#[derive(Debug, Clone, Default)]
pub struct CpuPages {
    /// The CPU's number.
    pub cpu: u16,
    /// Whole pages, one after the other.
    pub pages: Vec<Box<[u8]>>,
}

/// What [`decode`] made of pages.
#[derive(Debug, Clone, Default)]
pub struct Decoded {
    /// All events in order of time; of equal times, in order of CPU, and of one CPU as recorded.
    pub events: Vec<Event>,
    /// Events lost, as told by the pages themselves.
    pub missed: u64,
    /// Records of events whose format is not known.
    pub unknown: u64,
    /// Pages that could not be read to their end.
    pub damaged_pages: u64,
}

/// Reads the pages of all CPUs. Pure.
pub fn decode(layout: &PageLayout, formats: &[Arc<EventFormat>], cpus: &[CpuPages]) -> Decoded {
    let by_id: HashMap<u16, &Arc<EventFormat>> = formats.iter().map(|format| (format.id, format)).collect();
    let mut decoded = Decoded::default();
    for cpu in cpus {
        for bytes in &cpu.pages {
            let page = page::parse(layout, bytes);
            decoded.missed += page.missed;
            decoded.damaged_pages += u64::from(page.damaged);
            for record in page.records {
                let id = record.data.first_chunk::<2>().map(|id| u16::from_le_bytes(*id));
                match id.and_then(|id| by_id.get(&id)) {
                    Some(format) => {
                        decoded.events.push(Event::new(
                            record.at_ns,
                            cpu.cpu,
                            Arc::clone(format),
                            record.data,
                        ));
                    }
                    None => decoded.unknown += 1,
                }
            }
        }
    }
    decoded.events.sort_by_key(|event| (event.at_ns, event.cpu));
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format() -> Arc<EventFormat> {
        let text = "name: e\nID: 7\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
                    \tfield:unsigned char small;\toffset:8;\tsize:1;\tsigned:0;\n\
                    \tfield:char text[4];\toffset:9;\tsize:4;\tsigned:0;\n\
                    \tfield:__data_loc char[] tail;\toffset:16;\tsize:4;\tsigned:0;\n\
                    \tfield:__rel_loc char[] after;\toffset:20;\tsize:4;\tsigned:0;\n\
                    \tfield:int far;\toffset:4000;\tsize:4;\tsigned:1;\n";
        Arc::new(EventFormat::parse(text).expect("a format"))
    }

    fn event() -> Event {
        let mut data = vec![7, 0, 0, 0];
        data.extend((-3_i32).to_le_bytes());
        data.extend([0xff, b'a', b'b', 0, b'z', 0, 0, 0]);
        data.extend((24_u32 | 3 << 16).to_le_bytes());
        data.extend((3_u32 | 2 << 16).to_le_bytes()); // 20 + 4 + 3 = 27
        data.extend(b"xy\0pq");
        Event::new(5, 1, format(), &data)
    }

    #[test]
    fn fields_are_read_by_kind_and_sign() {
        let event = event();
        assert_eq!(event.pid(), -3);
        assert_eq!(event.number("small"), Some(255));
        assert_eq!(event.text("text").as_deref(), Some("ab"));
        assert_eq!(event.text("tail").as_deref(), Some("xy"));
        assert_eq!(event.text("after").as_deref(), Some("pq"));
        assert_eq!(event.number("text"), None);
        assert_eq!(event.number("far"), None);
        assert_eq!(event.text("none"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_record_can_be_asked_anything(data in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)) {
            let event = Event::new(0, 0, format(), &data);
            for name in ["common_pid", "small", "text", "tail", "after", "far"] {
                event.number(name);
                event.text(name);
            }
        }
    }
}
