//! Any request to `loadline serve` is answered: any address and query of a server with two stored runs, any bytes in place of HTTP.

#[path = "../../instrument/web/tests/common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use common::{Home, Server, serve};

/// An answer that takes longer is one that goes on, as that of a run in progress does.
const PATIENCE: Duration = Duration::from_secs(2);
const PATHS: [&str; 12] = [
    "/",
    "/runs/ID",
    "/runs/ID/counters",
    "/runs/ID/data/FILE",
    "/runs/ID/live",
    "/runs/ID/events",
    "/compare",
    "/trend",
    "/trend.svg",
    "/counts",
    "/assets/FILE",
    "/nothing",
];
const FILES: [&str; 6] =
    ["trials.csv", "series.csv", "run.json", "page.css", "page.js", "..%2f..%2fetc%2fpasswd"];
const NAMES: [&str; 14] = [
    "q",
    "workload",
    "stack",
    "from",
    "to",
    "page",
    "a",
    "b",
    "anchor",
    "metric",
    "every_seconds",
    "per",
    "token",
    "names",
];
const VALUES: [&str; 16] = [
    "last",
    "last~1",
    "ID",
    "hog",
    "ext4",
    "xfs",
    "throughput",
    "p99",
    "disk_writes",
    "0",
    "1",
    "-1",
    "18446744073709551615",
    "1e300",
    "2026-11-26",
    "%ff%00",
];

struct Site {
    _home: Home,
    server: Server,
    id: String,
}

fn site() -> &'static Site {
    static SITE: OnceLock<Site> = OnceLock::new();
    SITE.get_or_init(|| {
        let home = Home::with_runs(2);
        let id = home.ids()[0].clone();
        Site { server: serve(&home, &[]), _home: home, id }
    })
}

pub fn run(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let site = site();
    let port = site.server.port;
    let request = match kind % 4 {
        0 => bytes.to_vec(),
        1 => [b"GET /", bytes, format!(" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes()].concat(),
        _ => {
            let address = address(&mut Unstructured::new(bytes), &site.id).unwrap_or_else(|_| "/".into());
            format!("GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").into_bytes()
        }
    };
    ask(port, &request);
}

fn address(u: &mut Unstructured<'_>, id: &str) -> Result<String> {
    let mut text = (*u.choose(&PATHS)?).to_string();
    if text.contains("ID") {
        text = text.replace("ID", &value(u, id)?);
    }
    if text.contains("FILE") {
        text = text.replace("FILE", u.choose(&FILES)?);
    }
    let mut mark = '?';
    while !u.is_empty() {
        text += &format!("{mark}{}={}", u.choose(&NAMES)?, value(u, id)?);
        mark = '&';
    }
    Ok(text)
}

fn value(u: &mut Unstructured<'_>, id: &str) -> Result<String> {
    if u.ratio(1, 4)? {
        let len = u.arbitrary_len::<u8>()?.min(24);
        return Ok(u.bytes(len)?.iter().map(|byte| format!("%{byte:02x}")).collect());
    }
    Ok(u.choose(&VALUES)?.replace("ID", id))
}

/// Sends a request and takes what comes.
fn ask(port: u16, request: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server is there");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    forget_at_once(&stream);
    // It may say no before it has read all.
    if stream.write_all(request).is_err() || stream.shutdown(std::net::Shutdown::Write).is_err() {
        return;
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
}

/// A port would otherwise be kept for a minute, and there are fewer ports than a fuzzer has inputs.
fn forget_at_once(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the option is read from a value that lives during the call.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    assert_eq!(done, 0, "SO_LINGER");
}
