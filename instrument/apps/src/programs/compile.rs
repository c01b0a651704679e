//! A source tree is unpacked from a plain archive, then compiled by make.

use std::fmt::Write;
use std::path::Path;

use stats::Direction;

use super::run::{program, time};
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

/// Functions in a C file: it takes a compiler some 50 ms.
const FUNCTIONS: u64 = 60;
/// Directory of the tree, and of its archive.
const TREE: &str = "source";
const ARCHIVE: &str = "source.tar";

/// `unpack`: `tar -xf source.tar`, which is not compressed, so that the file system is what is measured. `compile`: `make -j`
/// of what was unpacked, cold; that is bound by the compiler, whatever the file system.
#[derive(Debug)]
pub struct Compile {
    files: u64,
    jobs: u64,
}

impl Compile {
    /// Parameters: `files` (C files, 1 to 100,000, default 200), `jobs` (compilers at once, 1 to 1,000, default: one for each
    /// processor).
    ///
    /// # Errors
    /// A value that cannot be.
    pub fn new(parameters: &mut Parameters) -> Result<Compile, AppError> {
        let processors = std::thread::available_parallelism().map_or(1, |number| number.get() as u64);
        Ok(Compile {
            files: parameters.number("files", 200, 1..=100_000)?,
            jobs: parameters.number("jobs", processors, 1..=1_000)?,
        })
    }
}

impl Load for Compile {
    fn phases(&self) -> u32 {
        3
    }

    fn seconds_guess(&self) -> f64 {
        1.0 + self.files as f64 * 0.1 / self.jobs as f64
    }

    fn programs(&self) -> &'static [&'static str] {
        &["tar", "make", "cc"]
    }

    fn provide(&self, _home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        for (name, package) in [("tar", "tar"), ("make", "make"), ("cc", "gcc")] {
            program(name, package)?;
        }
        Ok(())
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let tree = place.root.join(TREE);
        match phase {
            0 => {
                write_tree(&tree, self.files)?;
                let tar = program("tar", "tar")?.args(["-cf", ARCHIVE, TREE]).in_folder(place.root);
                tar.output()?;
                std::fs::remove_dir_all(&tree).map_err(at(&tree))
            }
            1 => {
                let tar = program("tar", "tar")?.args(["-xf", ARCHIVE]).in_folder(place.root);
                time(bench, "unpack", Direction::Write, Some(place.root), tar).map(drop)
            }
            _ => {
                bench.note(format!(
                    "compile: {} C files that loadline wrote, by {} compilers at once",
                    self.files, self.jobs
                ));
                // flags of the caller's make and compiler would change what is measured
                let make = program("make", "make")?.env("MAKEFLAGS", "").env("MFLAGS", "");
                let make = make.arg(format!("-j{}", self.jobs)).in_folder(&tree);
                time(bench, "compile", Direction::Write, Some(place.root), make).map(drop)
            }
        }
    }
}

/// Some C files with a header that all of them read, and a makefile.
fn write_tree(tree: &Path, files: u64) -> Result<(), AppError> {
    std::fs::create_dir_all(tree).map_err(at(tree))?;
    let write = |name: &str, text: &str| {
        let path = tree.join(name);
        std::fs::write(&path, text).map_err(at(&path))
    };
    let (mut header, mut main) = (String::new(), String::from("#include \"all.h\"\nint main(void) {\n"));
    for file in 0..files {
        // Never fails: a String takes all.
        let _ = writeln!(header, "long part{file}(long x);");
        let _ = writeln!(main, "    if (part{file}(1) == 7) return 1;");
        write(&format!("part{file}.c"), &part(file))?;
    }
    main.push_str("    return 0;\n}\n");
    write("all.h", &header)?;
    write("main.c", &main)?;
    write(
        "Makefile",
        "OBJECTS := $(patsubst %.c,%.o,$(wildcard *.c))\n\
         program: $(OBJECTS)\n\tcc -pipe -o $@ $(OBJECTS)\n\
         %.o: %.c all.h\n\tcc -pipe -O1 -c -o $@ $<\n",
    )
}

fn part(file: u64) -> String {
    let mut text = String::from("#include \"all.h\"\n");
    for number in 0..FUNCTIONS {
        let (a, b) = (file % 13 + 2, number % 7 + 3);
        let _ = writeln!(
            text,
            "static long step{number}(long x) {{\n    long sum = 0;\n    for (long i = 0; i < x % {a}00; i++) \
             sum += (i * {b} + x) ^ (sum >> {a});\n    return sum;\n}}"
        );
    }
    let _ = writeln!(text, "long part{file}(long x) {{");
    for number in 0..FUNCTIONS {
        let _ = writeln!(text, "    x += step{number}(x);");
    }
    text.push_str("    return x;\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_the_same_each_time_and_compiles() {
        needs::needs!(Cc, Tool { program: "make", package: "make" });
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        write_tree(&one, 2).unwrap();
        write_tree(&other, 2).unwrap();
        for name in ["part0.c", "part1.c", "main.c", "all.h", "Makefile"] {
            assert_eq!(std::fs::read(one.join(name)).unwrap(), std::fs::read(other.join(name)).unwrap());
        }
        program("make", "make").unwrap().env("MAKEFLAGS", "").in_folder(&one).output().unwrap();
        assert!(one.join("program").is_file());
    }
}
