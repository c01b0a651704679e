//! Lines of a load file: `Operation "name" numbers... status`, as dbench 4 reads them.

use std::collections::HashMap;

use crate::disk::PAGE_BYTES;

/// Largest load file that is read, in bytes (Debian's has 26 MB).
const BYTES_MAX: u64 = 1 << 30;
/// Largest offset and length of a transfer: what the simulation's disk may hold in one file.
const OFFSET_MAX: u64 = 1 << 34;

/// Most handles that are open at a time: as many as dbench has room for.
const HANDLES_MAX: usize = 200;

/// What is wrong with a load file, where, and what would be right.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is; the fields are the words it quotes")]
pub enum LoadFileError {
    #[error(
        "the load file {path} cannot be read: {source}; Debian's package dbench has /usr/share/dbench/client.txt"
    )]
    Read { path: String, source: std::io::Error },
    #[error("the load file {path} has {bytes} bytes; the limit is {BYTES_MAX}")]
    Large { path: String, bytes: u64 },
    #[error("{path}:{line}: {what}; {right}")]
    Line { path: String, line: usize, what: String, right: String },
    #[error("{path}: no line syncs anything; a load file has lines such as `Flush 10012 NT_STATUS_OK`")]
    Nothing { path: String },
    #[error("{path} is not what it was when the run was planned: begin another run")]
    Changed { path: String },
}

/// An operation that the simulated file system sees. Names are indices of [`LoadFile::names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// Makes the file when it is not there; `anew`: empties one that is.
    Create {
        /// Name.
        name: u32,
        /// Empties it.
        anew: bool,
    },
    /// Makes a directory, which dbench does not sync.
    Mkdir {
        /// Name.
        name: u32,
    },
    /// Writes.
    Write {
        /// Name.
        name: u32,
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
    },
    /// fsync.
    Flush {
        /// Name.
        name: u32,
    },
    /// Renames a file; with `--sync-dir` the directory is synced.
    Rename {
        /// Name.
        from: u32,
        /// New name.
        to: u32,
    },
    /// Removes a file or a directory; with `--sync-dir` the directory is synced.
    Unlink {
        /// Name.
        name: u32,
    },
    /// Syncs the directory of what dbench could not rename or remove: with `--sync-dir` it does so all the same.
    SyncDir,
    /// Removes all files below a directory; dbench leaves the directories.
    Deltree {
        /// Name.
        name: u32,
    },
    /// Anything else, which changes nothing: reads, queries, locks, what is expected to fail.
    Other,
}

/// A load file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFile {
    /// Its lines.
    pub lines: Vec<Line>,
    /// Names of files and directories.
    pub names: Vec<String>,
    /// The most pages that each of them ever has.
    pub pages: Vec<u32>,
    /// Whether each of them is ever made as a directory.
    pub directories: Vec<bool>,
    /// A hash of its text.
    pub digest: String,
}

/// Whether a text begins as a load file does.
pub fn is_load_file(text: &str) -> bool {
    let is_said = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    text.lines()
        .find(is_said)
        .is_some_and(|line| words(line).and_then(|words| Reader::default().line(&words)).is_ok())
}

