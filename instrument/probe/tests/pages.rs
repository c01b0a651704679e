//! Pages, formats and the text of one and the same trace of a kernel must tell the same.

mod common;

use std::sync::Arc;

use common::{fixture, text};
use probe::fsync::event::TraceEvent;
use probe::fsync::ftrace;
use proptest::prelude::*;
use trace::EventFormat;
use trace::event::{CpuPages, Decoded, decode};
use trace::page::PageLayout;

fn formats() -> Vec<Arc<EventFormat>> {
    let text = text("formats.txt");
    let parts = text.split("----\n").filter(|part| !part.trim().is_empty());
    parts.map(|part| Arc::new(EventFormat::parse(part).expect("a format"))).collect()
}

fn layout() -> PageLayout {
    PageLayout::parse(&text("header_page.txt")).expect("a layout")
}

fn pages() -> Vec<CpuPages> {
    let page = |cpu: u16| std::fs::read(fixture(&format!("cpu{cpu}.page"))).expect("a page");
    (0..2).map(|cpu| CpuPages { cpu, pages: vec![page(cpu).into()] }).collect()
}

#[test]
fn binary_pages_tell_what_the_kernel_prints() {
    let Decoded { events, missed, unknown, damaged_pages } = decode(&layout(), &formats(), &pages());
    assert_eq!((missed, unknown, damaged_pages), (0, 0, 0));
    let mut from_pages: Vec<TraceEvent> = events.iter().filter_map(TraceEvent::of).collect();
    let from_text = ftrace::parse(&text("trace.txt"));
    assert_eq!(from_pages.len(), text("trace.txt").lines().count());
    assert_eq!(from_pages.len(), from_text.len());
    for (page, text) in from_pages.iter_mut().zip(&from_text) {
        // The text has microseconds only.
        assert!(page.at_ns.abs_diff(text.at_ns) <= 1_000, "{page:?} {text:?}");
        page.at_ns = text.at_ns;
    }
    assert_eq!(from_pages, from_text);
}

#[test]
fn records_of_unknown_events_are_counted() {
    let known: Vec<_> = formats().into_iter().filter(|format| format.name != "block_rq_issue").collect();
    let decoded = decode(&layout(), &known, &pages());
    assert_eq!(decoded.unknown, 5);
    assert!(decoded.events.iter().all(|event| event.name() != "block_rq_issue"));
}

proptest! {
    /// Damage anywhere in a page costs events, nothing else.
    #[test]
    fn damaged_pages_never_panic(damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..8), cut in 0_usize..1100) {
        let mut cpus = pages();
        for cpu in &mut cpus {
            let page = &mut cpu.pages[0];
            for (at, byte) in &damage {
                let at = usize::from(*at) % page.len();
                page[at] = *byte;
            }
            let keep = cut.min(page.len());
            *page = page[..keep].into();
        }
        let decoded = decode(&layout(), &formats(), &cpus);
        let moments: Vec<TraceEvent> = decoded.events.iter().filter_map(TraceEvent::of).collect();
        common::explained(&moments, &common::on_loop("ext4", 0, 1));
    }
}
