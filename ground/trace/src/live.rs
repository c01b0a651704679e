//! Hands over records while the kernel makes them, for whoever acts on them at once.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::at;
use crate::page::{self, PageLayout, Record};
use crate::{Instance, TraceError};

/// Pages that one CPU may hand over at a time: the others have their turn before a busy one goes on.
const PAGES_A_TURN: usize = 256;

/// The buffers of all CPUs of an instance.
#[derive(Debug)]
pub struct Rings {
    files: Vec<File>,
    layout: PageLayout,
    page: Vec<u8>,
}

impl Rings {
    /// Opens the buffers. From now on poll(2) on [`Rings::descriptors`] wakes for the first record.
    ///
    /// # Errors
    /// When a buffer cannot be opened, or `events/header_page` is not understood.
    pub fn open(instance: &Instance) -> Result<Self, TraceError> {
        instance.wake_readers_at_percent(0);
        let layout = instance.page_layout()?;
        let mut files = Vec::new();
        for (_, path) in instance.raw_buffers()? {
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path);
            files.push(file.map_err(at(&path))?);
        }
        Ok(Rings { files, layout, page: vec![0; layout.page_size] })
    }

    /// What poll(2) can wait on.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.files.iter().map(AsFd::as_fd)
    }

    /// Hands over the records that are there, CPU by CPU, those of a CPU in order of time. The number of records
    /// that were lost, as far as pages tell.
    ///
    /// # Errors
    /// What reading a buffer says.
    pub fn drain(&mut self, mut each: impl FnMut(Record<'_>)) -> std::io::Result<u64> {
        let mut lost = 0;
        for file in &mut self.files {
            for _ in 0..PAGES_A_TURN {
                match file.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(count) => {
                        let page = page::parse(&self.layout, &self.page[..count]);
                        lost += page.missed + u64::from(page.damaged);
                        page.records.into_iter().for_each(&mut each);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(lost)
    }
}
