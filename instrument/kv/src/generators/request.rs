//! The request distributions by name, and the record that each yields.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use workload::rng::{Purpose, Rng, StreamId};
use workload::shuffle::Shuffle;

use crate::KvError;
use crate::keys::fnv;

use super::counter::Counter;
use super::draw::{Draw, below};
use super::zipf::{RejectionZipf, THETA, YcsbZipf, gray};

/// Items of YCSB's scrambled form: 0 to 10^10, both included.
const SCRAMBLED_ITEMS: u64 = 10_000_000_001;
/// Their zeta as YCSB has it as a constant, rounding included.
const SCRAMBLED_ZETA: f64 = 26.46902820178302;
/// Draws after which a record that is there is taken as found: beyond them something is wrong.
const REDRAWS_MAX: u32 = 1_000_000;

/// A request distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Each as likely as each other.
    Uniform,
    /// YCSB's scrambled form of a Zipf distribution over 10^10 items.
    Zipfian,
    /// Zipf's distribution over the records themselves, its ranks scattered by a permutation.
    Zipf,
    /// The newest records most.
    Latest,
    /// Some records get most requests.
    Hotspot {
        /// Share of the records.
        data: f64,
        /// Share of the requests that they get.
        requests: f64,
    },
    /// One after the other.
    Sequential,
    /// The newest records most, exponentially.
    Exponential {
        /// Percent of the requests ...
        percentile: f64,
        /// ... that go to this share of the records.
        share: f64,
    },
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        Ok(match text {
            "uniform" => Distribution::Uniform,
            "zipfian" => Distribution::Zipfian,
            "zipf" => Distribution::Zipf,
            "latest" => Distribution::Latest,
            "hotspot" => Distribution::Hotspot { data: 0.2, requests: 0.8 },
            "sequential" => Distribution::Sequential,
            "exponential" => Distribution::Exponential { percentile: 95.0, share: 0.8571428571 },
            other => {
                return Err(format!(
                    "requestdistribution = {other} is not known; known are uniform, zipfian (YCSB's), zipf (exact), latest, \
                     hotspot, sequential, exponential"
                ));
            }
        })
    }
}

/// The records that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first one.
    pub start: u64,
    /// How many there are at the beginning.
    pub count: u64,
    /// Records of the whole database: new ones follow them.
    pub records: u64,
    /// How many may be inserted meanwhile: the scrambled form spreads over them too.
    pub expected: u64,
}

#[derive(Debug, Clone)]
enum Form {
    Uniform,
    Scrambled { gray: Arc<YcsbZipf>, modulus: u64 },
    Exact { exact: RejectionZipf, places: Arc<Shuffle> },
    Latest(YcsbZipf),
    Hotspot { hot: u64, requests: f64 },
    Sequential(Arc<AtomicU64>),
    Exponential { gamma: f64 },
}

/// A request distribution over records, of one thread: clones share what threads must share.
#[derive(Debug, Clone)]
pub struct Request {
    form: Form,
    range: Range,
    counter: Arc<Counter>,
}

