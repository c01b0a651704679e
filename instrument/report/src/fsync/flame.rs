//! All fsyncs of a recording as a flame that hangs (an icicle graph): the call on top, below it what it waited for, below that what the next level's disks
//! did meanwhile. A width is a mean time.

use study::fsync::summary::LevelSummary;
use study::fsync::{Part, Summary};

use super::svg::colour;
use crate::format;
use crate::plot::{Anchor, Drawing, Quantity, Scale};

/// Size of the drawing, in pixels.
const WIDTH: f64 = 760.0;
const ROW: f64 = 22.0;
/// Pixels of a letter, about: what does not fit is left to the tooltip.
const LETTER: f64 = 6.4;

/// The drawing; `None` without fsyncs.
pub fn flame(summary: &Summary, label: &str) -> Option<Drawing> {
    let whole = summary.levels.first()?.whole.mean_ns;
    if summary.fsyncs == 0 || whole <= 0.0 {
        return None;
    }
    let (left, right, top) = (4.0, WIDTH - 4.0, 4.0);
    let x = Scale::linear(0.0, whole, left, right);
    let bottom = top + ROW * (1 + 2 * summary.levels.len()) as f64;
    let mut d = Drawing::new(WIDTH, bottom + 36.0);
    d.across(&x, Quantity::Nanoseconds);
    d.datum(&[&"level", &"part", &"depth", &"from_ns", &"mean_ns", &"share"]);
    let mut block = |depth: usize, level: &str, (name, fill): (&str, &str), from: f64, ns: f64| {
        let y = top + ROW * depth as f64;
        let (x1, x2) = (x.position(from), x.position(from + ns));
        let said = format!("{name}: {} ({}) - {level}", format::duration_ns(ns), format::share(ns / whole));
        d.painted(fill, (x1, y), (x2 - x1 - 1.0, ROW - 2.0), &said);
        let short = format!("{name} {}", format::duration_ns(ns));
        if let Some(text) = [short.as_str(), name].into_iter().find(|text| fits(text, x2 - x1)) {
            d.text("on", (x1 + 5.0, y + 14.0), Anchor::Start, text);
        }
        d.datum(&[&level, &name, &depth, &from.round(), &ns.round(), &format!("{:.4}", ns / whole)]);
    };
    block(0, label, ("fsync", CALL), 0.0, whole);
    // A level explains the time that the devices of the one above worked, which is drawn first: both begin at the left.
    for (at, level) in summary.levels.iter().enumerate() {
        block(1 + 2 * at, &level.name, (&level.name, LEVEL), 0.0, level.whole.mean_ns.min(whole));
        let mut next = 0.0;
        for (part, ns) in blocks(level) {
            block(2 + 2 * at, &level.name, (part.name(), colour(part)), next, ns.min(whole - next));
            next += ns;
        }
    }
    for tick in x.ticks(6) {
        d.line("grid", (x.position(tick), bottom), (x.position(tick), bottom + 5.0));
        d.text("tick", (x.position(tick), bottom + 18.0), Anchor::Middle, &format::duration_ns(tick));
    }
    let fsyncs = format::count(summary.fsyncs);
    let axis = format!("mean time of {fsyncs} fsyncs; a row is what the one above consists of");
    d.text("axis", (WIDTH / 2.0, bottom + 33.0), Anchor::Middle, &axis);
    Some(d)
}

/// Colours of the call, and of a level.
const CALL: &str = "#f0e0b0";
const LEVEL: &str = "#e8d8c8";

/// The parts that took time, those of devices first, so that the next level lies below them.
fn blocks(level: &LevelSummary) -> Vec<(Part, f64)> {
    let (devices, rest): (Vec<_>, Vec<_>) = level
        .parts
        .iter()
        .map(|(part, times)| (*part, times.mean_ns))
        .partition(|(part, _)| part.on_device());
    devices.into_iter().chain(rest).filter(|(_, ns)| *ns > 0.0).collect()
}

fn fits(text: &str, width: f64) -> bool {
    text.chars().count() as f64 * LETTER + 8.0 <= width
}
