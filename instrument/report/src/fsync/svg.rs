//! One fsync as a waterfall in SVG, to be put into a page of HTML.

use std::fmt::Write;

use super::terminal::{micros, rows, title};
use crate::plot::{csv_line, metadata};
use study::fsync::Breakdown;
use study::fsync::Part;
use study::fsync::interval::Interval;

const WIDTH: u32 = 760;
/// Left of the time axis: the names.
const NAMES: u32 = 190;
/// Right of it: the times.
const TIMES: u32 = 80;
const ROW: u32 = 16;
/// More rows than this per level are not drawn; their figures are in the drawing all the same.
const ROWS_MAX: usize = 60;

/// The colour of a part; told apart also without red and green (after Okabe and Ito, 2008).
pub(super) fn colour(part: Part) -> &'static str {
    match part {
        Part::DataWrite => "#0072b2",
        Part::JournalWrite => "#009e73",
        Part::Flush => "#e69f00",
        Part::Fua => "#d55e00",
        Part::Other => "#cc79a7",
        Part::Queue => "#999999",
        Part::Host => "#d9d9d9",
    }
}

/// The picture: `<svg>` with its own size, no script, no style from outside. Text is in the colour of the
/// page.
pub fn waterfall(fsync: &Breakdown) -> String {
    let call = Interval::new(fsync.start_ns, fsync.start_ns + fsync.total_ns);
    let (mut body, mut y) = (String::new(), 18);
    let mut data = String::new();
    csv_line(&mut data, &[&"level", &"what", &"from_ns", &"to_ns", &"part"]);
    let heading = format!("{}: {} us", title(fsync), micros(fsync.total_ns));
    text(&mut body, 4, y, "start", &heading, true);
    y += 10;
    for (depth, level) in fsync.levels.iter().enumerate() {
        y += ROW + 4;
        text(&mut body, 4, y, "start", &format!("{}: {} us", level.name, micros(level.windows_ns)), true);
        let rows = rows(level, (depth == 0).then_some(call));
        for (number, row) in rows.iter().enumerate() {
            let start = row.span.start_ns.saturating_sub(call.start_ns);
            let (x, width) = place(start, row.span.length(), call.length());
            let label =
                if row.rwbs.is_empty() { row.label.into() } else { format!("{} {}", row.label, row.rwbs) };
            let end = start + row.span.length();
            csv_line(&mut data, &[&level.name, &label, &start, &end, &row.part.map_or("", Part::name)]);
            if number >= ROWS_MAX {
                continue;
            }
            y += ROW;
            text(&mut body, 12, y, "start", &label, false);
            let Some(part) = row.part else {
                let _ = writeln!(body, r#"<path d="M{x:.1} {} v10" stroke="currentColor"/>"#, y - 10);
                continue;
            };
            let tip = format!("{label}: {} us, from {} us", micros(row.span.length()), micros(start));
            let _ = writeln!(
                body,
                r#"<rect x="{x:.1}" y="{}" width="{width:.1}" height="10" fill="{}"><title>{}</title></rect>"#,
                y - 9,
                colour(part),
                escape(&tip)
            );
            text(&mut body, WIDTH - 4, y, "end", &micros(row.span.length()), false);
        }
        if let Some(more @ 1..) = rows.len().checked_sub(ROWS_MAX) {
            y += ROW;
            text(&mut body, 12, y, "start", &format!("... {more} more"), false);
        }
    }
    y += ROW + 6;
    legend(&mut body, y);
    let height = y + 12;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <title>{}</title>\n{}\n{body}</svg>\n",
        escape(&heading),
        metadata(&data)
    )
}

fn place(start_ns: u64, length_ns: u64, whole_ns: u64) -> (f64, f64) {
    let (axis, whole) = (f64::from(WIDTH - NAMES - TIMES), whole_ns.max(1) as f64);
    let from = (start_ns as f64 / whole).min(1.0);
    let width = (length_ns as f64 / whole).min(1.0 - from);
    (f64::from(NAMES) + axis * from, (axis * width).max(0.5))
}

fn legend(body: &mut String, y: u32) {
    for (at, part) in (0_u32..).zip(Part::ALL) {
        let x = 12 + at * 104;
        let _ =
            writeln!(body, r#"<rect x="{x}" y="{}" width="10" height="10" fill="{}"/>"#, y - 9, colour(part));
        text(body, x + 14, y, "start", part.name(), false);
    }
}

fn text(body: &mut String, x: u32, y: u32, anchor: &str, text: &str, bold: bool) {
    let weight = if bold { r#" font-weight="bold""# } else { "" };
    let _ = writeln!(
        body,
        r#"<text x="{x}" y="{y}" text-anchor="{anchor}"{weight} fill="currentColor">{}</text>"#,
        escape(text)
    );
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // Not allowed in XML at all.
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_threads_cannot_break_the_page() {
        assert_eq!(escape("a<b>&\"\u{1}"), "a&lt;b&gt;&amp;&quot;\u{fffd}");
    }
}
