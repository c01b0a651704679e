//! Any bytes from a Redis server are replies, the beginning of one, or none; so are redirections, a cluster's map, and the
//! address that a user gives.

use kv::redis::resp::{Address, Incomplete, Login, Reply, parse};
use kv::redis::ring::{redirection, slots};

pub fn run(bytes: &[u8]) {
    let from = Address::Tcp { host: "h".into(), port: 1 };
    let mut rest = bytes;
    while let Ok((reply, taken)) = parse(rest) {
        assert!(0 < taken && taken <= rest.len());
        // Of what is cut off more must come.
        assert_eq!(parse(&rest[..taken - 1]).unwrap_err(), Incomplete::More);
        if let Reply::Error(text) = reply {
            let _ = redirection(text, &from);
        }
        if let Err(error) = slots(&reply, &from) {
            let _ = error.to_string();
        }
        rest = &rest[taken..];
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Login::parse(text).map_err(|error| error.to_string());
    }
}
