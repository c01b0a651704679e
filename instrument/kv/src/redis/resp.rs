//! Redis' protocol (RESP2): commands out, replies in, on a socket that never blocks.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use workload::address::redact_word;

use crate::KvError;

/// Longest wait for one answer; a server that is stopped or swaps is given that long.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Room for what is read at once.
const READ_BYTES: usize = 64 << 10;
/// Arrays within arrays, at most: CLUSTER SLOTS has three levels.
const DEPTH_MAX: u32 = 8;

/// Where a server is, and how it lets us in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A socket.
    Socket(Utf8PathBuf),
    /// A host and a port.
    Tcp {
        /// Name or number.
        host: String,
        /// Port.
        port: u16,
    },
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Socket(path) => write!(f, "{path}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// An address with what is told to the server first.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// Where.
    pub address: Address,
    /// A user, if not the default one.
    pub user: Option<String>,
    /// A password.
    pub password: Option<String>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} as {}", self.address, self.user.as_deref().unwrap_or("the default user"))
    }
}

impl Login {
    /// Reads `redis://[user][:password@]host[:port]` or `unix:PATH`.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(url: &str) -> Result<Login, KvError> {
        let wrong = || {
            KvError::Parameter(format!(
                "address = {} is neither redis://user:password@host:port nor unix:/path/of/socket",
                redact_word(url)
            ))
        };
        if let Some(path) = url.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let address = Address::Socket(path.into());
            return Ok(Login { address, user: None, password: None });
        }
        let rest = url.strip_prefix("redis://").ok_or_else(wrong)?.trim_end_matches('/');
        let (who, place) = rest.rsplit_once('@').map_or((None, rest), |(who, place)| (Some(who), place));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (place, 6379),
        };
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        let (user, password) = match who {
            None => (None, None),
            Some(who) => {
                who.split_once(':').map_or((None, Some(who)), |(user, word)| (Some(user), Some(word)))
            }
        };
        Ok(Login {
            address: Address::Tcp { host: host.trim_matches(['[', ']']).into(), port },
            user: user.filter(|user| !user.is_empty()).map(String::from),
            password: password.map(String::from),
        })
    }

    /// The same at another address.
    pub fn at(&self, address: Address) -> Login {
        Login { address, ..self.clone() }
    }
}

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<'a> {
    /// `+OK`
    Simple(&'a [u8]),
    /// `-ERR ...`
    Error(&'a [u8]),
    /// `:1`
    Number(i64),
    /// Bytes; none: there is nothing.
    Bytes(Option<&'a [u8]>),
    /// Several.
    Array(List<'a>),
}

/// Replies within a reply. They are read when they are looked at: nothing is allocated for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List<'a> {
    text: &'a [u8],
    length: usize,
}

impl<'a> List<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Reply<'a>> {
        let mut rest = self.text;
        (0..self.length).map_while(move |_| {
            let (one, taken) = parse(rest).ok()?;
            rest = &rest[taken..];
            Some(one)
        })
    }
}

impl<'a> Reply<'a> {
    /// The bytes of a text of either kind.
    #[inline]
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Reply::Simple(text) | Reply::Bytes(Some(text)) => Some(text),
            _ => None,
        }
    }
}

/// Why a text is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incomplete {
    /// More of it must come.
    More,
    /// It never will be one.
    Wrong,
}

/// Reads a reply at the beginning of a text; how many bytes it takes.
///
/// # Errors
/// See [`Incomplete`].
pub fn parse(text: &[u8]) -> Result<(Reply<'_>, usize), Incomplete> {
    parse_within(text, 0)
}