impl Request {
    /// The distribution over a range; `counter` knows which records are there.
    ///
    /// # Errors
    /// Too many records for the exact Zipf (2^32), no record at all.
    pub fn new(
        distribution: Distribution,
        range: Range,
        counter: Arc<Counter>,
        seed: u64,
    ) -> Result<Request, KvError> {
        if range.count == 0 {
            return Err(KvError::Parameter("recordcount = 0: there is no record to ask for".into()));
        }
        let form = match distribution {
            Distribution::Uniform => Form::Uniform,
            Distribution::Zipfian => Form::Scrambled {
                gray: Arc::new(YcsbZipf::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA)),
                // YCSB's upper end is included: one more than there are
                modulus: range.count + range.expected + 1,
            },
            Distribution::Zipf => {
                let len = u32::try_from(range.count).map_err(|_| {
                    KvError::Parameter(format!("requestdistribution = zipf takes up to {} records", u32::MAX))
                })?;
                let rng = StreamId::of_run(seed, Purpose::Other(workload::rng::hash_name("kv.places"))).rng();
                Form::Exact {
                    exact: RejectionZipf::new(range.count, THETA)?,
                    places: Arc::new(Shuffle::new(len, rng)),
                }
            }
            Distribution::Latest => Form::Latest(YcsbZipf::new(counter.limit().saturating_sub(1).max(2))),
            Distribution::Hotspot { data, requests } => {
                Form::Hotspot { hot: (range.count as f64 * data) as u64, requests }
            }
            Distribution::Sequential => Form::Sequential(Arc::default()),
            Distribution::Exponential { percentile, share } => {
                Form::Exponential { gamma: -(1.0 - percentile / 100.0).ln() / (range.records as f64 * share) }
            }
        };
        Ok(Request { form, range, counter })
    }

    /// A record that is there. A draw above the last one that is acknowledged is drawn again.
    pub fn record(&mut self, rng: &mut Rng) -> u64 {
        if let Form::Exact { exact, places } = &self.form {
            let rank = exact.rank(rng);
            return self.range.start + u64::from(places.at(rank as u32));
        }
        self.ycsb_record(rng)
    }

    /// The same for the forms that YCSB has, from any source of uniform numbers.
    fn ycsb_record(&mut self, draw: &mut impl Draw) -> u64 {
        // numbers of records that other loads of the database insert
        let elsewhere = self.range.start + self.range.count..self.range.records;
        for _ in 0..REDRAWS_MAX {
            let limit = self.counter.limit();
            let is_there = |record: &u64| *record < limit && !elsewhere.contains(record);
            if let Some(record) = self.drawn(draw, limit.saturating_sub(1)).filter(is_there) {
                return record;
            }
        }
        self.range.start
    }

    /// One draw; `last` is the newest record. None: below the first record.
    fn drawn(&mut self, draw: &mut impl Draw, last: u64) -> Option<u64> {
        let Range { start, count, .. } = self.range;
        Some(match &mut self.form {
            Form::Uniform => start + below(draw, count),
            Form::Scrambled { gray: ranks, modulus } => start + fnv(gray(draw, ranks)) % *modulus,
            Form::Latest(ranks) => {
                let rank = ranks.rank_among(draw.unit(), last);
                last.checked_sub(rank)?
            }
            Form::Hotspot { hot, requests } => {
                let (hot, cold) = (*hot, count - *hot);
                if (draw.unit() < *requests && hot > 0) || cold == 0 {
                    start + below(draw, hot)
                } else {
                    start + hot + below(draw, cold)
                }
            }
            Form::Sequential(next) => start + next.fetch_add(1, Ordering::Relaxed) % count,
            Form::Exponential { gamma } => {
                let back = -draw.unit().ln() / *gamma;
                last.checked_sub(back as u64)?
            }
            // see `record`
            Form::Exact { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::Java;
    use super::*;

    fn request(distribution: Distribution, count: u64) -> Request {
        let range = Range { start: 0, count, expected: 0, records: count };
        Request::new(distribution, range, Arc::new(Counter::new(count)), 1).unwrap()
    }

    /// The first records for a seed of Java's generator, after the draws of YCSB's constructors.
    fn first(distribution: &str, count: u64, seed: u64, constructor: u32, accepted: bool) -> Vec<u64> {
        let mut request = request(distribution.parse().unwrap(), count);
        if !accepted {
            // the generator alone: nothing is drawn again
            request.counter = Arc::new(Counter::new(u64::MAX));
        }
        let mut java = Java::new(seed);
        (0..constructor).for_each(|_| {
            java.unit();
        });
        (0..20).map(|_| request.ycsb_record(&mut java)).collect()
    }

    #[test]
    fn same_uniform_numbers_same_records_as_ycsb() {
        let zipfian: Vec<u64> = {
            let (gray, mut java) = (YcsbZipf::new(1000), Java::new(42));
            java.unit();
            (0..20).map(|_| gray.rank(java.unit())).collect()
        };
        assert_eq!(zipfian, [90, 4, 3, 79, 484, 7, 3, 16, 194, 545, 13, 151, 9, 1, 45, 2, 269, 1, 43, 152]);
        let behind: Vec<u64> = {
            let (gray, mut java) = (YcsbZipf::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA), Java::new(42));
            java.unit();
            (0..20).map(|_| gray.rank(java.unit())).collect()
        };
        assert_eq!(
            behind,
            [
                9504363, 1290, 585, 6352568, 1259646133, 5683, 566, 56565, 89480908, 1778728125, 29454,
                42834272, 8778, 46, 1232728, 106, 232157813, 40, 1049557, 44173681
            ]
        );
        for (distribution, count, seed, constructor, accepted, expected) in [
            (
                "zipfian",
                1000,
                42,
                1,
                false,
                [
                    263, 783, 140, 215, 328, 321, 604, 282, 612, 672, 367, 868, 369, 200, 734, 672, 206, 269,
                    160, 715,
                ],
            ),
            (
                "zipfian",
                1000,
                1,
                1,
                false,
                [
                    205, 623, 625, 166, 144, 989, 542, 29, 754, 909, 399, 895, 466, 902, 118, 678, 554, 1000,
                    824, 218,
                ],
            ),
            (
                "zipfian",
                1_000_000,
                42,
                1,
                false,
                [
                    597315, 979979, 544007, 382692, 727194, 613702, 713789, 146896, 662569, 437516, 294266,
                    89715, 518618, 811043, 27714, 4787, 862280, 981534, 45710, 36428,
                ],
            ),
            (
                "latest",
                1000,
                42,
                2,
                true,
                [
                    995, 996, 920, 516, 992, 996, 983, 805, 454, 986, 848, 990, 998, 954, 997, 730, 998, 956,
                    847, 961,
                ],
            ),
            (
                "uniform",
                1000,
                42,
                0,
                true,
                [
                    833, 736, 995, 797, 182, 572, 272, 560, 292, 341, 793, 915, 574, 381, 596, 943, 26, 697,
                    986, 191,
                ],
            ),
            (
                "hotspot",
                1000,
                42,
                0,
                true,
                [
                    136, 197, 172, 160, 141, 715, 181, 143, 97, 191, 126, 2, 33, 541, 993, 82, 761, 83, 186,
                    187,
                ],
            ),
            (
                "exponential",
                1000,
                42,
                0,
                true,
                [
                    908, 891, 663, 632, 883, 970, 714, 631, 780, 929, 975, 762, 917, 728, 505, 851, 553, 945,
                    496, 847,
                ],
            ),
        ] {
            let found = first(distribution, count, seed, constructor, accepted);
            assert_eq!(found, expected, "{distribution} of {count}, seed {seed}");
        }
        // workload A throws the 18th of seed 1 away: record 1000 is not there
        let kept = first("zipfian", 1000, 1, 1, true);
        assert_eq!(&kept[16..19], [554, 824, 218]);
    }

    #[test]
    fn given_uniform_numbers_give_these_ranks_and_records() {
        let units = [
            0.0, 0.01, 0.0377, 0.0378, 0.0567, 0.0568, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8,
            0.9, 0.99, 0.999, 0.999999,
        ];
        let gray = YcsbZipf::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA);
        assert_eq!(
            units.map(|unit| gray.rank(unit)),
            [
                0, 0, 0, 1, 1, 1, 6, 83, 296, 1038, 12175, 134552, 1405413, 13910962, 42924421, 130797456,
                1170869537, 8086205587, 9790013524, 9999787803
            ]
        );
        assert_eq!(
            units.map(|unit| fnv(gray.rank(unit)) % 1001),
            [
                144, 144, 144, 610, 610, 610, 942, 421, 809, 824, 847, 367, 108, 11, 767, 104, 991, 745, 483,
                383
            ]
        );
        assert_eq!(gray.constants().3, 0.21220003380967406);
    }

    #[test]
    fn every_distribution_stays_within_what_is_there_and_follows_inserts() {
        let names = ["uniform", "zipfian", "zipf", "latest", "hotspot", "sequential", "exponential"];
        for name in names {
            let counter = Arc::new(Counter::new(60));
            let range = Range { start: 10, count: 50, expected: 20, records: 60 };
            let mut request = Request::new(name.parse().unwrap(), range, counter.clone(), 3).unwrap();
            let mut rng = StreamId::of_run(5, Purpose::Operations).rng();
            let mut seen = std::collections::BTreeSet::new();
            for step in 0..5000 {
                if step == 2000 {
                    (0..10).for_each(|_| counter.acknowledge(counter.take()));
                }
                let record = request.record(&mut rng);
                assert!(record < counter.limit(), "{name}: {record}");
                seen.insert(record);
            }
            if ["latest", "exponential", "zipfian"].contains(&name) {
                assert!(seen.contains(&69), "{name} finds what was inserted");
            } else {
                assert!(seen.iter().all(|record| (10..60).contains(record)), "{name}");
            }
            assert!(seen.len() >= 40, "{name}: {}", seen.len());
        }
        let wrong = "pareto".parse::<Distribution>().unwrap_err();
        assert!(wrong.contains("zipf (exact)"), "{wrong}");
    }

    #[test]
    fn the_hottest_tenth_of_the_exact_form_gets_what_theory_says() {
        let (mut exact, mut ycsb) = (request(Distribution::Zipf, 1000), request(Distribution::Zipfian, 1000));
        let mut rng = StreamId::of_run(9, Purpose::Operations).rng();
        let share = |request: &mut Request, rng: &mut Rng| {
            let mut counts = vec![0u32; 1000];
            (0..200_000).for_each(|_| counts[request.record(rng) as usize] += 1);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            f64::from(counts[..100].iter().sum::<u32>()) / 200_000.0
        };
        let (exact, ycsb) = (share(&mut exact, &mut rng), share(&mut ycsb, &mut rng));
        assert!((0.68..0.70).contains(&exact), "{exact}: theory 0.685");
        assert!((0.27..0.31).contains(&ycsb), "{ycsb}: 0.29 with YCSB itself");
    }
}
