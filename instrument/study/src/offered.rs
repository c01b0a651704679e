//! The rates of a sweep: `["max", "10%", "95%", 5000]`, one cell for each.

use std::fmt;

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::results::Cell;

/// The parameter of a cell that says how much is offered.
pub const OFFERED: &str = "offered";
/// Highest share of the saturation that is offered, in percent.
const PERCENT_MAX: f64 = 1_000.0;

/// One rate of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OfferedRate {
    /// No rate: each operation begins when the one before has ended (closed loop). What comes of it is the saturation.
    Max,
    /// Percent of the saturation of the same load on the same stack.
    Share(f64),
    /// Operations a second.
    Rate(f64),
}

impl OfferedRate {
    /// The rate of a cell; none when its study sweeps no rates.
    pub fn of(cell: &Cell) -> Option<OfferedRate> {
        cell.parameters.iter().find(|one| one.name == OFFERED)?.value.parse().ok()
    }
}

impl fmt::Display for OfferedRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OfferedRate::Max => write!(f, "max"),
            OfferedRate::Share(percent) => write!(f, "{percent}%"),
            OfferedRate::Rate(rate) => write!(f, "{rate}"),
        }
    }
}

impl std::str::FromStr for OfferedRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.trim();
        if word == "max" {
            return Ok(OfferedRate::Max);
        }
        let wrong =
            || format!("`{word}` is not a rate; write max, 50% (of max) or 5000 (operations a second)");
        let (number, is_share) = word.strip_suffix('%').map_or((word, false), |number| (number.trim(), true));
        let value: f64 = if is_share {
            number.parse().map_err(|_| wrong())?
        } else {
            match number.strip_suffix(['k', 'K']) {
                Some(thousands) => thousands.parse::<f64>().map_err(|_| wrong())? * 1e3,
                None => number.parse().map_err(|_| wrong())?,
            }
        };
        let most = if is_share { PERCENT_MAX } else { 1e9 };
        if !(value.is_finite() && value > 0.0 && value <= most) {
            return Err(format!("{word} is out of range; above 0, to {most}"));
        }
        Ok(if is_share { OfferedRate::Share(value) } else { OfferedRate::Rate(value) })
    }
}

/// The rates of a sweep, each once, shares with `max` among them. Without any, no rates are swept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OfferedRates(Vec<OfferedRate>);

impl OfferedRates {
    /// Checks the rates; `max` comes first, shares after it and rates last, each rising.
    ///
    /// # Errors
    /// What is wrong with them, as a sentence.
    pub fn new(mut levels: Vec<OfferedRate>) -> Result<OfferedRates, String> {
        let key = |level: &OfferedRate| match level {
            OfferedRate::Max => (0, 0.0),
            OfferedRate::Share(percent) => (1, *percent),
            OfferedRate::Rate(rate) => (2, *rate),
        };
        levels.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
        if let Some(pair) = levels.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("the rate {} stands twice", pair[0]));
        }
        let shares = levels.iter().any(|level| matches!(level, OfferedRate::Share(_)));
        if shares && levels.first() != Some(&OfferedRate::Max) {
            return Err("shares are of `max`: add it".into());
        }
        Ok(OfferedRates(levels))
    }

    /// What `loadline sweep` offers: a tenth to nine tenths of the saturation, then closer steps to beyond it.
    pub fn ladder() -> OfferedRates {
        let shares =
            [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 85.0, 90.0, 95.0, 100.0, 105.0, 110.0, 120.0];
        OfferedRates(std::iter::once(OfferedRate::Max).chain(shares.map(OfferedRate::Share)).collect())
    }

    /// The same with fewer steps.
    pub fn quick() -> OfferedRates {
        let shares = [20.0, 50.0, 80.0, 90.0, 100.0, 110.0, 120.0];
        OfferedRates(std::iter::once(OfferedRate::Max).chain(shares.map(OfferedRate::Share)).collect())
    }

    /// Whether no rates are swept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rates, in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = OfferedRate> {
        self.0.iter().copied()
    }
}

