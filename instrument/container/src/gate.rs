//! The FIFOs between this process and its containers: what they say, the gate that they wait at, the end of this process.
//!
//! A container opens the gate for reading, which blocks as long as nobody has it open for writing. This process opens it
//! once, when all are ready: one system call lets all go. The FIFO `alive` is open for writing here from the beginning and
//! nowhere else; when this process dies, however it dies, readers in the containers meet its end.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::error::{ContainerError, failed};

/// Names of the FIFOs within the shared directory.
pub(crate) const GATE: &str = "gate";
pub(crate) const NEWS: &str = "news";
pub(crate) const ALIVE: &str = "alive";

/// The side of this process.
#[derive(Debug)]
pub struct Gate {
    folder: Utf8PathBuf,
    news: OwnedFd,
    _alive: OwnedFd,
    open: Option<OwnedFd>,
    /// The beginning of a line whose rest has not come yet.
    rest: Vec<u8>,
}

impl Gate {
    /// Makes the FIFOs in `folder`; the gate is closed.
    ///
    /// # Errors
    /// They cannot be made.
    pub fn make(folder: &Utf8Path) -> Result<Gate, ContainerError> {
        for name in [GATE, NEWS, ALIVE] {
            let path = folder.join(name);
            rustix::fs::mknodat(CWD, path.as_str(), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
                .map_err(failed("making the FIFO", &path))?;
        }
        // for writing as well, so that the reader never meets an end
        let news = open(folder, NEWS, OFlags::RDWR | OFlags::NONBLOCK)?;
        let alive = open(folder, ALIVE, OFlags::RDWR)?;
        Ok(Gate { folder: folder.to_owned(), news, _alive: alive, open: None, rest: Vec::new() })
    }

    /// Lets all go that wait, and all that come later.
    ///
    /// # Errors
    /// The FIFO is gone.
    pub fn open(&mut self) -> Result<(), ContainerError> {
        if self.open.is_none() {
            self.open = Some(open(&self.folder, GATE, OFlags::RDWR)?);
        }
        Ok(())
    }

    pub(crate) fn news_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    /// Lines that came since the last call: who says what.
    pub(crate) fn news(&mut self) -> Vec<(usize, String)> {
        let mut buffer = [0_u8; 4096];
        while let Ok(got @ 1..) = rustix::io::read(&self.news, &mut buffer) {
            self.rest.extend_from_slice(&buffer[..got]);
        }
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        let lines = String::from_utf8_lossy(&whole).into_owned();
        lines.lines().filter_map(said).collect()
    }
}

fn said(line: &str) -> Option<(usize, String)> {
    let (who, what) = line.split_once(' ')?;
    Some((who.parse().ok()?, what.to_string()))
}

fn open(folder: &Utf8Path, name: &str, flags: OFlags) -> Result<OwnedFd, ContainerError> {
    let path = folder.join(name);
    let opened = rustix::fs::open(path.as_std_path(), flags | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(failed("opening the FIFO", &path))
}

/// Opens a FIFO as a container does.
pub(crate) fn open_inside(folder: &Utf8Path, name: &str, write: bool) -> std::io::Result<File> {
    File::options().read(!write).write(write).open(folder.join(name))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn all_who_wait_pass_when_it_opens_and_meet_its_owners_end() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::from_path_buf(dir.path().to_owned()).unwrap();
        let mut gate = Gate::make(&folder).unwrap();
        let (sender, receiver) = channel();
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (folder, sender) = (folder.clone(), sender.clone());
                std::thread::spawn(move || {
                    let mut alive = open_inside(&folder, ALIVE, false).unwrap();
                    open_inside(&folder, NEWS, true)
                        .unwrap()
                        .write_all(format!("{number} ready\n").as_bytes())
                        .unwrap();
                    open_inside(&folder, GATE, false).unwrap();
                    sender.send(number).unwrap();
                    assert_eq!(alive.read(&mut [0]).unwrap(), 0, "the end of the other side");
                })
            })
            .collect();
        let mut ready = Vec::new();
        while ready.len() < 8 {
            ready.extend(gate.news());
            std::thread::yield_now();
        }
        ready.sort();
        let all: Vec<(usize, String)> = (0..8).map(|number| (number, "ready".to_string())).collect();
        assert_eq!(ready, all);
        assert!(receiver.try_recv().is_err(), "nobody passes a closed gate");
        gate.open().unwrap();
        let mut passed: Vec<i32> = (0..8).map(|_| receiver.recv().unwrap()).collect();
        passed.sort();
        assert_eq!(passed, (0..8).collect::<Vec<_>>());
        drop(gate);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
