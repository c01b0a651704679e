//! The operations of a recording, thread by thread, in one private file: a recording has them as they ended, and a replay reads
//! those of thousands of threads at once.
//!
//! Each thread's operations are a chain of *pieces* in the file. What is in memory is a piece of each thread, whatever the length
//! of the recording. The file has no name: it goes with its process, however that ends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use recording::Call;

use super::touches::Edges;

/// A piece is written when it has so many bytes; of a hundred operations, roughly.
const PIECE_BYTES: usize = 2048;
/// In front of a piece: where the next one is (0: nowhere), and its own length.
const HEAD_BYTES: u64 = 12;
/// No piece is longer: an operation that waits for all there can be is shorter.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// One operation of a thread, ready to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Its place in the recording, from 1.
    pub number: u64,
    /// What is done.
    pub call: Call,
    /// When it began, in nanoseconds since the recording's begin.
    pub begin_ns: u64,
    /// What it returned.
    pub result: i64,
    /// A number of [`Paths`](super::paths::Paths).
    pub path: Option<u32>,
    /// The second one.
    pub to: Option<u32>,
    /// Where the descriptor is.
    pub slot: Option<u32>,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub bytes: u64,
    /// Those of the call.
    pub flags: u32,
}

/// Where a thread's operations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Chain {
    /// The first piece; 0: there is none.
    first: u64,
    last: u64,
}

/// What a thread's next operation is told relative to.
#[derive(Debug, Default)]
struct Before {
    number: u64,
    begin_ns: u64,
}

/// Takes the operations of one thread.
#[derive(Debug, Default)]
pub(super) struct ThreadWriter {
    piece: Vec<u8>,
    chain: Chain,
    before: Before,
}

/// The file that pieces are written to.
#[derive(Debug)]
pub(super) struct Pieces {
    file: File,
    end: u64,
}

impl Pieces {
    /// An empty file without a name, in the directory for temporary files.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new() -> io::Result<Pieces> {
        // 0 is no place of a piece
        Ok(Pieces { file: tempfile::tempfile()?, end: 1 })
    }

    fn write(&mut self, writer: &mut ThreadWriter) -> io::Result<()> {
        let at = self.end;
        let mut head = [0; HEAD_BYTES as usize];
        head[8..].copy_from_slice(&(writer.piece.len() as u32).to_le_bytes());
        writer.piece.splice(0..0, head);
        self.file.write_all_at(&writer.piece, at)?;
        self.end += writer.piece.len() as u64;
        match writer.chain.last {
            0 => writer.chain.first = at,
            last => self.file.write_all_at(&at.to_le_bytes(), last)?,
        }
        writer.chain.last = at;
        writer.piece.clear();
        Ok(())
    }

    /// What was written, to be read.
    pub(super) fn into_file(self) -> File {
        self.file
    }
}

impl ThreadWriter {
    /// Adds an operation, and what it waits for.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn push(&mut self, step: &Step, edges: &Edges, pieces: &mut Pieces) -> io::Result<()> {
        let to = &mut self.piece;
        to.push(step.call as u8);
        put(to, step.number.wrapping_sub(self.before.number));
        put_signed(to, step.begin_ns.wrapping_sub(self.before.begin_ns) as i64);
        put_signed(to, step.result);
        for number in [step.path, step.to, step.slot] {
            put(to, number.map_or(0, |number| u64::from(number) + 1));
        }
        for number in [step.offset, step.bytes, u64::from(step.flags)] {
            put(to, number);
        }
        put(to, edges.of_all);
        put(to, edges.of_threads.len() as u64);
        for (thread, number) in &edges.of_threads {
            put(to, u64::from(*thread));
            put(to, step.number.wrapping_sub(*number));
        }
        self.before = Before { number: step.number, begin_ns: step.begin_ns };
        if self.piece.len() >= PIECE_BYTES {
            pieces.write(self)?;
        }
        Ok(())
    }

    /// All is written.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn end(mut self, pieces: &mut Pieces) -> io::Result<Chain> {
        if !self.piece.is_empty() {
            pieces.write(&mut self)?;
        }
        Ok(self.chain)
    }
}

/// Reads the operations of one thread.
#[derive(Debug)]
pub(super) struct ThreadReader<'a> {
    file: &'a File,
    next: u64,
    piece: Vec<u8>,
    at: usize,
    before: Before,
    threads: usize,
}

