//! Scales, ticks and the writing of SVG.

use std::fmt::Write;

/// Text as it may stand in HTML, between tags or in a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

/// Maps values to pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// Even steps from `low` to `high` values over `from` to `to` pixels.
    pub fn linear(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, from, to, log: false }
    }

    /// Even factors; values must be above 0 and smaller ones are drawn at the edge.
    pub fn log(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let low = low.max(1e-9);
        let high = if high > low { high } else { low * 10.0 };
        Scale { low, high, from, to, log: true }
    }

    /// The pixel of a value; values outside are drawn at the edge.
    pub fn position(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// About `wanted` round values within the scale: 1, 2 and 5 times a power of ten, powers of ten when
    /// logarithmic (1, 2 and 5 of each when there are fewer than two of them).
    pub fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.log { self.log_ticks(wanted) } else { self.linear_ticks(wanted) }
    }

    fn linear_ticks(&self, wanted: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / wanted.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough * 0.999);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).take(100).map(|n| n as f64 * step).collect()
    }

    fn log_ticks(&self, wanted: usize) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let inside = |value: &f64| (self.low * 0.999..=self.high * 1.001).contains(value);
        let tens: Vec<f64> = (first..=last).map(|n| 10f64.powi(n)).filter(inside).collect();
        if tens.len() >= 3 {
            let skip = tens.len().div_ceil(wanted.max(1));
            return tens.into_iter().step_by(skip).collect();
        }
        let fine = (first..=last).flat_map(|n| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(n)));
        fine.filter(inside).collect()
    }
}

/// What an axis counts: how a page's script writes values along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Of something each second.
    Rate,
    /// Time in nanoseconds.
    Nanoseconds,
    /// Time in seconds.
    Seconds,
    /// Bytes each second.
    Bandwidth,
    /// From 0 to 1.
    Share,
    /// From 0 to 1, on a logarithmic axis: how much is beyond.
    Tail,
    /// `-log10(1 - q)` of a percentile q.
    Depth,
    /// A ratio.
    Ratio,
    /// A number of things.
    Count,
    /// The place in a row, which has no value.
    Place,
}

impl Quantity {
    fn word(self) -> &'static str {
        match self {
            Quantity::Rate => "rate",
            Quantity::Nanoseconds => "ns",
            Quantity::Seconds => "seconds",
            Quantity::Bandwidth => "bytes",
            Quantity::Share => "share",
            Quantity::Tail => "tail",
            Quantity::Depth => "percentile",
            Quantity::Ratio => "ratio",
            Quantity::Count => "count",
            Quantity::Place => "place",
        }
    }
}

/// A drawing under construction.
#[derive(Debug)]
pub struct Drawing {
    body: String,
    width: f64,
    height: f64,
    /// Attributes that say how values lie on it.
    axes: String,
    /// The figures that it shows, as CSV.
    data: String,
}

/// Where a text's reference point is.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

impl Drawing {
    /// An empty drawing in pixels.
    pub fn new(width: f64, height: f64) -> Drawing {
        Drawing { body: String::new(), width, height, axes: String::new(), data: String::new() }
    }

    /// Says how values lie from left to right, for the script of a page.
    pub fn across(&mut self, scale: &Scale, quantity: Quantity) {
        self.axis("data-x", scale, quantity);
    }

    /// The same from the bottom to the top.
    pub fn up(&mut self, scale: &Scale, quantity: Quantity) {
        self.axis("data-y", scale, quantity);
    }

    /// A line of the figures that it shows: the first one names the columns. They go with the drawing.
    pub fn datum(&mut self, values: &[&dyn std::fmt::Display]) {
        csv_line(&mut self.data, values);
    }

    fn axis(&mut self, name: &str, scale: &Scale, quantity: Quantity) {
        let Scale { low, high, from, to, log } = scale;
        let (kind, word) = (if *log { "log" } else { "linear" }, quantity.word());
        let _ = write!(self.axes, r#" {name}="{from} {to} {low} {high} {kind} {word}""#);
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        );
    }

