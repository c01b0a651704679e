//! Links the unwinder into the library where the compiler has it as an archive: loading libgcc_s would cost each program as much
//! time as the rest of the library.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let output = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let Some(text) = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()) else { return };
    // Without the archive the bare name comes back, and libgcc_s stays.
    let variable = |name| std::env::var(name).unwrap_or_default();
    let native = variable("HOST") == variable("TARGET") && variable("CARGO_CFG_TARGET_ENV") == "gnu";
    if !native || !Path::new(text.trim()).is_absolute() {
        return;
    }
    std::fs::write(out.join("libgcc_s.so"), "GROUP(libgcc_eh.a libgcc.a)\n").expect("OUT_DIR can be written");
    println!("cargo::rustc-link-arg-cdylib=-L{}", out.display());
}