impl LoadFile {
    /// Reads one.
    ///
    /// # Errors
    /// It cannot be read, or a line is wrong.
    pub fn open(path: &str) -> Result<LoadFile, LoadFileError> {
        let failed = |source| LoadFileError::Read { path: path.into(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > BYTES_MAX {
            return Err(LoadFileError::Large { path: path.into(), bytes });
        }
        let text = std::fs::read(path).map_err(failed)?;
        LoadFile::parse(path, &String::from_utf8_lossy(&text))
    }

    /// Reads one again that had this digest.
    ///
    /// # Errors
    /// As [`LoadFile::open`]; it has changed.
    pub fn unchanged(path: &str, digest: &str) -> Result<LoadFile, LoadFileError> {
        let read = LoadFile::open(path)?;
        if read.digest == digest { Ok(read) } else { Err(LoadFileError::Changed { path: path.into() }) }
    }

    /// Reads the text of one; `path` is its name in messages.
    ///
    /// # Errors
    /// A line is wrong, or nothing is ever synced.
    pub fn parse(path: &str, text: &str) -> Result<LoadFile, LoadFileError> {
        let mut reader = Reader::default();
        let mut lines = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let read = words(line).and_then(|words| reader.line(&words));
            lines.push(read.map_err(|LineError { what, right }| LoadFileError::Line {
                path: path.into(),
                line: at + 1,
                what,
                right,
            })?);
        }
        let syncs = |line: &Line| {
            matches!(line, Line::Flush { .. } | Line::Rename { .. } | Line::Unlink { .. } | Line::SyncDir)
        };
        if !lines.iter().any(syncs) {
            return Err(LoadFileError::Nothing { path: path.into() });
        }
        let digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()));
        let pages = pages(reader.names.len(), &lines);
        let mut directories = vec![false; reader.names.len()];
        for line in &lines {
            if let Line::Mkdir { name } = line {
                directories[*name as usize] = true;
            }
        }
        Ok(LoadFile { lines, names: reader.names, pages, directories, digest })
    }
}

/// What is wrong with a line, and what would be right.
#[derive(Debug)]
struct LineError {
    what: String,
    right: String,
}

fn wrong<T>(what: impl Into<String>, right: impl Into<String>) -> Result<T, LineError> {
    Err(LineError { what: what.into(), right: right.into() })
}

/// A word, and whether it stood in quotes.
type Word<'a> = (&'a str, bool);

fn words(line: &str) -> Result<Vec<Word<'_>>, LineError> {
    let mut out = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let Some(end) = quoted.find('"') else {
                return wrong("a quote is not closed", "a name is written \"\\clients\\client1\\file\"");
            };
            out.push((&quoted[..end], true));
            rest = quoted[end + 1..].trim_start();
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            out.push((&rest[..end], false));
            rest = rest[end..].trim_start();
        }
    }
    // newer load files say when
    if out.len() > 1 && !out[0].1 && out[0].0.parse::<f64>().is_ok() {
        out.remove(0);
    }
    Ok(out)
}

/// Operations with their arguments (`n`: name, `h`: handle, `#`: number) before the status.
const OPERATIONS: [(&str, &str); 17] = [
    ("NTCreateX", "n##h"),
    ("Close", "h"),
    ("ReadX", "h###"),
    ("WriteX", "h###"),
    ("Flush", "h"),
    ("Rename", "nn"),
    ("Unlink", "n#"),
    ("Mkdir", "n"),
    ("Rmdir", "n"),
    ("Deltree", "n"),
    ("QUERY_PATH_INFORMATION", "n#"),
    ("QUERY_FILE_INFORMATION", "h#"),
    ("QUERY_FS_INFORMATION", "#"),
    ("SET_FILE_INFORMATION", "h#"),
    ("FIND_FIRST", "n###"),
    ("LockX", "h##"),
    ("UnlockX", "h##"),
];

/// How an operation is written.
fn form(operation: &str, arguments: &str) -> String {
    let words = arguments.chars().map(|argument| match argument {
        'n' => " \"NAME\"",
        'h' => " HANDLE",
        _ => " NUMBER",
    });
    format!("right is `{operation}{} STATUS`", words.collect::<String>())
}

#[derive(Default)]
struct Reader {
    names: Vec<String>,
    known: HashMap<String, u32>,
    /// What open handles stand for; none when the file was removed meanwhile.
    handles: HashMap<u64, Option<u32>>,
}

impl Reader {
    fn name(&mut self, name: &str) -> u32 {
        // Windows does not tell letters' cases apart
        let key = name.to_ascii_lowercase();
        let next = self.names.len() as u32;
        let names = &mut self.names;
        *self.known.entry(key.clone()).or_insert_with(|| {
            names.push(key);
            next
        })
    }

