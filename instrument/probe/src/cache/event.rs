//! What happened in the page cache: the events the account needs, as plain data.

use crate::fsync::event::Dev;
use trace::{Event, Selection};

/// Something that happened to a file's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheEvent {
    /// When, in nanoseconds of the trace clock.
    pub at_ns: u64,
    /// The running thread.
    pub pid: i32,
    /// The file.
    pub inode: u64,
    /// The first page, in pages from the file's beginning.
    pub index: u64,
    /// What it was.
    pub what: CacheEventKind,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheEventKind {
    /// Pages came into the cache.
    Added {
        /// How many.
        pages: u64,
    },
    /// Pages left it.
    Removed {
        /// How many.
        pages: u64,
    },
    /// A read asks for the pages up to `last`, and the first of them is in the cache by now.
    Wanted {
        /// The last page that is asked for, inclusive.
        last: u64,
    },
    /// A page of a mapping is touched and not yet mapped.
    Fault,
    /// Present pages up to `last` are mapped around a fault.
    Mapped {
        /// The last one, inclusive.
        last: u64,
    },
    /// The kernel begins to read this many pages, wanted ones and further ones.
    ReadAhead {
        /// How many.
        pages: u64,
    },
}

impl CacheEvent {
    /// The moment an event tells of; `None` for other events.
    pub fn of(event: &Event) -> Option<Self> {
        let pages = |event: &Event| 1_u64 << event.number("order").unwrap_or(0).min(20);
        let what = match event.name() {
            "mm_filemap_add_to_page_cache" => CacheEventKind::Added { pages: pages(event) },
            "mm_filemap_delete_from_page_cache" => CacheEventKind::Removed { pages: pages(event) },
            "mm_filemap_get_pages" => CacheEventKind::Wanted { last: event.number("last_index")? },
            "mm_filemap_fault" => CacheEventKind::Fault,
            "mm_filemap_map_pages" => CacheEventKind::Mapped { last: event.number("last_index")? },
            "page_cache_ra_order" => CacheEventKind::ReadAhead { pages: event.number("size")? },
            "page_cache_ra_unbounded" => CacheEventKind::ReadAhead { pages: event.number("nr_to_read")? },
            _ => return None,
        };
        let (inode, index) = (event.number("i_ino")?, event.number("index")?);
        Some(CacheEvent { at_ns: event.at_ns, pid: event.pid(), inode, index, what })
    }
}

/// The tracepoints for one file system. All are needed but those of mappings.
pub fn selections(file_system: Dev) -> Vec<Selection> {
    let filter = Some(format!("s_dev == {}", file_system.0));
    let events = [
        ("filemap", "mm_filemap_add_to_page_cache", true),
        ("filemap", "mm_filemap_delete_from_page_cache", true),
        ("filemap", "mm_filemap_get_pages", true),
        ("filemap", "mm_filemap_fault", false),
        ("filemap", "mm_filemap_map_pages", false),
        ("readahead", "page_cache_ra_order", true),
        ("readahead", "page_cache_ra_unbounded", true),
    ];
    let selection = |(system, name, required)| Selection { system, name, filter: filter.clone(), required };
    events.into_iter().map(selection).collect()
}
