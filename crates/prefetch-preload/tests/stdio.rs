//! Reads through stdio are seen: their position and length come from the descriptor.

mod common;

use std::path::Path;
use std::process::Command;

const READER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    FILE *f = fopen(argv[1], "r");
    char buffer[4096];
    unsigned long sum = 0;
    for (long i = 0; i < 400; i++) {
        if (fseek(f, i * 81920, SEEK_SET)) return 2;
        if (fread(buffer, 1, sizeof buffer, f) != sizeof buffer) return 3;
        for (int j = 0; j < 4096; j += 64) sum += (unsigned char)buffer[j];
    }
    rewind(f);
    long lines = 0;
    while (fgets(buffer, sizeof buffer, f)) lines++;
    char *line = NULL; size_t size = 0;
    rewind(f);
    for (int i = 0; i < 1000 && getline(&line, &size, f) > 0; i++) sum += line[0];
    printf("%lu %ld\n", sum, lines);
    return fclose(f);
}
"#;

fn run(program: &Path, file: &Path, statistics: Option<&Path>) -> String {
    let mut command = Command::new(program);
    command.arg(file);
    if let Some(statistics) = statistics {
        command.env("LD_PRELOAD", common::library());
        command.env("LOADLINE_PREFETCH", "auto").env("LOADLINE_PREFETCH_DIR", statistics);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fread_loops_are_seen_and_unchanged() {
    let directory = common::directory();
    let (source, program) = (directory.path().join("reader.c"), directory.path().join("reader"));
    std::fs::write(&source, READER).unwrap();
    let compiled = Command::new("cc").arg("-O2").arg(&source).arg("-o").arg(&program).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no C compiler");
        return;
    }
    let file = directory.path().join("data");
    let text: String = (0..2_000_000u64).map(|n| format!("line {n} {}\n", n * 7919)).collect();
    std::fs::write(&file, &text[..400 * 81_920]).unwrap();
    common::drop_cache(&file);
    let alone = run(&program, &file, None);
    common::drop_cache(&file);
    let statistics = common::directory();
    assert_eq!(run(&program, &file, Some(statistics.path())), alone);
    let area = std::fs::read_dir(statistics.path()).unwrap().flatten().next().expect("statistics");
    let seen = prefetch::area::Snapshot::parse(&std::fs::read(area.path()).unwrap()).unwrap();
    let reads: u64 = seen.files.iter().map(|file| file.counters.reads).sum();
    assert!(reads >= 100, "{seen:?}");
}
