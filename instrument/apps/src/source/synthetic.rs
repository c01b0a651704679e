//! A tree of random words in the shape of a kernel source tree, for machines without a network.

use std::fmt::Write;
use std::path::Path;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::AppError;
use crate::error::at;

/// Files in a directory, and directories in a part of the tree.
const WIDTH: u64 = 16;
const WORDS: [&str; 24] = [
    "static", "int", "struct", "return", "if", "for", "device", "page", "inode", "list", "lock", "unsigned",
    "long", "void", "const", "buffer", "offset", "length", "flags", "error", "queue", "request", "0", "1",
];

/// Makes `files` files of about `bytes` together. Sizes are spread as in a source tree: many small files, few large
/// ones. One in forty mentions `cpu_to_be64`, the first is called `wait.c`.
pub(super) fn tree(to: &Path, files: u64, bytes: u64) -> Result<(), AppError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(0x1e_e7);
    let mean = bytes as f64 / files as f64;
    for index in 0..files {
        let directory = index / WIDTH;
        let folder = to.join(format!("part{}", directory / WIDTH)).join(format!("dir{}", directory % WIDTH));
        std::fs::create_dir_all(&folder).map_err(at(&folder))?;
        // An exponential distribution, at most ten times the mean.
        let share = (-rng.random_range(0.000_05_f64..1.0).ln()).min(10.0);
        let path = folder.join(if index == 0 { "wait.c".to_string() } else { format!("file{index}.c") });
        let text = text(&mut rng, (mean * share) as usize + 64, index % 40 == 0);
        std::fs::write(&path, text).map_err(at(&path))?;
    }
    Ok(())
}

fn text(rng: &mut Xoshiro256PlusPlus, bytes: usize, mention: bool) -> String {
    let mut text = String::with_capacity(bytes + 128);
    if mention {
        text.push_str("value = cpu_to_be64(value);\n");
    }
    while text.len() < bytes {
        for _ in 0..rng.random_range(3..9) {
            text.push_str(WORDS.choose(rng).unwrap_or(&"x"));
            text.push(' ');
        }
        // Never fails: a String takes all.
        let _ = writeln!(text, "v{:x};", rng.random::<u32>());
    }
    text
}
