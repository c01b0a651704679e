//! Runs a WML file for a number of operations in a directory, for a profiler:
//! `valgrind --tool=callgrind target/release/examples/profile flow.f /dev/shm/x 200000`.

use engine::{Control, RunOptions};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, file, root, ops] = arguments.as_slice() else {
        eprintln!("usage: profile FILE.f DIRECTORY OPERATIONS");
        std::process::exit(2);
    };
    let text = std::fs::read(file).expect("a readable file");
    let settings = wml::Settings {
        machine: wml::Machine { ram_bytes: 8 << 30, cores: 2, free_bytes: 8 << 30 },
        set: Vec::new(),
        name: "profile".into(),
    };
    let workload = wml::load(&text, &settings).unwrap_or_else(|errors| panic!("{errors}")).workload;
    std::fs::create_dir_all(root).expect("a directory");
    let options = RunOptions { ops: ops.parse().ok(), settle: false, ..RunOptions::default() };
    let outcome =
        engine::run(&workload, root.as_ref(), &options, &Control::new(), &mut |_| {}).expect("a run");
    println!("{:.0} ops/s, {:?}", outcome.io_ops_per_second(), outcome.ended);
}
