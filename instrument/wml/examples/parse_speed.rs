//! Prints how long a script of 1 MB takes to parse and to resolve: `cargo run --release --example parse_speed`.
//! With file names: loads them and prints their diagnostics, or `ok`.

use std::time::Instant;

fn generated(bytes: usize) -> String {
    let mut text = String::from("set $dir=/tmp\nset $iosize=8k\n");
    let mut number = 0;
    while text.len() < bytes {
        text.push_str(&format!(
            "define fileset name=set{number}, path=$dir, entries=1000, size=16k, dirwidth=20, prealloc=80\n\
             define process name=process{number}, instances=1\n{{\n  thread name=thread{number}, memsize=1m\n  {{\n\
             \x20   flowop openfile name=open{number}, filesetname=set{number}, fd=1\n\
             \x20   flowop read name=read{number}, fd=1, iosize=$iosize, iters=4, random # comment\n\
             \x20   flowop closefile name=close{number}, fd=1\n\
             \x20   flowop iopslimit name=limit{number}, target=read{number}\n  }}\n}}\n"
        ));
        number += 1;
    }
    text
}

fn main() {
    let machine = wml::Machine { ram_bytes: 24 << 30, cores: 2, free_bytes: 7 << 30 };
    let settings = |name: &str| wml::Settings { machine, set: Vec::new(), name: name.into() };
    let mut files = 0;
    for file in std::env::args().skip(1) {
        files += 1;
        let Ok(text) = std::fs::read(&file) else {
            println!("{file}: cannot be read");
            continue;
        };
        match wml::load(&text, &settings(&file)) {
            Ok(loaded) => {
                print!("{}", loaded.warnings.render(&file, &text, false));
                println!("{file}: ok");
                for (name, value) in &loaded.variables {
                    println!("  ${name} = {value}");
                }
            }
            Err(found) => println!("{}", found.render(&file, &text, false)),
        }
    }
    if files > 0 {
        return;
    }
    let text = generated(1_000_000);
    for _ in 0..5 {
        let begin = Instant::now();
        let parsed = wml::parse(text.as_bytes()).is_ok();
        let parse_ms = begin.elapsed().as_secs_f64() * 1e3;
        let begin = Instant::now();
        let loaded = wml::load(text.as_bytes(), &settings("generated")).is_ok();
        let load_ms = begin.elapsed().as_secs_f64() * 1e3;
        println!(
            "{} bytes: parse {parse_ms:.1} ms (ok: {parsed}), parse and resolve {load_ms:.1} ms (ok: {loaded})",
            text.len()
        );
    }
}