impl<'a> ThreadReader<'a> {
    /// Of that chain; there are so many threads.
    pub(super) fn new(file: &'a File, chain: Chain, threads: usize) -> ThreadReader<'a> {
        ThreadReader { file, next: chain.first, piece: Vec::new(), at: 0, before: Before::default(), threads }
    }

    /// The next operation; what it waits for is in `edges`. Nothing waits for itself, for what is behind it, or for a thread that
    /// is not there, whatever the file says: a replay of it comes to its end.
    ///
    /// # Errors
    /// The system's; `InvalidData` when what was written is not what is read.
    pub(super) fn next(&mut self, edges: &mut Edges) -> io::Result<Option<Step>> {
        if self.at == self.piece.len() && !self.turn()? {
            return Ok(None);
        }
        self.decode(edges).map(Some).ok_or_else(damaged)
    }

    fn turn(&mut self) -> io::Result<bool> {
        if self.next == 0 {
            return Ok(false);
        }
        let mut head = [0; HEAD_BYTES as usize];
        self.file.read_exact_at(&mut head, self.next)?;
        let [a, b, c, d, e, f, g, h, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        let here = self.next;
        self.next = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        // pieces follow each other in the file
        if length == 0 || length > PIECE_BYTES_MAX || (self.next != 0 && self.next <= here) {
            return Err(damaged());
        }
        self.piece.resize(length, 0);
        self.at = 0;
        self.file.read_exact_at(&mut self.piece, here + HEAD_BYTES)?;
        Ok(true)
    }

    fn decode(&mut self, edges: &mut Edges) -> Option<Step> {
        edges.clear();
        let mut from = &self.piece[self.at..];
        let call = *Call::ALL.get(usize::from(*from.split_off_first()?))?;
        let number = self.before.number.checked_add(get(&mut from)?).filter(|at| *at > self.before.number)?;
        let begin_ns = self.before.begin_ns.wrapping_add(get_signed(&mut from)? as u64);
        let result = get_signed(&mut from)?;
        let mut numbered = || Some(get(&mut from)?.checked_sub(1).map(|number| number as u32));
        let (path, to, slot) = (numbered()?, numbered()?, numbered()?);
        let (offset, bytes, flags) = (get(&mut from)?, get(&mut from)?, get(&mut from)? as u32);
        edges.of_all = get(&mut from).filter(|all| *all < number)?;
        for _ in 0..get(&mut from)? {
            let thread = u32::try_from(get(&mut from)?).ok()?;
            let distance = get(&mut from).filter(|distance| *distance > 0)?;
            if thread as usize >= self.threads {
                return None;
            }
            edges.of_threads.push((thread, number.checked_sub(distance)?));
        }
        self.at = self.piece.len() - from.len();
        self.before = Before { number, begin_ns };
        Some(Step { number, call, begin_ns, result, path, to, slot, offset, bytes, flags })
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the operations that were set aside are damaged")
}

/// LEB128.
fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Small ones of either sign are short.
fn put_signed(to: &mut Vec<u8>, number: i64) {
    put(to, (number << 1 ^ number >> 63) as u64);
}

fn get(from: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *from.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn get_signed(from: &mut &[u8]) -> Option<i64> {
    get(from).map(|number| (number >> 1) as i64 ^ -((number & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u64) -> Step {
        Step {
            number,
            call: Call::ALL[number as usize % Call::ALL.len()],
            begin_ns: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            result: if number.is_multiple_of(2) { i64::MIN } else { number as i64 },
            path: (number.is_multiple_of(3)).then_some(0),
            to: Some(u32::MAX - 1),
            slot: None,
            offset: u64::MAX,
            bytes: number,
            flags: u32::MAX,
        }
    }

    fn edges(number: u64) -> Edges {
        let of_threads = (0..number % 4).map(|thread| (thread as u32, number - 1)).collect();
        Edges { of_threads, of_all: number / 2 }
    }

    /// The file, and the chains of three threads whose operations lie between each other.
    fn written(count: u64) -> (File, Vec<Chain>) {
        let mut pieces = Pieces::new().unwrap();
        let mut writers: Vec<ThreadWriter> = (0..3).map(|_| ThreadWriter::default()).collect();
        for number in 1..=count {
            let writer = &mut writers[number as usize % 3];
            writer.push(&step(number), &edges(number), &mut pieces).unwrap();
        }
        let chains = writers.into_iter().map(|writer| writer.end(&mut pieces).unwrap()).collect();
        (pieces.into_file(), chains)
    }

    #[test]
    fn each_thread_reads_its_own() {
        let (file, chains) = written(2_000);
        for (thread, chain) in chains.iter().enumerate() {
            let mut reader = ThreadReader::new(&file, *chain, 4);
            let mut waits = Edges::default();
            let mine = (1..=2_000).filter(|number| *number as usize % 3 == thread);
            for number in mine {
                assert_eq!(reader.next(&mut waits).unwrap(), Some(step(number)));
                assert_eq!((waits.of_threads, waits.of_all), {
                    let Edges { of_threads, of_all } = edges(number);
                    (of_threads, of_all)
                });
                waits = Edges::default();
            }
            assert_eq!(reader.next(&mut waits).unwrap(), None);
        }
    }

    /// No damage makes an operation wait for itself or for a later one, and none is a loop.
    #[test]
    fn damage_ends() {
        let (file, chains) = written(200);
        let length = file.metadata().unwrap().len();
        for at in 1..length {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0xff], at).unwrap();
            let mut reader = ThreadReader::new(&file, chains[1], 4);
            let (mut waits, mut before, mut count) = (Edges::default(), 0, 0);
            while let Ok(Some(step)) = reader.next(&mut waits) {
                assert!(step.number > before && waits.of_all < step.number);
                assert!(waits.of_threads.iter().all(|(thread, to)| *thread < 4 && *to < step.number));
                (before, count) = (step.number, count + 1);
            }
            assert!(count <= length);
            file.write_all_at(&byte, at).unwrap();
        }
    }
}
