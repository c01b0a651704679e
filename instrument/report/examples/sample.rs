//! Writes a sample report from a made-up run, for work on the design.
//!
//! `cargo run -p loadline-report --example sample -- DIRECTORY` writes the pages and
//! summaries of a whole, a partial and a single-stack run there, and prints the summaries.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::path::Path;

use report::terminal::{Style, summary};

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let directory = Path::new(&directory);
    for (name, run) in
        [("report", fixture::run()), ("partial", fixture::partial()), ("single", fixture::single())]
    {
        let text = summary(&run, Style { color: true, width: 80 });
        println!("{text}\n{}", "=".repeat(80));
        std::fs::write(directory.join(format!("{name}.txt")), text)?;
        let page = report::html::page(&run, &[]).map_err(std::io::Error::other)?;
        std::fs::write(directory.join(format!("{name}.html")), page)?;
    }
    Ok(())
}
