//! A database opens its files, each from its end backwards, and then reads points: what was learned and begun at the opening
//! must not stand in the way of what follows.

use prefetch::budget::Memory;
use prefetch::{Budget, Device, FileState, Mode, Read};

const SIZE: u64 = 67_074_800;

struct Database {
    files: Vec<FileState>,
    device: Device,
    budget: Budget,
    now_ns: u64,
}

impl Database {
    fn read(&mut self, at: usize, offset: u64, len: u64, elapsed_us: u64, after_us: u64) {
        self.now_ns += after_us * 1000;
        let read = Read { offset, len, elapsed_ns: Some(elapsed_us * 1000), now_ns: self.now_ns };
        let _ = self.files[at].on_read(&read, &self.device, &self.budget, Mode::Auto);
        while self.files[at].claim_at(self.now_ns, &self.device, &self.budget).is_some() {}
    }

    /// Footer, index of blocks, properties, filter and index, as RocksDB 7.8 does; times of a device of 1 ms.
    fn open() -> Database {
        let mut database = Database {
            files: (0..5).map(|_| FileState::new(SIZE)).collect(),
            device: Device::new(),
            budget: Budget::new(),
            now_ns: 1_000_000,
        };
        database.device.limits.set(128 << 10, 128 << 10);
        database.budget.tell(&Memory { available: 16 << 30, limit: Some(4 << 30), ..Memory::default() });
        for at in 0..5 {
            let mut begin = SIZE;
            for (len, elapsed_us) in
                [(53, 2_085), (91, 3), (902, 4), (511_919, [564, 457, 1_822, 526, 958][at]), (20_106, 1_100)]
            {
                begin -= len;
                database.read(at, begin, len, elapsed_us, 100);
            }
        }
        database
    }
}

#[test]
fn point_reads_after_the_opening_teach_the_latency_and_buy_the_files() {
    let mut database = Database::open();
    let mut random = 7u64;
    let (mut learned, mut bought) = (None, None);
    for reads in 0..2000u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, offset) = ((random >> 60) as usize % 5, (random >> 20) % (SIZE - (1 << 20)));
        // Four threads: one of their reads ends each 0.28 ms.
        database.read(at, offset, 4_141, 1_110, 280);
        if learned.is_none() && (900_000..1_300_000).contains(&database.device.latency_ns()) {
            learned = Some(reads);
        }
        if bought.is_none() && database.files.iter().any(FileState::is_fetching) {
            bought = Some(reads);
        }
    }
    assert!((900_000..1_300_000).contains(&database.device.latency_ns()), "{}", database.device.latency_ns());
    assert!(learned.is_some_and(|reads| reads <= 250), "learned after {learned:?} reads");
    assert!(bought.is_some_and(|reads| reads <= 500), "bought after {bought:?} reads");
}