    /// A rectangle by its corner and size.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64)) {
        let (w, h) = (w.max(0.0), h.max(0.0));
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"/>"#
        );
    }

    /// A rectangle with a tooltip.
    pub fn bar(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        let (w, h, title) = (w.max(0.0), h.max(0.0), escape(title));
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"><title>{title}</title></rect>"#
        );
    }

    /// A rectangle of a colour that does not come from the style, with a tooltip.
    pub fn painted(&mut self, fill: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        let (w, h, title) = (w.max(0.0), h.max(0.0), escape(title));
        let _ = write!(
            self.body,
            r#"<rect class="painted" fill="{fill}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"><title>{title}</title></rect>"#
        );
    }

    /// One place of a heat map: how many were counted there.
    pub fn heat(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), count: u64) {
        let (w, h) = (w.max(0.0), h.max(0.0));
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" data-n="{count}"/>"#
        );
    }

    /// A circle with a tooltip.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), r: f64, title: &str) {
        let title = escape(title);
        let _ = write!(
            self.body,
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{r}"><title>{title}</title></circle>"#
        );
    }

    /// A line through points.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)], title: &str) {
        if points.is_empty() {
            return;
        }
        let mut d = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
        }
        let title = escape(title);
        let _ = write!(self.body, r#"<path class="{class}" d="{d}"><title>{title}</title></path>"#);
    }

    /// A text.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    /// The SVG element; `label` says to those who cannot see it what it shows.
    pub fn finish(self, label: &str) -> String {
        let Drawing { body, width, height, axes, data } = self;
        let label = escape(label);
        let data = metadata(&data);
        format!(
            r#"<svg viewBox="0 0 {width:.0} {height:.0}" role="img" aria-label="{label}"{axes}>{data}{body}</svg>"#
        )
    }

    /// The same, never drawn larger than it is.
    pub fn finish_at_size(self, label: &str) -> String {
        let width = self.width;
        let whole = self.finish(label);
        whole.replacen("<svg ", &format!(r#"<svg style="max-width: {width:.0}px" "#), 1)
    }
}

/// A line of CSV.
pub(crate) fn csv_line(csv: &mut String, values: &[&dyn std::fmt::Display]) {
    for (at, value) in values.iter().enumerate() {
        let value = value.to_string();
        let comma = if at == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = if value.contains([',', '"', '\n', '\r']) {
            write!(csv, "{comma}\"{}\"", value.replace('"', "\"\""))
        } else {
            write!(csv, "{comma}{value}")
        };
    }
    csv.push('\n');
}

/// Figures behind a drawing, where SVG has a place for them.
pub(crate) fn metadata(csv: &str) -> String {
    if csv.is_empty() { String::new() } else { format!("<metadata>{}</metadata>", escape(csv)) }
}

/// The style sheet of the page, of which a drawing by itself takes the colours and what is said of SVG.
const STYLE: &str = include_str!("../templates/style.css");

impl Drawing {
    /// The drawing as a file of its own, light, with its style in it.
    pub fn file(self, label: &str) -> String {
        let Drawing { body, width, height, data, .. } = self;
        let (label, data, light) = (escape(label), metadata(&data), light());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\">\n<title>{label}</title>\n{data}{light}{body}</svg>\n"
        )
    }
}

/// A drawing of a page as a file of its own: with what a file needs and its head does not say.
pub fn file_of(drawing: &str) -> String {
    let (head, rest) = drawing.split_once('>').unwrap_or((drawing, ""));
    let size = head.split_once("viewBox=\"0 0 ").and_then(|(_, size)| size.split_once('"'));
    let (width, height) = size.and_then(|(size, _)| size.split_once(' ')).unwrap_or(("100%", "100%"));
    let mut whole = head.to_string();
    for (name, value) in [("xmlns", "http://www.w3.org/2000/svg"), ("width", width), ("height", height)] {
        if !head.contains(&format!(" {name}=\"")) {
            whole.push_str(&format!(" {name}=\"{value}\""));
        }
    }
    format!("{whole}>{}{rest}\n", light())
}

/// The style of a drawing that is a file of its own, and its ground.
fn light() -> String {
    let colours = STYLE.split_once('}').map_or("", |(colours, _)| colours);
    let rules = STYLE.lines().filter(|line| line.starts_with("svg ") || line.starts_with(".s"));
    let rules: String = rules.filter(|line| !line.contains("scroll")).collect::<Vec<_>>().join("\n");
    format!(
        "<style>{colours}}}\n{rules}</style>\n<rect width=\"100%\" height=\"100%\" style=\"fill: var(--card)\"/>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(Scale::linear(0.0, 128.0, 0.0, 1.0).ticks(4), [0.0, 50.0, 100.0]);
        assert_eq!(Scale::linear(0.0, 0.0, 0.0, 1.0).ticks(2), [0.0, 0.5, 1.0]);
        assert_eq!(Scale::log(900.0, 2e6, 0.0, 1.0).ticks(6), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(Scale::log(1.5e3, 7e3, 0.0, 1.0).ticks(6), [2e3, 5e3]);
    }

    #[test]
    fn a_scale_maps_its_ends_to_its_edges_and_clamps() {
        let scale = Scale::log(1.0, 100.0, 10.0, 30.0);
        assert_eq!((scale.position(1.0), scale.position(10.0), scale.position(100.0)), (10.0, 20.0, 30.0));
        assert_eq!((scale.position(0.0), scale.position(1e9)), (10.0, 30.0));
        assert!(Scale::log(0.0, 0.0, 0.0, 1.0).position(5.0).is_finite());
    }

    #[test]
    fn axes_are_said_in_values_and_pixels() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.across(&Scale::linear(0.0, 4.5, 1.0, 9.0), Quantity::Seconds);
        drawing.up(&Scale::log(1.0, 100.0, 9.0, 1.0), Quantity::Nanoseconds);
        let svg = drawing.finish("a drawing");
        assert!(svg.contains(r#" data-x="1 9 0 4.5 linear seconds" data-y="9 1 1 100 log ns">"#), "{svg}");
    }

    #[test]
    fn a_file_brings_its_style() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.bar("bars s0", (0.0, 0.0), (5.0, 5.0), "one");
        let svg = drawing.file("a drawing");
        for part in ["--c0: #", ".s0 {", "svg .bars {", "<title>a drawing</title>", "</style>"] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(!svg.contains("prefers-color-scheme"), "{svg}");
    }

    #[test]
    fn figures_go_with_the_drawing() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.datum(&[&"stack", &"ns"]);
        drawing.datum(&[&"a,\"b\"<c>", &5]);
        let data = "<metadata>stack,ns\n&quot;a,&quot;&quot;b&quot;&quot;&lt;c&gt;&quot;,5\n</metadata>";
        assert!(drawing.finish("one").contains(data));
    }

    #[test]
    fn labels_cannot_break_out() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.text("t", (0.0, 0.0), Anchor::Start, "</text><script>");
        let svg = drawing.finish("a \"b\" <c>");
        assert!(!svg.contains("<script>") && svg.contains("&quot;b&quot;"), "{svg}");
    }
}
