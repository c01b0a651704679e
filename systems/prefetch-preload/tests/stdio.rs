//! Reads through stdio and between descriptors are seen: their position and length come from the stream's buffer and the
//! descriptor.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use needs::needs;

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
    if (setvbuf(f, NULL, _IOFBF, sizeof buffer)) return 8;
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

fn run(program: &Path, part: &str, file: &Path, library: &[(&str, &Path)]) -> String {
    let mut command = Command::new(program);
    command.arg(part).arg(file).envs(library.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{part}: {:?}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The parts, how often each reads from the kernel, and how many bytes a time: blocks of the stream's buffer, or of
/// its own.
const PARTS: [(&str, u64, u64); 8] = [
    ("fgets", 8000, 4096),
    ("getline", 8000, 4096),
    ("getc", 8000, 4096),
    ("fread", 400, 4096),
    ("unaligned", 400, 4096),
    ("sendfile", 400, 4096),
    ("copy_file_range", 400, 4096),
    ("splice", 400, 4096),
];
/// Reads of a descriptor before it is looked at.
const UNSEEN: u64 = 2;

/// The reader compiled, and a file for it.
fn prepare(directory: &Path) -> (PathBuf, PathBuf) {
    let (source, program) = (directory.join("reader.c"), directory.join("reader"));
    std::fs::write(&source, READER).unwrap();
    let compiled = Command::new("cc").arg("-O2").arg(&source).arg("-o").arg(&program).status();
    assert!(compiled.unwrap().success());
    let file = directory.join("data");
    let text: String = (0..2_000_000u64).map(|n| format!("line {n} {}\n", n * 7919)).collect();
    std::fs::write(&file, &text[..400 * 81_920]).unwrap();
    (program, file)
}

#[test]
fn what_libc_reads_itself_is_unchanged() {
    needs!(Cc);
    let directory = common::directory();
    let (program, file) = prepare(directory.path());
    for (part, ..) in PARTS {
        common::drop_cache(&file);
        let alone = run(&program, part, &file, &[]);
        common::drop_cache(&file);
        let (statistics, library) = (common::directory(), common::library());
        let under = [
            ("LD_PRELOAD", library.as_path()),
            ("LOADLINE_PREFETCH", Path::new("auto")),
            ("LOADLINE_PREFETCH_DIR", statistics.path()),
        ];
        assert_eq!(run(&program, part, &file, &under), alone, "{part}");
        assert_eq!(common::pages(statistics.path()).len(), 1, "{part} was not watched");
    }
}

/// How many reads are let pass unseen depends on how long they take; debug builds can be told to look at all.
#[cfg(debug_assertions)]
#[test]
fn what_libc_reads_itself_is_seen() {
    needs!(Cc);
    let directory = common::directory();
    let (program, file) = prepare(directory.path());
    for (part, reads, each) in PARTS {
        let (statistics, library) = (common::directory(), common::library());
        let all = [
            ("LD_PRELOAD", library.as_path()),
            ("LOADLINE_PREFETCH", Path::new("auto")),
            ("LOADLINE_PREFETCH_DIR", statistics.path()),
            ("LOADLINE_PREFETCH_AWAKE", Path::new("1")),
        ];
        common::drop_cache(&file);
        run(&program, part, &file, &all);
        let pages = common::pages(statistics.path());
        let files = pages.iter().flat_map(|page| &page.files);
        let counters = || files.clone().filter(|file| file.path.ends_with("/data")).map(|file| file.counters);
        let seen = counters().map(|c| c.reads).sum::<u64>();
        let told = counters().map(|c| c.bytes).sum::<u64>();
        eprintln!("{part}: {seen} of {reads} reads, {told} bytes");
        assert!((reads - UNSEEN..=reads).contains(&seen), "{part}: {seen} of {reads} reads: {pages:?}");
        assert_eq!(told, seen * each, "{part}: {pages:?}");
    }
}
