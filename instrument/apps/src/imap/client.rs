//! The few IMAP commands (RFC 3501, UIDPLUS of RFC 4315) that the load needs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::AppError;

/// An answer that takes longer is an error.
const PATIENCE: Duration = Duration::from_secs(120);
/// A literal longer than this is no message of ours.
const LITERAL_BYTES_MAX: u64 = 1 << 20;

/// A connection in the state that its last command left it in.
#[derive(Debug)]
pub(super) struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    tag: u64,
    mailbox: String,
}

fn broken(error: std::io::Error) -> AppError {
    AppError::Protocol(format!("the connection to Dovecot: {error}"))
}

impl Client {
    /// Connects and reads the greeting.
    pub(super) fn connect(port: u16) -> Result<Client, AppError> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(broken)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let writer = stream.try_clone().map_err(broken)?;
        let mut client = Client { reader: BufReader::new(stream), writer, tag: 0, mailbox: String::new() };
        match client.line()? {
            line if line.starts_with("* OK") => Ok(client),
            line => Err(AppError::Protocol(format!("Dovecot greets with `{line}`"))),
        }
    }

    pub(super) fn login(&mut self, user: &str) -> Result<(), AppError> {
        self.command(&format!("LOGIN {user} x")).map(drop)
    }

    /// Opens a mailbox; returns the UIDs of its messages.
    pub(super) fn select(&mut self, mailbox: &str) -> Result<Vec<u32>, AppError> {
        self.command(&format!("SELECT {mailbox}"))?;
        self.mailbox = mailbox.to_string();
        let lines = self.command("UID SEARCH ALL")?;
        let found = lines.iter().find_map(|line| line.strip_prefix("* SEARCH")).unwrap_or_default();
        Ok(found.split_whitespace().filter_map(|word| word.parse().ok()).collect())
    }

    /// Reads a message whole.
    pub(super) fn fetch(&mut self, uid: u32) -> Result<(), AppError> {
        let lines = self.command(&format!("UID FETCH {uid} (RFC822)"))?;
        expect(&lines, "RFC822", uid)
    }

    /// Reads a message's flags and turns `\Seen` round.
    pub(super) fn toggle(&mut self, uid: u32) -> Result<(), AppError> {
        let lines = self.command(&format!("UID FETCH {uid} (FLAGS)"))?;
        expect(&lines, "FLAGS", uid)?;
        let seen = lines.iter().any(|line| line.contains("\\Seen"));
        let sign = if seen { '-' } else { '+' };
        self.command(&format!("UID STORE {uid} {sign}FLAGS (\\Seen)")).map(drop)
    }

    /// Marks a message deleted and expunges it.
    pub(super) fn delete(&mut self, uid: u32) -> Result<(), AppError> {
        self.command(&format!("UID STORE {uid} +FLAGS (\\Deleted)"))?;
        self.command("EXPUNGE").map(drop)
    }

    /// Appends a message to the open mailbox; returns its UID.
    pub(super) fn append(&mut self, message: &[u8]) -> Result<u32, AppError> {
        self.tag += 1;
        write!(self.writer, "t{} APPEND {} {{{}}}\r\n", self.tag, self.mailbox, message.len())
            .map_err(broken)?;
        loop {
            let line = self.line()?;
            if line.starts_with('+') {
                break;
            }
            if !line.starts_with('*') {
                return Err(AppError::Protocol(format!("APPEND: `{line}`")));
            }
        }
        self.writer.write_all(&[message, b"\r\n"].concat()).map_err(broken)?;
        let lines = self.answer("APPEND")?;
        let uid = lines.last().and_then(|line| {
            let words = line.split("[APPENDUID ").nth(1)?.split(']').next()?;
            words.split(' ').nth(1)?.parse().ok()
        });
        uid.ok_or_else(|| AppError::Protocol(format!("APPEND told no UID: {lines:?}")))
    }

    pub(super) fn logout(&mut self) -> Result<(), AppError> {
        self.command("LOGOUT").map(drop)
    }

    fn command(&mut self, text: &str) -> Result<Vec<String>, AppError> {
        self.tag += 1;
        self.writer.write_all(format!("t{} {text}\r\n", self.tag).as_bytes()).map_err(broken)?;
        self.answer(text)
    }

    /// The lines up to and including the tagged one, which must be OK.
    fn answer(&mut self, command: &str) -> Result<Vec<String>, AppError> {
        let tag = format!("t{} ", self.tag);
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            let tagged = line.strip_prefix(&tag).map(|rest| rest.starts_with("OK"));
            match tagged {
                Some(true) => {
                    lines.push(line);
                    return Ok(lines);
                }
                Some(false) => return Err(AppError::Protocol(format!("`{command}`: `{line}`"))),
                None => lines.push(line),
            }
        }
    }

    /// A line without its end; a literal that follows it is read and dropped.
    fn line(&mut self) -> Result<String, AppError> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).map_err(broken)? == 0 {
            return Err(AppError::Protocol("Dovecot closed the connection".into()));
        }
        let line = line.trim_end_matches(['\r', '\n']).to_string();
        let literal = line.strip_suffix('}').and_then(|line| line.rsplit_once('{'));
        if let Some(bytes) = literal.and_then(|(_, digits)| digits.parse::<u64>().ok()) {
            let mut body = Vec::new();
            (&mut self.reader).take(bytes.min(LITERAL_BYTES_MAX)).read_to_end(&mut body).map_err(broken)?;
        }
        Ok(line)
    }
}

fn expect(lines: &[String], word: &str, uid: u32) -> Result<(), AppError> {
    let told = lines.iter().any(|line| line.contains(word) && line.contains("FETCH"));
    if told { Ok(()) } else { Err(AppError::Protocol(format!("message {uid} is gone: {lines:?}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that says these lines, whatever it hears.
    fn server(lines: &'static str) -> u16 {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(lines.as_bytes()).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        port
    }

    #[test]
    fn answers_are_read_with_their_literals() {
        let port = server(
            "* OK hello\r\nt1 OK in\r\n* 2 EXISTS\r\nt2 OK\r\n* SEARCH 3 9\r\nt3 OK done\r\n\
             * 1 FETCH (UID 3 RFC822 {6}\r\nt4 NO!)\r\nt4 OK\r\n+ go\r\nt5 OK [APPENDUID 17 10] done\r\n\
             t6 NO full\r\n",
        );
        let mut client = Client::connect(port).unwrap();
        client.login("u").unwrap();
        assert_eq!(client.select("box").unwrap(), [3, 9]);
        client.fetch(3).unwrap();
        assert_eq!(client.append(b"text").unwrap(), 10);
        assert!(client.delete(3).unwrap_err().to_string().contains("full"));
    }

    #[test]
    fn a_server_that_hangs_up_is_an_error() {
        assert!(Client::connect(server("* BYE\r\n")).is_err());
    }
}
