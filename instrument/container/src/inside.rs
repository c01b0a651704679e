//! The side of a load that runs within a container: it says that it is ready, waits at the gate, and ends when the process that
//! made the container has died.

use std::io::{Read, Write};

use camino::Utf8Path;

use crate::gate::{ALIVE, GATE, NEWS, open_inside};

/// Where a container finds the FIFOs.
pub const SHARED: &str = "/shared";
/// Where it finds what is its own: what it is to do, and where it writes what came of it.
pub const OWN: &str = "/own";
/// The directory on the stack under test.
pub const DATA: &str = "/data";
/// The program that made the container.
pub const PROGRAM: &str = "/program";
/// Exit code when the process that made the container has died.
const ORPHANED: i32 = 4;

/// A container's number among those that wait at one gate.
#[derive(Debug, Clone, Copy)]
pub struct Inside {
    number: usize,
}

impl Inside {
    /// Ends this process when the one that made the container dies.
    ///
    /// # Errors
    /// The FIFO cannot be opened.
    pub fn new(number: usize) -> std::io::Result<Inside> {
        let mut alive = open_inside(Utf8Path::new(SHARED), ALIVE, false)?;
        std::thread::Builder::new().name("alive".into()).stack_size(64 << 10).spawn(move || {
            // nothing is ever written: it returns at the end, or at a signal, which the standard library reads over
            let _ = alive.read(&mut [0]);
            std::process::exit(ORPHANED);
        })?;
        Ok(Inside { number })
    }

    /// Says that it is ready and waits until the gate opens.
    ///
    /// # Errors
    /// The FIFOs cannot be opened.
    pub fn wait_at_gate(&self) -> std::io::Result<()> {
        let folder = Utf8Path::new(SHARED);
        let mut news = open_inside(folder, NEWS, true)?;
        news.write_all(format!("{} {READY}\n", self.number).as_bytes())?;
        drop(news);
        open_inside(folder, GATE, false).map(drop)
    }
}

/// What a container says when it is ready.
pub const READY: &str = "ready";
