//! How many containers run a load at once, one cell for each number: `40`, or `[40, 100, 200]`.

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The parameter of a cell that says how many.
pub const CONTAINERS: &str = "containers";
/// Most containers of a trial: beyond it, starting them takes longer than most loads.
pub const CONTAINERS_MAX: u32 = 1000;

/// Numbers of containers, each once and at least 1; none: the load runs without containers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counts(Vec<u32>);

impl Counts {
    /// Checks the numbers.
    ///
    /// # Errors
    /// What is wrong with them, as a sentence.
    pub fn new(numbers: Vec<u32>) -> Result<Counts, String> {
        if let Some(number) = numbers.iter().find(|number| !(1..=CONTAINERS_MAX).contains(*number)) {
            return Err(format!(
                "{number} containers are out of range; 1 to {CONTAINERS_MAX}, or none at all by leaving it out"
            ));
        }
        if let Some((_, twice)) =
            numbers.iter().enumerate().find(|(at, number)| numbers[..*at].contains(number))
        {
            return Err(format!("{twice} containers stand twice"));
        }
        Ok(Counts(numbers))
    }

    /// Whether loads run without containers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}

impl std::str::FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |word: &str| {
            let word = word.trim();
            word.parse()
                .map_err(|_| format!("`{word}` is not a number of containers; write 40, or 40,100,200"))
        };
        Counts::new(text.split(',').map(number).collect::<Result<_, _>>()?)
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Vec<u32>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "a number of containers, or a list: 40, [40, 100, 200]")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Vec<u32>, E> {
                u32::try_from(number).map(|number| vec![number]).map_err(|_| {
                    E::custom(format!("{number} containers are out of range; 1 to {CONTAINERS_MAX}"))
                })
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Vec<u32>, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<u32>, E> {
                text.parse::<Counts>().map(|counts| counts.0).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<u32>, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = seq.next_element::<u32>()? {
                    numbers.push(number);
                }
                Ok(numbers)
            }
        }
        Counts::new(deserializer.deserialize_any(Numbers)?).map_err(D::Error::custom)
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
    fn each_number_is_a_cell() {
        let read = study("containers = [40, 100]").unwrap();
        let cells = plan::cells(&read);
        let shown: Vec<String> =
            cells.iter().map(|cell| format!("{:?} {}", cell.parameters, cell.stack)).collect();
        assert_eq!(cells.len(), 4, "{shown:?}");
        assert!(cells.iter().all(|cell| cell.parameters[0].name == CONTAINERS));
        assert_eq!((&*cells[0].parameters[0].value, &*cells[3].parameters[0].value), ("40", "100"));
        assert_eq!(Study::from_stored(&read.to_toml()).unwrap(), read);
        assert_eq!(study("containers = 7").unwrap().study.containers, "7".parse().unwrap());
        assert!(!study("").unwrap().to_toml().contains("containers"), "stored studies keep their hash");
    }

    #[test]
    fn wrong_numbers_and_what_contradicts_containers_are_refused() {
        for (settings, wrong) in [
            ("containers = 0", "0 containers are out of range; 1 to 1000"),
            ("containers = -3", "-3 containers are out of range"),
            ("containers = [4, 4]", "4 containers stand twice"),
            ("containers = 1001", "1001 containers are out of range"),
            ("containers = 'many'", "`many` is not a number of containers"),
            ("containers = 4\ncold = true", "`cold` unmounts the stack"),
            ("containers = 4\nexplain = true", "`explain` follows the processes of a trial"),
            ("containers = 4\n[parameters]\ncontainers = [1, 2]", "a variable is called `containers`"),
        ] {
            let error = study(settings).unwrap_err();
            assert!(error.contains(wrong), "{settings}: {error}");
        }
        assert_eq!("40,100".parse::<Counts>().unwrap().iter().collect::<Vec<_>>(), [40, 100]);
        assert!("0".parse::<Counts>().is_err() && "".parse::<Counts>().is_err());
    }
}
