//! Prints the table of `docs/ssd.md`: published figure, what the model gives, source.

use ssd::measure::measure;
use ssd::profile::{NAMES, Profile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("| profile | figure | published | model | allowed | source |\n|---|---|---|---|---|---|");
    for name in NAMES {
        let profile = Profile::named(name)?;
        for p in &profile.published {
            let metric = p.metric.name();
            let (got, percent) = (measure(&profile, p.metric)?, p.tolerance * 100.0);
            println!("| {name} | {metric} | {} | {got:.2} | {percent:.1} % | {} |", p.value, p.source);
        }
    }
    Ok(())
}
