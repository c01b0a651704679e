//! Speeds that need no peer: planning a fileset, parsing WML.

use std::time::Instant;

use workload::{Layout, Workload};

use crate::cases;
use crate::pairs::median;

/// Prints the figures.
pub fn measure() -> anyhow::Result<()> {
    println!("\npure work");
    let workload = cases::load(
        "set $threads=1\nset $s=randvar(type=gamma,mean=16384)\n\
         define fileset name=f,path=/x,size=$s,entries=10000000,dirwidth=100,prealloc=80\n\
         define process name=p,instances=$threads { thread name=t { flowop statfile name=s,filesetname=f } }\n",
        1,
    )?;
    plan(&workload)?;
    parse()
}

fn plan(workload: &Workload) -> anyhow::Result<()> {
    let fileset = &workload.filesets[0];
    let mut seconds = Vec::new();
    let mut bytes = 0;
    for _ in 0..3 {
        let start = Instant::now();
        let layout = Layout::build(fileset, &workload.draws, 1)?;
        let live = engine::fileset::LiveFileset::new(layout, "f", true, fileset.prealloc_percent, 1);
        seconds.push(start.elapsed().as_secs_f64());
        bytes = live.memory_bytes();
    }
    println!(
        "plan 10 million entries, 80 % existing: {:.2} s, {:.1} bytes an entry (limits: 5 s, 64 bytes)",
        median(&seconds),
        bytes as f64 / 10e6
    );
    Ok(())
}

fn parse() -> anyhow::Result<()> {
    let mut text = String::from("set $threads=1\n");
    let mut number = 0;
    while text.len() < 1 << 20 {
        number += 1;
        text += &format!(
            "set $n{number}=16k\ndefine fileset name=set{number},path=/tmp,size=$n{number},entries=10,dirwidth=20\n\
             define process name=p{number} {{\n  thread name=t,memsize=1m {{\n    flowop openfile \
             name=o{number},filesetname=set{number},fd=1\n    flowop closefile name=c{number},fd=1\n  }}\n}}\n"
        );
    }
    let mut milliseconds = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        if let Err(errors) = wml::parse(text.as_bytes()) {
            anyhow::bail!("{}", errors.render("generated.f", text.as_bytes(), false));
        }
        milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("parse {} bytes of WML: {:.1} ms (limit: 50 ms for 1 MB)", text.len(), median(&milliseconds));
    Ok(())
}
