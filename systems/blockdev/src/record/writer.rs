//! Writing: the model's thread copies into memory, another one writes that to the file.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Deserialize, Serialize};

use super::{FILE_HEADER_BYTES, Header, MAGIC, RecordError, VERSION};

/// A file system this far behind holds the device up: its requests must not fill the memory.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// The longest mark.
const MARK_BYTES_MAX: usize = 65_536;

/// How a recording is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordStatus {
    /// The file.
    pub path: Utf8PathBuf,
    /// Records so far.
    pub events: u64,
    /// Bytes of the file once all is written.
    pub bytes: u64,
    /// Why the recording ended early: what came after is missing.
    pub error: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// The file's thread is writing what it took.
    writing: bool,
    next_id: u64,
    /// Bytes of the file so far.
    written: u64,
    status: RecordStatus,
    closed: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something is waiting to be written, or it is over.
    work: Condvar,
    /// Something was written.
    written: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends records to a new file. Appending costs a copy, unless 256 MiB wait to be written: then it waits.
/// Dropped, it writes what waits.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// A recording of a device of `device_bytes` in a new file.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the file exists or cannot be made.
    pub fn create(path: &Utf8Path, device_bytes: u64) -> Result<Recorder, RecordError> {
        let failed = |source| RecordError::Io { path: path.to_owned(), source };
        let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let mut header = Vec::with_capacity(FILE_HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&(ssd::BLOCK_BYTES as u32).to_le_bytes());
        header.extend_from_slice(&device_bytes.to_le_bytes());
        header.resize(FILE_HEADER_BYTES, 0);
        (&file).write_all(&header).map_err(failed)?;
        Recorder::start(file, path)
    }

    /// Goes on behind the header of `file`.
    pub(super) fn start(file: File, path: &Utf8Path) -> Result<Recorder, RecordError> {
        let failed = |source| RecordError::Io { path: path.to_owned(), source };
        let written = FILE_HEADER_BYTES as u64;
        let status = RecordStatus { path: path.to_owned(), bytes: written, ..Default::default() };
        let state = State { next_id: 1, written, status, ..Default::default() };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), work: Condvar::new(), written: Condvar::new() });
        let writes = shared.clone();
        let thread = std::thread::Builder::new()
            .name("recorder".into())
            .spawn(move || write_what_waits(&writes, file))
            .map_err(failed)?;
        Ok(Recorder { shared, thread: Some(thread) })
    }

    /// Records the submission of a write, with FUA or without; its id.
    pub fn write(&self, at_ns: u64, offset: u64, data: &[u8], fua: bool) -> u64 {
        let length = data.len() as u64;
        self.submitted(Header { kind: Header::WRITE, fua, at_ns, offset, length, ..Default::default() }, data)
    }

    /// Records the submission of a discard; its id.
    pub fn discard(&self, at_ns: u64, offset: u64, length: u64) -> u64 {
        self.submitted(Header { kind: Header::DISCARD, at_ns, offset, length, ..Default::default() }, &[])
    }

    /// Records the submission of a write of zeroes; its id.
    pub fn write_zeroes(&self, at_ns: u64, offset: u64, length: u64) -> u64 {
        self.submitted(
            Header { kind: Header::WRITE_ZEROES, at_ns, offset, length, ..Default::default() },
            &[],
        )
    }

    /// Records the submission of a flush; its id.
    pub fn flush(&self, at_ns: u64) -> u64 {
        self.submitted(Header { kind: Header::FLUSH, at_ns, ..Default::default() }, &[])
    }

    /// Records the submission of a flush that is an epoch boundary; its id.
    pub fn barrier(&self, at_ns: u64) -> u64 {
        self.submitted(Header { kind: Header::BARRIER, at_ns, ..Default::default() }, &[])
    }

    /// Records the end of the request `id`; `errno` 0 is success.
    pub fn complete(&self, at_ns: u64, id: u64, errno: i32) {
        let header = Header { kind: Header::COMPLETE, errno, id, at_ns, ..Default::default() };
        self.append(self.shared.lock(), header, &[]);
    }

    /// Records a mark, of at most 64 KiB of text.
    pub fn mark(&self, at_ns: u64, text: &str) {
        let end = (0..=text.len().min(MARK_BYTES_MAX)).rev().find(|i| text.is_char_boundary(*i));
        let data = &text.as_bytes()[..end.unwrap_or(0)];
        let header = Header { kind: Header::MARK, at_ns, length: data.len() as u64, ..Default::default() };
        self.append(self.shared.lock(), header, data);
    }

    /// Records a power cut.
    pub fn power_cut(&self, at_ns: u64) {
        let header = Header { kind: Header::POWER_CUT, at_ns, ..Default::default() };
        self.append(self.shared.lock(), header, &[]);
    }

    fn submitted(&self, header: Header, data: &[u8]) -> u64 {
        let mut state = self.shared.lock();
        let id = state.next_id;
        state.next_id += 1;
        self.append(state, Header { id, ..header }, data);
        id
    }

    fn append(&self, mut state: MutexGuard<'_, State>, header: Header, data: &[u8]) {
        while state.waiting.len() > WAITING_BYTES_MAX && state.status.error.is_none() {
            state = self.shared.written.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.status.error.is_some() || state.closed {
            return;
        }
        state.waiting.extend_from_slice(&header.encode());
        state.waiting.extend_from_slice(data);
        state.status.events += 1;
        state.status.bytes += (super::HEADER_BYTES + data.len()) as u64;
        if !state.writing {
            self.shared.work.notify_one();
        }
    }

    /// Waits until everything recorded so far can be read from the file.
    ///
    /// # Errors
    /// [`RecordError::Io`] with the first error of the file; what was recorded after it is missing.
    pub fn sync(&self) -> Result<RecordStatus, RecordError> {
        let mut state = self.shared.lock();
        // with a busy device something always waits: only what was there at the call counts
        let goal = state.status.bytes;
        while state.status.error.is_none() && state.written < goal {
            state = self.shared.written.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match &state.status.error {
            None => Ok(state.status.clone()),
            Some(error) => {
                let source = io::Error::other(error.clone());
                Err(RecordError::Io { path: state.status.path.clone(), source })
            }
        }
    }

    /// How the recording is doing.
    pub fn status(&self) -> RecordStatus {
        self.shared.lock().status.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_what_waits(shared: &Shared, mut file: File) {
    let mut taken = Vec::new();
    let mut state = shared.lock();
    loop {
        if state.waiting.is_empty() {
            if state.closed {
                return;
            }
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        std::mem::swap(&mut taken, &mut state.waiting);
        state.writing = true;
        drop(state);
        let result = file.write_all(&taken);
        let bytes = taken.len() as u64;
        taken.clear();
        if taken.capacity() > 4 << 20 {
            taken = Vec::new();
        }
        state = shared.lock();
        state.writing = false;
        match result {
            Ok(()) => state.written += bytes,
            Err(error) => {
                state.status.error = Some(error.to_string());
                state.waiting = Vec::new();
            }
        }
        shared.written.notify_all();
    }
}
