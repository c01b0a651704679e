//! Reads through stdio and between descriptors are seen: their position and length come from the stream's buffer and the
//! descriptor.

mod common;

use std::path::Path;
use std::process::Command;

const READER: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/sendfile.h>
enum { BLOCKS = 400, STEP = 81920 };
static char buffer[4096];
static unsigned long sum;
static void add(int n) { for (int j = 0; j < n; j += 64) sum = sum * 31 + (unsigned char)buffer[j]; }
int main(int argc, char **argv) {
    const char *part = argv[1];
    FILE *f = fopen(argv[2], "r"), *to = tmpfile();
    int fd = fileno(f), out = fileno(to), ends[2];
    if (pipe(ends)) return 9;
    long lines = 0;
    char *line = NULL; size_t size = 0;
    if (!strcmp(part, "fgets")) while (fgets(buffer, sizeof buffer, f)) lines++;
    else if (!strcmp(part, "getline")) while (getline(&line, &size, f) > 0) sum += line[lines++ % 3];
    else if (!strcmp(part, "getc")) for (int c; (c = getc_unlocked(f)) >= 0; lines++) sum = sum * 31 + c;
    else for (long i = 0; i < BLOCKS; i++) {
        off_t at = i * STEP + (strcmp(part, "unaligned") ? 0 : 1234);
        if (!strcmp(part, "fread") || !strcmp(part, "unaligned")) {
            if (fseek(f, at, SEEK_SET)) return 2;
            // As records are read: two freads, of which the second is in the buffer.
            if (fread(buffer, 1, 1000, f) != 1000 || fread(buffer + 1000, 100, 1, f) != 1) return 3;
            add(1100);
        } else if (!strcmp(part, "sendfile")) {
            if (sendfile(out, fd, &at, 4096) != 4096) return 4;
        } else if (!strcmp(part, "copy_file_range")) {
            if (copy_file_range(fd, &at, out, NULL, 4096, 0) != 4096) return 5;
        } else {
            if (splice(fd, &at, ends[1], NULL, 4096, 0) != 4096) return 6;
            if (read(ends[0], buffer, 4096) != 4096) return 7;
            add(4096);
        }
    }
    rewind(to);
    while (read(out, buffer, sizeof buffer) == sizeof buffer) add(sizeof buffer);
    printf("%lu %ld\n", sum, lines);
    return fclose(f);
}
"#;

fn run(program: &Path, part: &str, file: &Path, statistics: Option<&Path>) -> String {
    let mut command = Command::new(program);
    command.arg(part).arg(file);
    if let Some(statistics) = statistics {
        command.env("LD_PRELOAD", common::library());
        command.env("LOADLINE_PREFETCH", "auto").env("LOADLINE_PREFETCH_DIR", statistics);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{part}: {:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_libc_reads_itself_is_seen_and_unchanged() {
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
    // What a part reads, bytes: blocks of the stream's buffer, or of its own.
    for (part, bytes) in [
        ("fgets", 400 * 81_920),
        ("getline", 400 * 81_920),
        ("getc", 400 * 81_920),
        ("fread", 400 * 4096),
        ("unaligned", 400 * 4096),
        ("sendfile", 400 * 4096),
        ("copy_file_range", 400 * 4096),
        ("splice", 400 * 4096),
    ] {
        common::drop_cache(&file);
        let alone = run(&program, part, &file, None);
        common::drop_cache(&file);
        let statistics = common::directory();
        assert_eq!(run(&program, part, &file, Some(statistics.path())), alone, "{part}");
        let area = std::fs::read_dir(statistics.path()).unwrap().flatten().next().expect("statistics");
        let seen = prefetch::area::Snapshot::parse(&std::fs::read(area.path()).unwrap()).unwrap();
        let read = || seen.files.iter().filter(|file| file.path.ends_with("/data"));
        let counters = || read().map(|file| file.counters);
        let (reads, told) =
            (counters().map(|c| c.reads).sum::<u64>(), counters().map(|c| c.bytes).sum::<u64>());
        eprintln!("{part}: {reads} reads of {told} bytes");
        assert!(reads >= 100, "{part}: {seen:?}");
        assert!(told <= bytes, "{part}: {told} bytes, more than were read: {seen:?}");
    }
}
