//! What the model itself costs: wall-clock time per command, driven closed-loop in virtual time.

use std::time::Instant;

use ssd::measure::ClosedLoop;
use ssd::{Command, Config, Profile, Regime, Ssd, StreamTag, Tags, Token};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const BLOCKS: u64 = 1 << 19;
    const COUNT: u64 = 2_000_000;
    let at = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 45;
    for regime in [Regime::Flush, Regime::Streams] {
        let config = Config::new(Profile::named("980pro")?, BLOCKS * 4096).regime(regime);
        let mut l = ClosedLoop::new(Ssd::new(config)?);
        for (name, depth) in [("write", 1), ("write", 32), ("read", 1), ("read", 32)] {
            let start = Instant::now();
            l.run(COUNT, depth, |i, id| match name {
                "read" => Command::read(id, at(id), 1),
                _ => {
                    let major = Some(StreamTag::new(1, (i / 4) as u32));
                    let tags = Tags { major, minor: None, barrier: i % 4 == 3 };
                    let tags = if regime == Regime::Streams && depth == 1 { tags } else { Tags::default() };
                    Command::write(id, at(id), 1, Token(id)).tagged(tags)
                }
            });
            let ns = start.elapsed().as_nanos() as f64 / COUNT as f64;
            println!("{:8} {name:5} depth {depth:2}: {ns:6.0} ns per 4 KiB command", regime.name());
        }
        println!("{:?}", l.ssd.stats());
    }
    Ok(())
}