    fn line(&mut self, words: &[Word<'_>]) -> Result<Line, LineError> {
        let Some((first, arguments)) = words.split_first() else {
            return wrong("there is no operation", "a line is `Operation arguments status`");
        };
        let Some((operation, shape)) = OPERATIONS.iter().find(|(name, _)| *name == first.0) else {
            let known: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
            return wrong(
                format!("unknown operation `{}`", first.0),
                format!("known are {}", known.join(", ")),
            );
        };
        let right = || form(operation, shape);
        let Some(((status, _), arguments)) = arguments.split_last() else {
            return wrong(format!("`{operation}` has no status"), right());
        };
        let ok = match *status {
            "NT_STATUS_OK" | "SUCCESS" => true,
            other if other.starts_with("NT_STATUS_") || other == "ERROR" => false,
            // newer load files have the number
            other => match other.strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16)) {
                Some(Ok(number)) => number == 0,
                _ => {
                    return wrong(
                        format!("`{other}` is no status"),
                        "the last word is what the server answered, such as NT_STATUS_OK or 0x00000000",
                    );
                }
            },
        };
        if arguments.len() != shape.len() {
            let what = format!("`{operation}` has {} arguments instead of {}", arguments.len(), shape.len());
            return wrong(what, right());
        }
        let (mut names, mut numbers) = (Vec::new(), Vec::new());
        for ((text, quoted), kind) in arguments.iter().zip(shape.chars()) {
            if kind == 'n' {
                if !quoted {
                    return wrong(format!("`{text}` is no name in quotes"), right());
                }
                names.push(*text);
            } else {
                let number =
                    text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
                match number {
                    Ok(number) if !quoted => numbers.push(number),
                    _ => return wrong(format!("`{text}` is no number"), right()),
                }
            }
        }
        self.operation(operation, ok, &names, &numbers)
    }

    /// The file of an open handle.
    fn handle(&self, operation: &str, handle: u64) -> Result<Option<u32>, LineError> {
        self.handles.get(&handle).copied().map_or_else(
            || {
                let right = format!("open it before: `NTCreateX \"NAME\" 0x40 0x2 {handle} NT_STATUS_OK`");
                wrong(format!("`{operation}` uses handle {handle}, which is not open"), right)
            },
            Ok,
        )
    }

    /// Open handles of a file stay with it when it gets another name, or none.
    fn now_stand_for(&mut self, name: u32, other: Option<u32>) {
        self.handles.values_mut().filter(|of| **of == Some(name)).for_each(|of| *of = other);
    }

    fn operation(
        &mut self,
        operation: &str,
        ok: bool,
        names: &[&str],
        numbers: &[u64],
    ) -> Result<Line, LineError> {
        // an operation that the server refused changed nothing
        if !ok {
            let syncs = matches!(operation, "Rename" | "Unlink" | "Rmdir");
            return Ok(if syncs { Line::SyncDir } else { Line::Other });
        }
        Ok(match operation {
            "NTCreateX" => {
                let (options, disposition, handle) = (numbers[0], numbers[1], numbers[2]);
                let name = self.name(names[0]);
                self.handles.insert(handle, Some(name));
                if self.handles.len() > HANDLES_MAX {
                    return wrong(
                        format!("more than {HANDLES_MAX} handles are open, for which dbench has no room"),
                        format!("close some before: `Close {handle} NT_STATUS_OK`"),
                    );
                }
                // FILE_DIRECTORY_FILE; FILE_SUPERSEDE (which dbench opens as it is), FILE_CREATE, FILE_OPEN_IF; FILE_OVERWRITE,
                // FILE_OVERWRITE_IF
                match (options & 1 != 0, disposition) {
                    (true, 2 | 3) => Line::Mkdir { name },
                    (true, _) | (false, 1) => Line::Other,
                    (false, 0 | 2 | 3) => Line::Create { name, anew: false },
                    (false, 4 | 5) => Line::Create { name, anew: true },
                    (false, other) => {
                        return wrong(format!("`{other}` is no create disposition"), "0 to 5 are");
                    }
                }
            }
            "WriteX" => {
                let (offset, bytes) = (numbers[1], numbers[2]);
                if offset.saturating_add(bytes) > OFFSET_MAX {
                    let what = format!("the write ends at byte {}", offset.saturating_add(bytes));
                    return wrong(what, format!("files end at {OFFSET_MAX}"));
                }
                match self.handle(operation, numbers[0])? {
                    Some(name) if bytes > 0 => Line::Write { name, offset, bytes },
                    _ => Line::Other,
                }
            }
            "Flush" => self.handle(operation, numbers[0])?.map_or(Line::Other, |name| Line::Flush { name }),
            "Close" => {
                self.handle(operation, numbers[0])?;
                self.handles.remove(&numbers[0]);
                Line::Other
            }
            "Rename" => {
                let (from, to) = (self.name(names[0]), self.name(names[1]));
                if from == to {
                    // rename(2) does nothing then
                    return Ok(Line::SyncDir);
                }
                self.now_stand_for(to, None);
                self.now_stand_for(from, Some(to));
                Line::Rename { from, to }
            }
            "Unlink" | "Rmdir" => {
                let name = self.name(names[0]);
                self.now_stand_for(name, None);
                Line::Unlink { name }
            }
            "Mkdir" => Line::Mkdir { name: self.name(names[0]) },
            "Deltree" => Line::Deltree { name: self.name(names[0]) },
            "ReadX" | "QUERY_FILE_INFORMATION" | "SET_FILE_INFORMATION" | "LockX" | "UnlockX" => {
                self.handle(operation, numbers[0])?;
                Line::Other
            }
            _ => Line::Other,
        })
    }
}

