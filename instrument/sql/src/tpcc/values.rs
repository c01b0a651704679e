//! NURand, last names, and the constants C (clauses 2.1.6 and 4.3.2.3).

use crate::random::Random;

use super::Size;

/// The syllables of last names, by digit.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name of a number from 0 to 999: its hundreds, tens and units as syllables.
pub fn last_name(number: i64) -> String {
    let digits = [number / 100 % 10, number / 10 % 10, number % 10];
    digits.iter().map(|digit| SYLLABLES[*digit as usize]).collect()
}

/// A of NURand for last names, customers and items.
const A_LAST: i64 = 255;
const A_CUSTOMER: i64 = 1023;
const A_ITEM: i64 = 8191;
/// The largest number of a last name.
const LAST_NAME_MAX: i64 = 999;

/// NURand of two numbers that were drawn: the first from 0 to A, the second from `x` to `y`.
pub fn nurand_of(first: i64, second: i64, x: i64, y: i64, c: i64) -> i64 {
    ((first | second) + c) % (y - x + 1) + x
}

/// The constants C: drawn once for a database and its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// For last names while the tables are filled.
    pub last_load: i64,
    /// For last names in a run; the two are so far apart as clause 2.1.6.1 wants it.
    pub last_run: i64,
    /// For customers.
    pub customer: i64,
    /// For items.
    pub item: i64,
}

impl Constants {
    /// Those of a seed: the same for filling and for every run on it.
    pub fn of(seed: u64) -> Constants {
        /// Keeps this stream apart from those that fill tables.
        const STREAM: u64 = 1 << 40;
        let mut random = Random::of_data(seed, STREAM);
        let last_load = random.within(0, A_LAST);
        let last_run = loop {
            let last_run = random.within(0, A_LAST);
            let apart = last_run.abs_diff(last_load);
            if (65..=119).contains(&apart) && apart != 96 && apart != 112 {
                break last_run;
            }
        };
        Constants {
            last_load,
            last_run,
            customer: random.within(0, A_CUSTOMER),
            item: random.within(0, A_ITEM),
        }
    }
}

fn nurand(random: &mut Random, a: i64, x: i64, y: i64, c: i64) -> i64 {
    nurand_of(random.within(0, a), random.within(x, y), x, y, c)
}

/// A customer of a district.
pub(super) fn customer(random: &mut Random, constants: &Constants, size: &Size) -> i64 {
    nurand(random, A_CUSTOMER, 1, size.customers, constants.customer)
}

/// An item.
pub(super) fn item(random: &mut Random, constants: &Constants, size: &Size) -> i64 {
    nurand(random, A_ITEM, 1, size.items, constants.item)
}

/// A last name that customers of a database of this size have.
pub(super) fn name(random: &mut Random, c: i64, size: &Size) -> String {
    let largest = LAST_NAME_MAX.min(size.customers - 1);
    last_name(nurand(random, A_LAST, 0, largest, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn nurand_agrees_with_values_worked_out_by_hand() {
        for (first, second, x, y, c, value) in [
            (170, 613, 0, 999, 157, 908),
            (600, 2000, 1, 3000, 259, 2268),
            (5000, 77777, 1, 100_000, 7911, 89793),
        ] {
            assert_eq!(nurand_of(first, second, x, y, c), value);
        }
    }

    #[test]
    fn the_two_constants_of_last_names_are_apart_as_the_specification_wants_it() {
        for seed in 0..200 {
            let constants = Constants::of(seed);
            let apart = constants.last_load.abs_diff(constants.last_run);
            assert!((65..=119).contains(&apart) && apart != 96 && apart != 112, "{seed}: {constants:?}");
        }
        assert_eq!(Constants::of(5), Constants::of(5));
    }

    #[test]
    fn the_hottest_customers_get_most_requests() {
        let (size, constants) = (Size::of(1), Constants::of(1));
        let mut random = Random::of_terminal(1, 0);
        let mut counts = vec![0_u32; 3001];
        let draws = 300_000;
        for _ in 0..draws {
            counts[customer(&mut random, &constants, &size) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let share = |number: usize| f64::from(counts[..number].iter().sum::<u32>()) / f64::from(draws);
        // worked out by an independent program: the hottest 1.94 %, the hottest tenth 62 %
        assert!((0.017..0.022).contains(&share(1)), "{}", share(1));
        assert!((0.60..0.64).contains(&share(300)), "{}", share(300));
    }
}
