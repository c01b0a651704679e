//! Any bytes from another rank are frames or an error; any time that it tells gives an offset that can be worked with, or none.

use cluster::{Offset, wire};

/// Nanoseconds of this side's clock: of a machine that has been up for a month.
const NOW_NS: i64 = 30 * 86_400 * 1_000_000_000;

pub fn run(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok((kind, payload)) = wire::receive(&mut rest) {
        let mut again = Vec::new();
        wire::send(&mut again, kind, &payload).expect("what came can be sent");
        assert_eq!(wire::receive(&mut &again[..]).expect("a frame"), (kind, payload.clone()));
        let _ = cluster::fuzzing::hello(&payload);
        let times: Vec<i64> = payload
            .chunks_exact(8)
            .map(|time| i64::from_le_bytes(time.try_into().expect("eight bytes")))
            .collect();
        let rounds = (0..).zip(&times).map(|(at, time)| (NOW_NS + 1000 * at, *time, NOW_NS + 1000 * at + 10));
        let first = Offset::of_rounds(rounds);
        let later = times.last().and_then(|time| Offset::of_rounds([(2 * NOW_NS, *time, 2 * NOW_NS + 10)]));
        if let (Some(first), Some(later)) = (first, later) {
            let _ = (first.there(NOW_NS), first.to_local(NOW_NS), first.drift_ppm(&later));
            let _ = first.between(&later, NOW_NS + NOW_NS / 2).there(NOW_NS);
        }
    }
}