fn parse_within(text: &[u8], depth: u32) -> Result<(Reply<'_>, usize), Incomplete> {
    let (kind, rest) = text.split_first().ok_or(Incomplete::More)?;
    let end = rest.iter().position(|byte| *byte == b'\r').ok_or(Incomplete::More)?;
    let (line, after) = (&rest[..end], end + 3);
    if text.len() < after {
        return Err(Incomplete::More);
    }
    let number = || decimal(line).ok_or(Incomplete::Wrong);
    match kind {
        b'+' => Ok((Reply::Simple(line), after)),
        b'-' => Ok((Reply::Error(line), after)),
        b':' => Ok((Reply::Number(number()?), after)),
        b'$' => {
            let Ok(length) = usize::try_from(number()?) else { return Ok((Reply::Bytes(None), after)) };
            let end = after.checked_add(length).ok_or(Incomplete::Wrong)?;
            match text.get(after..end) {
                Some(bytes) if text.len() >= end + 2 => Ok((Reply::Bytes(Some(bytes)), end + 2)),
                _ => Err(Incomplete::More),
            }
        }
        b'*' => {
            let Ok(length) = usize::try_from(number()?) else { return Ok((Reply::Bytes(None), after)) };
            if depth > DEPTH_MAX {
                return Err(Incomplete::Wrong);
            }
            let mut at = after;
            for _ in 0..length {
                at += parse_within(&text[at..], depth + 1)?.1;
            }
            Ok((Reply::Array(List { text: &text[after..at], length }), at))
        }
        _ => Err(Incomplete::Wrong),
    }
}