/// For each of `names` names the most pages that it ever has. Names that a rename joins share them.
fn pages(names: usize, lines: &[Line]) -> Vec<u32> {
    let mut group: Vec<u32> = (0..names as u32).collect();
    fn root(group: &mut [u32], mut at: u32) -> u32 {
        while group[at as usize] != at {
            group[at as usize] = group[group[at as usize] as usize];
            at = group[at as usize];
        }
        at
    }
    for line in lines {
        if let Line::Rename { from, to } = *line {
            let (a, b) = (root(&mut group, from), root(&mut group, to));
            group[a as usize] = b;
        }
    }
    let mut most = vec![1u32; names];
    for line in lines {
        if let Line::Write { name, offset, bytes } = *line {
            let of = root(&mut group, name) as usize;
            most[of] = most[of].max((offset + bytes).div_ceil(PAGE_BYTES) as u32);
        }
    }
    (0..names as u32).map(|name| most[root(&mut group, name) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        LoadFile::parse("client.txt", text).unwrap_err().to_string()
    }

    #[test]
    fn lines_become_operations() {
        let text = "# a comment\nNTCreateX \"\\c\\a.doc\" 0x40 0x2 9 NT_STATUS_OK\n0.125 WriteX 9 65536 4096 4096 NT_STATUS_OK\n\n\
                    Flush 9 NT_STATUS_OK\nRename \"\\c\\a.doc\" \"\\c\\A.doc\" NT_STATUS_OK\n\
                    Rename \"\\c\\A.DOC\" \"\\c\\b\" NT_STATUS_OK\nUnlink \"\\c\\b\" 0x6 NT_STATUS_OK\n\
                    Unlink \"\\c\\x\" 0x6 NT_STATUS_NO_SUCH_FILE\nReadX 9 0 1 1 NT_STATUS_OK\n";
        let read = LoadFile::parse("client.txt", text).unwrap();
        assert_eq!(
            read.lines,
            [
                Line::Create { name: 0, anew: false },
                Line::Write { name: 0, offset: 65536, bytes: 4096 },
                Line::Flush { name: 0 },
                Line::SyncDir,
                Line::Rename { from: 0, to: 1 },
                Line::Unlink { name: 1 },
                Line::SyncDir,
                Line::Other,
            ]
        );
        assert_eq!(read.names, ["\\c\\a.doc", "\\c\\b"]);
        assert_eq!(read.pages, [17, 17], "names that a rename joins have the same room");
    }

    #[test]
    fn as_many_handles_are_open_as_dbench_has_room_for() {
        let open = |count| {
            let lines = (0..count).map(|at| format!("NTCreateX \"{at}\" 0x40 0x2 {at} NT_STATUS_OK\n"));
            lines.collect::<String>() + "Flush 0 NT_STATUS_OK\n"
        };
        assert!(LoadFile::parse("client.txt", &open(200)).is_ok());
        assert!(error(&open(201)).contains("client.txt:201: more than 200 handles are open"));
    }

    #[test]
    fn a_status_may_be_a_number() {
        let text =
            "NTCreateX \"a\" 0x40 0x1 1 0xc0000034\nNTCreateX \"a\" 0x40 0x2 1 0x00000000\nFlush 1 0x0\n";
        let read = LoadFile::parse("client.txt", text).unwrap();
        let made = Line::Create { name: 0, anew: false };
        assert_eq!(read.lines, [Line::Other, made, Line::Flush { name: 0 }]);
        assert!(error("Flush 1 0xNT").contains("`0xNT` is no status"));
    }

    #[test]
    fn handles_stay_with_their_file() {
        let text = "NTCreateX \"a\" 0 2 1 NT_STATUS_OK\nNTCreateX \"b\" 0 2 2 NT_STATUS_OK\nRename \"a\" \"b\" NT_STATUS_OK\n\
                    Flush 1 NT_STATUS_OK\nFlush 2 NT_STATUS_OK\nUnlink \"b\" 6 NT_STATUS_OK\nWriteX 1 0 9 9 NT_STATUS_OK\n";
        let read = LoadFile::parse("client.txt", text).unwrap();
        assert_eq!(
            read.lines[3..],
            [Line::Flush { name: 1 }, Line::Other, Line::Unlink { name: 1 }, Line::Other],
            "the renamed file has the other name, the one that it replaced has none"
        );
    }

    #[test]
    fn messages_name_the_line_and_what_is_right() {
        for (text, expected) in [
            (
                "Flush 7 NT_STATUS_OK",
                "client.txt:1: `Flush` uses handle 7, which is not open; open it before",
            ),
            (
                "NTCreateX \"a\" 0 2 1 NT_STATUS_OK\nClose 1 NT_STATUS_OK\nFlush 1 NT_STATUS_OK",
                "client.txt:3: `Flush` uses handle 1, which is not open",
            ),
            ("\nFlsh 7 NT_STATUS_OK", "client.txt:2: unknown operation `Flsh`; known are NTCreateX, Close"),
            (
                "Unlink \"a\" NT_STATUS_OK",
                "has 1 arguments instead of 2; right is `Unlink \"NAME\" NUMBER STATUS`",
            ),
            ("Unlink a 6 NT_STATUS_OK", "`a` is no name in quotes"),
            ("Unlink \"a 6 NT_STATUS_OK", "a quote is not closed"),
            ("Unlink \"a\" six NT_STATUS_OK", "`six` is no number"),
            ("Unlink \"a\" 6 fine", "`fine` is no status"),
            ("Flush", "`Flush` has no status"),
            ("NTCreateX \"a\" 0 9 1 NT_STATUS_OK", "`9` is no create disposition; 0 to 5 are"),
            ("Mkdir \"a\" NT_STATUS_OK", "no line syncs anything"),
            ("", "no line syncs anything"),
        ] {
            let error = error(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
