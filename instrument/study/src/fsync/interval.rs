//! Unions and precedence of time intervals: parts that never exceed the whole.

/// A time span: from `start_ns` up to, without, `end_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// Its beginning.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

impl Interval {
    /// A span; empty when the end is not after the start.
    pub fn new(start_ns: u64, end_ns: u64) -> Self {
        Interval { start_ns, end_ns: end_ns.max(start_ns) }
    }

    /// Its length in nanoseconds.
    pub fn length(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// What two spans have in common; `None` when that is nothing.
    pub fn intersection(&self, other: &Interval) -> Option<Interval> {
        let (start_ns, end_ns) = (self.start_ns.max(other.start_ns), self.end_ns.min(other.end_ns));
        (start_ns < end_ns).then_some(Interval { start_ns, end_ns })
    }

    /// Whether the moment lies in it.
    pub fn contains(&self, at_ns: u64) -> bool {
        (self.start_ns..self.end_ns).contains(&at_ns)
    }
}

/// The union as spans that are sorted and do not touch.
pub fn union(mut spans: Vec<Interval>) -> Vec<Interval> {
    spans.retain(|span| span.length() > 0);
    spans.sort();
    let mut joined: Vec<Interval> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.start_ns <= last.end_ns => last.end_ns = last.end_ns.max(span.end_ns),
            _ => joined.push(span),
        }
    }
    joined
}

/// What the time of an fsync is spent on, in the order of precedence: where stages overlap, the moment
/// belongs to the earlier one, because a file system waits for its stages in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The device writes file data.
    DataWrite,
    /// The device writes the journal, the log, or other metadata.
    JournalWrite,
    /// The device empties its cache.
    Flush,
    /// The device writes a commit record past its cache; on a device without FUA, the write and the flush
    /// that stands in for it.
    Fua,
    /// The device does something else for this fsync: metadata reads, discards.
    Other,
    /// In the block layer, not yet given to the driver.
    Queue,
    /// Everything else: computing, waking up, waiting for locks.
    Host,
}

impl Part {
    /// All parts in order of precedence.
    pub const ALL: [Part; 7] =
        [Part::DataWrite, Part::JournalWrite, Part::Flush, Part::Fua, Part::Other, Part::Queue, Part::Host];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Part::DataWrite => "data write",
            Part::JournalWrite => "journal write",
            Part::Flush => "flush",
            Part::Fua => "FUA",
            Part::Other => "other I/O",
            Part::Queue => "queued",
            Part::Host => "host",
        }
    }

    /// Whether the device is at work.
    pub fn on_device(self) -> bool {
        !matches!(self, Part::Queue | Part::Host)
    }
}

/// Nanoseconds by part. Their sum is the whole time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Parts {
    /// See [`Part::DataWrite`].
    pub data_write_ns: u64,
    /// See [`Part::JournalWrite`].
    pub journal_write_ns: u64,
    /// See [`Part::Flush`].
    pub flush_ns: u64,
    /// See [`Part::Fua`].
    pub fua_ns: u64,
    /// See [`Part::Other`].
    pub other_ns: u64,
    /// See [`Part::Queue`].
    pub queue_ns: u64,
    /// See [`Part::Host`].
    pub host_ns: u64,
}

impl Parts {
    /// The time of one part.
    pub fn get(&self, part: Part) -> u64 {
        match part {
            Part::DataWrite => self.data_write_ns,
            Part::JournalWrite => self.journal_write_ns,
            Part::Flush => self.flush_ns,
            Part::Fua => self.fua_ns,
            Part::Other => self.other_ns,
            Part::Queue => self.queue_ns,
            Part::Host => self.host_ns,
        }
    }

    /// Adds time to one part.
    pub fn add(&mut self, part: Part, ns: u64) {
        let slot = match part {
            Part::DataWrite => &mut self.data_write_ns,
            Part::JournalWrite => &mut self.journal_write_ns,
            Part::Flush => &mut self.flush_ns,
            Part::Fua => &mut self.fua_ns,
            Part::Other => &mut self.other_ns,
            Part::Queue => &mut self.queue_ns,
            Part::Host => &mut self.host_ns,
        };
        *slot += ns;
    }

    /// The sum of all parts.
    pub fn total_ns(&self) -> u64 {
        Part::ALL.iter().map(|part| self.get(*part)).sum()
    }
}

/// Divides `windows` (sorted, not touching) among the parts: each moment belongs to the part of highest
/// precedence with a span there, to [`Part::Host`] when there is none.
pub fn divide(windows: &[Interval], spans: &[(Part, Interval)]) -> Parts {
    let clipped = spans.iter().flat_map(|(part, span)| {
        windows.iter().filter_map(move |window| span.intersection(window).map(|span| (*part, span)))
    });
    // +1 where a span starts, -1 where it ends.
    let mut edges: Vec<(u64, Part, i32)> =
        clipped.flat_map(|(part, span)| [(span.start_ns, part, 1), (span.end_ns, part, -1)]).collect();
    edges.sort_by_key(|(at, ..)| *at);
    let mut open = [0_i32; Part::ALL.len()];
    let mut parts = Parts::default();
    let mut before = 0;
    for (at, part, change) in edges {
        if let Some(index) = open.iter().position(|count| *count > 0) {
            parts.add(Part::ALL[index], at - before);
        }
        before = at;
        open[part as usize] += change;
    }
    let whole: u64 = windows.iter().map(Interval::length).sum();
    parts.add(Part::Host, whole - parts.total_ns());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overlaps_belong_to_the_earlier_stage() {
        let spans = [
            (Part::Flush, Interval::new(10, 30)),
            (Part::DataWrite, Interval::new(20, 25)),
            (Part::DataWrite, Interval::new(24, 28)),
            (Part::Queue, Interval::new(5, 12)),
            (Part::Fua, Interval::new(95, 200)),
        ];
        let parts = divide(&[Interval::new(0, 100)], &spans);
        let expected =
            Parts { data_write_ns: 8, flush_ns: 12, queue_ns: 5, fua_ns: 5, host_ns: 70, ..Parts::default() };
        assert_eq!(parts, expected);
    }

    #[test]
    fn touching_spans_join() {
        let spans =
            vec![Interval::new(5, 9), Interval::new(1, 5), Interval::new(20, 10), Interval::new(8, 9)];
        assert_eq!(union(spans), [Interval::new(1, 9)]);
    }

    fn spans() -> impl Strategy<Value = Vec<(Part, Interval)>> {
        proptest::collection::vec(
            (0..Part::ALL.len(), 0_u64..60, 0_u64..20)
                .prop_map(|(part, start, length)| (Part::ALL[part], Interval::new(start, start + length))),
            0..12,
        )
    }

    proptest! {
        /// Against a model that looks at each nanosecond.
        #[test]
        fn as_looking_at_each_nanosecond(spans in spans(), windows in spans()) {
            let windows = union(windows.into_iter().map(|(_, span)| span).collect());
            let mut model = Parts::default();
            for at in 0..100 {
                if windows.iter().any(|window| window.contains(at)) {
                    let here = spans.iter().filter(|(_, span)| span.contains(at)).map(|(part, _)| *part).min();
                    model.add(here.unwrap_or(Part::Host), 1);
                }
            }
            let parts = divide(&windows, &spans);
            prop_assert_eq!(parts, model);
            prop_assert_eq!(parts.total_ns(), windows.iter().map(Interval::length).sum::<u64>());
        }
    }
}
