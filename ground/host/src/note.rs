//! What a command says beside its results, on standard error. Whoever read it may have gone (a closed `tee`, `2>&1 | head`):
//! that is no reason for a study to die, which `eprintln!` would make it do.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to standard error, as `eprintln!` does, but goes on when it cannot be written.
#[macro_export]
macro_rules! note {
    ($($words:tt)*) => { $crate::note::write(::std::format_args!($($words)*), "\n") };
}

/// What [`note!`](crate::note!) does, for text and what ends it. In one piece, so that lines of several threads do not mix.
pub fn write(words: Arguments<'_>, end: &str) {
    let _ = std::io::stderr().lock().write_all(format!("{words}{end}").as_bytes());
}
