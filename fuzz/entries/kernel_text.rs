//! Any text in place of what /proc and tracefs show gives facts or none.

use std::sync::Arc;

use host::mountinfo;
use host::process::Stat;
use trace::event::{CpuPages, Event};
use trace::format::EventFormat;
use trace::page::{self, PageLayout};

/// `events/header_page` of a 64-bit kernel.
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
/// An event with a field of each kind.
const FORMAT: &str = "name: e\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:char rwbs[10];\toffset:8;\tsize:10;\tsigned:0;\n\
    \tfield:__data_loc char[] cmd;\toffset:20;\tsize:4;\tsigned:0;\n\
    \tfield:__rel_loc char[] tail;\toffset:24;\tsize:4;\tsigned:0;\n";

/// The first byte says what the rest is.
pub fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    match kind % 4 {
        0 => {
            let mounts = mountinfo::parse(&text);
            for mount in &mounts {
                let _ = mountinfo::topmost_at(&mounts, &mount.target);
                let _ = mountinfo::below(&mounts, &mount.target);
                let _ = mountinfo::containing(&mounts, &mount.target);
            }
        }
        1 => {
            if let Some(stat) = Stat::parse(&text) {
                (0..=60).for_each(|number| _ = stat.field::<u64>(number));
            }
        }
        2 => {
            // A format or a layout, and a record of zeros of that event.
            if let Ok(format) = EventFormat::parse(&text) {
                all_fields(&Event::new(0, 0, Arc::new(format), &[0; 64]));
            }
            if let Ok(layout) = PageLayout::parse(&text) {
                let _ = page::parse(&layout, &[0xff; 4096]);
            }
        }
        _ => {
            let (Ok(layout), Ok(format)) = (PageLayout::parse(HEADER_PAGE), EventFormat::parse(FORMAT))
            else {
                panic!("the layouts of this file");
            };
            let pages = CpuPages { cpu: 0, pages: vec![bytes.into()] };
            let decoded = trace::event::decode(&layout, &[Arc::new(format)], &[pages]);
            decoded.events.iter().for_each(all_fields);
        }
    }
}

fn all_fields(event: &Event) {
    let _ = (event.name(), event.pid());
    for name in ["common_type", "common_pid", "rwbs", "cmd", "tail", "dev"] {
        let _ = (event.number(name), event.bytes(name), event.text(name));
    }
}
