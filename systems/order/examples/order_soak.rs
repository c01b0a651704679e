//! Many random schedules: `order_soak COUNT [FIRST_SEED] [PROTOCOL]`, for each protocol or one. Prints what it finds.

use order::Protocol;
use order::soak::{Schedule, soak};

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let (count, first) = (args.next().unwrap_or(1000), args.next().unwrap_or(0));
    let mut failed = 0;
    let only = std::env::args().nth(3);
    let wanted = |p: &Protocol| only.as_deref().is_none_or(|name| name == p.name());
    let protocols: Vec<Protocol> = Protocol::ALL.into_iter().filter(wanted).collect();
    if protocols.is_empty() {
        eprintln!("order_soak: no such protocol; known are {}", Protocol::ALL.map(Protocol::name).join(", "));
        std::process::exit(2);
    }
    for protocol in protocols {
        let begun = std::time::Instant::now();
        let mut bad = 0u64;
        for seed in first..first + count {
            if let Err(failure) = soak(&Schedule::new(protocol, seed)) {
                bad += 1;
                println!("{failure}");
                if failed + bad == 1 {
                    println!("{}", failure.trace);
                }
            }
        }
        println!(
            "{}: {count} schedules, {bad} fail, {:.1} s",
            protocol.name(),
            begun.elapsed().as_secs_f64()
        );
        failed += bad;
    }
    std::process::exit(i32::from(failed > 0));
}
