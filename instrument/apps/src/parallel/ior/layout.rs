//! Which transfer of a task lies where.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::options::{Options, Order};

/// Where the transfers of one task's data lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    transfer: u64,
    block: u64,
    /// From one segment's beginning to the next one's.
    segment: u64,
    /// Where the task's block begins in a segment.
    within: u64,
}

impl Layout {
    /// Those of `owner`, one of so many tasks.
    pub(crate) fn of(options: &Options, owner: u32, tasks: u32) -> Layout {
        let Options { transfer, block, file_per_process, .. } = *options;
        let (tasks, owner) = if file_per_process { (1, 0) } else { (u64::from(tasks), u64::from(owner)) };
        Layout { transfer, block, segment: block * tasks, within: block * owner }
    }

    /// Where transfer number `number` lies in the file.
    pub(crate) fn offset(&self, number: u64) -> u64 {
        let in_block = self.block / self.transfer;
        number / in_block * self.segment + self.within + number % in_block * self.transfer
    }
}

/// The order of a task's transfers.
#[derive(Debug)]
pub(crate) enum Sequence {
    Sequential,
    Shuffled(Vec<u32>),
    Drawn(Xoshiro256PlusPlus, u64),
}

impl Sequence {
    /// An order of so many transfers.
    pub(crate) fn new(order: Order, transfers: u64, seed: u64) -> Sequence {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        match order {
            Order::Sequential => Sequence::Sequential,
            Order::Shuffled => {
                let mut numbers: Vec<u32> = (0..u32::try_from(transfers).unwrap_or(u32::MAX)).collect();
                numbers.shuffle(&mut rng);
                Sequence::Shuffled(numbers)
            }
            Order::Drawn => Sequence::Drawn(rng, transfers.max(1)),
        }
    }

    /// The number of the transfer that is done as the `at`th.
    pub(crate) fn number(&mut self, at: u64) -> u64 {
        match self {
            Sequence::Sequential => at,
            Sequence::Shuffled(numbers) => numbers.get(at as usize).map_or(at, |number| u64::from(*number)),
            Sequence::Drawn(rng, transfers) => rng.random_range(0..*transfers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::ior::options::GRAMMAR;

    fn options(text: &str) -> Options {
        Options::new(&GRAMMAR.parse(text).unwrap()).unwrap()
    }

    /// Every byte of a shared file belongs to one transfer of one task.
    #[test]
    fn shared_files_are_covered_once() {
        for (text, tasks) in [("-b 64 -t 16 -s 3", 5), ("-b 16 -t 16 -s 7", 4), ("-b 32 -t 8", 3)] {
            let options = options(text);
            let mut offsets: Vec<u64> = (0..tasks)
                .flat_map(|task| {
                    let layout = Layout::of(&options, task, tasks);
                    (0..options.transfers()).map(move |number| layout.offset(number))
                })
                .collect();
            offsets.sort_unstable();
            let whole = options.bytes_of_task() * u64::from(tasks);
            assert!(offsets.into_iter().eq((0..whole).step_by(options.transfer as usize)), "{text}");
        }
        let strided = options("-b 16 -t 16 -s 9");
        let layout = Layout::of(&strided, 2, 4);
        assert_eq!([layout.offset(0), layout.offset(1)], [32, 96]);
        assert_eq!(Layout::of(&options("-F -b 64 -t 16 -s 2"), 2, 4).offset(5), 80);
    }

    #[test]
    fn a_shuffled_order_has_each_once() {
        let mut sequence = Sequence::new(Order::Shuffled, 1000, 7);
        let mut numbers: Vec<u64> = (0..1000).map(|at| sequence.number(at)).collect();
        assert!(numbers.iter().enumerate().filter(|(at, number)| *at as u64 == **number).count() < 20);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1000));
        let mut drawn = Sequence::new(Order::Drawn, 10, 7);
        assert!((0..1000).all(|at| drawn.number(at) < 10));
    }
}