impl std::str::FromStr for OfferedRates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        OfferedRates::new(text.split(',').map(str::parse).collect::<Result<_, _>>()?)
    }
}

impl Serialize for OfferedRates {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(OfferedRate::to_string))
    }
}

impl<'de> Deserialize<'de> for OfferedRates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum RawRate {
            Text(String),
            Number(f64),
        }
        struct Rates;
        impl<'de> Visitor<'de> for Rates {
            type Value = Vec<OfferedRate>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of rates: [\"max\", \"50%\", 5000]")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<OfferedRate>, E> {
                text.parse::<OfferedRates>().map(|offered| offered.0).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<OfferedRate>, A::Error> {
                let mut levels = Vec::new();
                while let Some(one) = seq.next_element::<RawRate>()? {
                    let text = match one {
                        RawRate::Text(text) => text,
                        RawRate::Number(number) => number.to_string(),
                    };
                    levels.push(text.parse().map_err(A::Error::custom)?);
                }
                Ok(levels)
            }
        }
        OfferedRates::new(deserializer.deserialize_any(Rates)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Study;
    use crate::plan;

    fn study(settings: &str) -> Result<Study, String> {
        let text = format!("stacks = ['ext4', 'xfs']\n[study]\n{settings}\n[[workload]]\napp = 'tree'\n");
        Study::from_stored(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn each_rate_is_a_cell_and_is_stored() {
        let read = study("offered = [5000, '50%', 'max']\ntrials = 2").unwrap();
        let cells = plan::cells(&read);
        let shown: Vec<String> =
            cells.iter().map(|cell| format!("{} {}", cell.parameters[0].value, cell.stack)).collect();
        assert_eq!(shown.len(), 6);
        assert_eq!((&*shown[0], &*shown[2], &*shown[5]), ("max ext4", "50% ext4", "5000 xfs"));
        assert_eq!(Study::from_stored(&read.to_toml()).unwrap(), read);
        assert!(!study("").unwrap().to_toml().contains("offered"), "stored studies keep their hash");
    }

    /// Block by block: first what shares are of, then up the ladder, in the next block down.
    #[test]
    fn rates_go_up_and_down() {
        let read = study("offered = 'max,50%,100%'\ntrials = 2").unwrap();
        let cells = plan::cells(&read);
        let order: Vec<String> = plan::order(&read)
            .iter()
            .map(|slot| format!("{}{}", slot.index, cells[slot.cell as usize].parameters[0].value))
            .collect();
        assert_eq!(
            order,
            [
                "0max", "0max", "050%", "050%", "0100%", "0100%", //
                "1max", "1max", "1100%", "1100%", "150%", "150%"
            ]
        );
    }

    #[test]
    fn wrong_rates_and_what_contradicts_them_are_refused() {
        for (settings, wrong) in [
            ("offered = ['50%']", "shares are of `max`: add it"),
            ("offered = ['max', 'max']", "the rate max stands twice"),
            ("offered = ['max', 'much']", "`much` is not a rate"),
            ("offered = [0]", "out of range"),
            ("offered = ['max', '2000%']", "out of range"),
            ("offered = ['max']\nrate = 5", "`rate`"),
            ("offered = ['max']\ncontainers = 4", "`containers`"),
            ("offered = ['max']\n[parameters]\noffered = [1, 2]", "a variable is called `offered`"),
        ] {
            let error = study(settings).unwrap_err();
            assert!(error.contains(wrong), "{settings}: {error}");
        }
        assert_eq!("1.5k".parse::<OfferedRate>().unwrap(), OfferedRate::Rate(1500.0));
        for ladder in [OfferedRates::ladder(), OfferedRates::quick()] {
            assert_eq!(OfferedRates::new(ladder.0.clone()).unwrap(), ladder);
        }
    }
}