/// A number as Redis writes it. Lengths have few digits: they are not worth a check for UTF-8 and overflow at each step.
#[inline]
fn decimal(line: &[u8]) -> Option<i64> {
    const SURE_DIGITS: usize = 18;
    if line.is_empty() || line.len() > SURE_DIGITS || !line.iter().all(u8::is_ascii_digit) {
        return std::str::from_utf8(line).ok()?.parse().ok();
    }
    Some(line.iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0')))
}

/// Appends a command.
#[inline]
pub fn command(out: &mut Vec<u8>, words: &[&[u8]]) {
    begin(out, words.len());
    words.iter().for_each(|one| word(out, one));
}

/// Appends the beginning of a command of so many words; each follows by [`word`].
#[inline]
pub fn begin(out: &mut Vec<u8>, words: usize) {
    number(out, b'*', words);
}

/// Appends a word of a command.
#[inline]
pub fn word(out: &mut Vec<u8>, word: &[u8]) {
    number(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

fn number(out: &mut Vec<u8>, kind: u8, mut number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push(kind);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

#[derive(Debug)]
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A connection.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    address: Address,
    /// What is to be sent.
    pub out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Wire {
    /// Connects and logs in.
    ///
    /// # Errors
    /// [`KvError::Refused`] with what would help.
    pub fn connect(login: &Login) -> Result<Wire, KvError> {
        let address = &login.address;
        let refused = |error: io::Error| {
            let remedy = match address {
                Address::Socket(_) => "is a server running, and may you use its socket?",
                Address::Tcp { .. } => "is a server running there, and does it listen on this address?",
            };
            KvError::Refused(format!("no connection to Redis at {address}: {error}; {remedy}"))
        };
        let stream = match address {
            Address::Socket(path) => Stream::Unix(UnixStream::connect(path).map_err(refused)?),
            Address::Tcp { host, port } => {
                let found = (host.as_str(), *port).to_socket_addrs().map_err(refused)?;
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                let mut connected = None;
                for one in found {
                    match TcpStream::connect_timeout(&one, CONNECT_PATIENCE) {
                        Ok(stream) => {
                            connected = Some(stream);
                            break;
                        }
                        Err(error) => last = error,
                    }
                }
                let stream = connected.ok_or(last).map_err(refused)?;
                stream.set_nodelay(true).map_err(refused)?;
                Stream::Tcp(stream)
            }
        };
        match &stream {
            Stream::Unix(stream) => stream.set_nonblocking(true),
            Stream::Tcp(stream) => stream.set_nonblocking(true),
        }
        .map_err(refused)?;
        let mut wire = Wire {
            stream,
            address: address.clone(),
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            taken: 0,
            filled: 0,
        };
        if let Some(password) = &login.password {
            let mut words: Vec<&[u8]> = vec![b"AUTH"];
            words.extend(login.user.as_ref().map(|user| user.as_bytes()));
            words.push(password.as_bytes());
            wire.ask(&words, |reply| match reply {
                Reply::Error(text) => Err(KvError::Refused(format!(
                    "Redis at {address} does not let us in: {}; check user and password in the address \
                     (redis://user:password@host:port)",
                    String::from_utf8_lossy(text)
                ))),
                _ => Ok(()),
            })?;
        }
        Ok(wire)
    }

    /// Where it leads.
    pub fn address(&self) -> &Address {
        &self.address
    }

    fn gone(&self, error: &io::Error) -> KvError {
        KvError::Gone(format!("Redis at {}", self.address), error.to_string())
    }

    /// Whether something is to be sent.
    pub fn is_full(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Sends as much as the socket takes.
    ///
    /// # Errors
    /// [`KvError::Gone`].
    pub fn flush(&mut self) -> Result<(), KvError> {
        while self.sent < self.out.len() {
            let rest = &self.out[self.sent..];
            let written = match &mut self.stream {
                Stream::Unix(stream) => stream.write(rest),
                Stream::Tcp(stream) => stream.write(rest),
            };
            match written {
                Ok(0) => return Err(self.gone(&io::ErrorKind::WriteZero.into())),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.gone(&error)),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Takes what has come, as far as there is something.
    ///
    /// # Errors
    /// [`KvError::Gone`], also when the server has closed the connection.
    pub fn fill(&mut self) -> Result<(), KvError> {
        self.input.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        loop {
            if self.input.len() < self.filled + READ_BYTES {
                self.input.resize(self.filled + 2 * READ_BYTES, 0);
            }
            let room = &mut self.input[self.filled..];
            let most = room.len();
            let read = match &mut self.stream {
                Stream::Unix(stream) => stream.read(room),
                Stream::Tcp(stream) => stream.read(room),
            };
            match read {
                Ok(0) => return Err(self.gone(&io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => {
                    self.filled += bytes;
                    if bytes < most {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.gone(&error)),
            }
        }
    }

    /// The next reply of those that have come whole.
    ///
    /// # Errors
    /// What came is no reply.
    pub fn reply(&mut self) -> Result<Option<Reply<'_>>, KvError> {
        match parse(&self.input[self.taken..self.filled]) {
            Ok((reply, bytes)) => {
                self.taken += bytes;
                Ok(Some(reply))
            }
            Err(Incomplete::More) => Ok(None),
            Err(Incomplete::Wrong) => Err(KvError::Engine(format!(
                "what answers at {} does not speak Redis' protocol",
                self.address
            ))),
        }
    }

    /// Sends what is to be sent and waits for a reply.
    ///
    /// # Errors
    /// The connection broke, or no answer came within 60 s.
    pub fn wait<T>(&mut self, of: impl FnOnce(Reply<'_>) -> T) -> Result<T, KvError> {
        let start = Instant::now();
        loop {
            self.flush()?;
            // twice, since a reply borrows what it is read from
            if parse(&self.input[self.taken..self.filled]) != Err(Incomplete::More)
                && let Some(reply) = self.reply()?
            {
                return Ok(of(reply));
            }
            if start.elapsed() > ANSWER_PATIENCE {
                let waited = ANSWER_PATIENCE.as_secs();
                return Err(KvError::Engine(format!(
                    "Redis at {} gave no answer within {waited} s",
                    self.address
                )));
            }
            let mut flags = PollFlags::IN;
            if self.is_full() {
                flags |= PollFlags::OUT;
            }
            let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
            let ready = {
                let mut fds = [PollFd::from_borrowed_fd(self.as_fd(), flags)];
                match poll(&mut fds, Some(&timeout)) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => !(fds[0].revents() - PollFlags::OUT).is_empty(),
                    Err(error) => return Err(self.gone(&error.into())),
                }
            };
            if ready {
                self.fill()?;
            }
        }
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// As [`Wire::wait`], and what `of` says.
    pub fn ask<T>(
        &mut self,
        words: &[&[u8]],
        of: impl FnOnce(Reply<'_>) -> Result<T, KvError>,
    ) -> Result<T, KvError> {
        command(&mut self.out, words);
        self.wait(of)?
    }

    /// A command that must succeed; its text, if it has one.
    ///
    /// # Errors
    /// As [`Wire::wait`], and what Redis answered.
    pub fn must(&mut self, words: &[&str]) -> Result<String, KvError> {
        let line = words.join(" ");
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask(&words, |reply| match reply {
            Reply::Error(text) => Err(refusal(&line, text)),
            other => {
                Ok(other.bytes().map_or(String::new(), |text| String::from_utf8_lossy(text).into_owned()))
            }
        })
    }
}

/// What an error of Redis means.
pub fn refusal(line: &str, text: &[u8]) -> KvError {
    let text = String::from_utf8_lossy(text);
    if text.starts_with("NOAUTH") || text.starts_with("WRONGPASS") || text.starts_with("NOPERM") {
        return KvError::Refused(format!(
            "Redis: {text}; give user and password in the address (redis://user:password@host:port)"
        ));
    }
    if text.contains("cluster support disabled") {
        return KvError::Refused(format!(
            "Redis: {text}; this server is none of a cluster: take --engine redis, or the address of a cluster's master"
        ));
    }
    if text.starts_with("OOM") {
        return KvError::Full(format!("Redis, {line}: {text}"));
    }
    KvError::engine("Redis", format_args!("{line}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_at_every_cut() {
        let text = b"*4\r\n$3\r\nabc\r\n$-1\r\n:-7\r\n*1\r\n+OK\r\n";
        let (Reply::Array(list), taken) = parse(text).unwrap() else { panic!("{text:?}") };
        let replies: Vec<Reply> = list.iter().collect();
        let [Reply::Bytes(Some(b"abc")), Reply::Bytes(None), Reply::Number(-7), Reply::Array(inner)] =
            replies[..]
        else {
            panic!("{replies:?}")
        };
        assert_eq!(inner.iter().collect::<Vec<_>>(), [Reply::Simple(b"OK")]);
        assert_eq!((list.len(), taken), (4, text.len()));
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]), Err(Incomplete::More), "{cut}");
        }
        assert_eq!(parse(b"-ERR no\r\n+x").unwrap(), (Reply::Error(b"ERR no"), 9));
        for wrong in [&b"HTTP/1.1 400\r\n"[..], b":x\r\n", b"$9223372036854775807\r\n"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        let deep = b"*1\r\n".repeat(1000);
        assert_eq!(parse(&deep), Err(Incomplete::Wrong));
    }

    #[test]
    fn numbers_are_read_as_the_standard_library_reads_them() {
        for text in
            ["0", "7", "007", "-1", "+5", "100", "999999999999999999", "9223372036854775807", "", "-", "1 "]
        {
            assert_eq!(decimal(text.as_bytes()), text.parse().ok(), "{text}");
        }
        for wrong in [&b"9223372036854775808"[..], b"\xff", b"0x10", b"1\n"] {
            assert_eq!(decimal(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        for (told, remedy) in [
            ("NOAUTH Authentication required.", "give user and password"),
            ("ERR This instance has cluster support disabled", "--engine redis"),
        ] {
            let error = refusal("CLUSTER SLOTS", told.as_bytes());
            assert!(matches!(&error, KvError::Refused(text) if text.contains(remedy)), "{error}");
        }
    }

    #[test]
    fn commands_are_written() {
        let mut out = Vec::new();
        command(&mut out, &[b"SET", b"k", b""]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
    }

    #[test]
    fn addresses_are_read() {
        let of = |url: &str| {
            Login::parse(url).map(|login| (login.address.to_string(), login.user, login.password))
        };
        let some = |text: &str| Some(text.to_string());
        assert_eq!(of("redis://h").unwrap(), ("h:6379".into(), None, None));
        assert_eq!(of("redis://:p@h:1/").unwrap(), ("h:1".into(), None, some("p")));
        assert_eq!(of("redis://u:p@x@[::1]:7").unwrap(), ("::1:7".into(), some("u"), some("p@x")));
        assert_eq!(of("unix:/run/s").unwrap(), ("/run/s".into(), None, None));
        for wrong in ["http://h", "redis://", "redis://h:port", "h:1"] {
            assert!(
                of(wrong).unwrap_err().to_string().contains("redis://user:password@host:port"),
                "{wrong}"
            );
        }
    }
}
