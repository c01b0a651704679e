//! The masters of a cluster as one client sees them, or the one server that there is: which of them has a key, and what a
//! redirection means.

use crate::KvError;

use super::resp::{Address, Login, Reply, Wire, command, refusal};
use super::slots::{SLOTS, slot};
use super::{LATER, LATER_TIMES, never_whole};

/// Redirections of one command that are followed at once. Masters that have not all heard who has a slot send it around for
/// longer: from then on it waits as one that is refused.
pub const AT_ONCE_MAX: u32 = 16;

/// What an error reply asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirection {
    /// The slot is there for good.
    Moved(u16, Address),
    /// This once, the key is there: after ASKING.
    Ask(Address),
    /// The cluster is changing, or the server loads its data: the same once more, later.
    Later,
}

/// Reads an error reply; `from` is the server that sent it, whose host counts where none is named.
pub fn redirection(text: &[u8], from: &Address) -> Option<Redirection> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split(' ');
    let kind = words.next()?;
    match kind {
        "MOVED" | "ASK" => {
            let slot: u16 = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
            let (host, port) = words.next()?.rsplit_once(':')?;
            let own = match from {
                Address::Tcp { host, .. } => host.as_str(),
                Address::Socket(_) => "127.0.0.1",
            };
            let host = if host.is_empty() { own } else { host }.to_string();
            let address = Address::Tcp { host, port: port.parse().ok()? };
            Some(if kind == "MOVED" { Redirection::Moved(slot, address) } else { Redirection::Ask(address) })
        }
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" => Some(Redirection::Later),
        _ => None,
    }
}

/// Connections to all masters.
#[derive(Debug)]
pub struct Ring {
    login: Login,
    /// One connection for each master.
    pub wires: Vec<Wire>,
    /// For each slot the number of its wire; empty: one server has everything.
    map: Vec<u16>,
    /// Redirections that were followed.
    pub redirections: u64,
}

impl Ring {
    /// Connects to a server and, in a cluster, to the masters that it knows.
    ///
    /// # Errors
    /// A connection is refused; the server is in no cluster.
    pub fn connect(login: &Login, cluster: bool) -> Result<Ring, KvError> {
        let first = Wire::connect(login)?;
        let mut ring = Ring { login: login.clone(), wires: vec![first], map: Vec::new(), redirections: 0 };
        if cluster {
            ring.learn()?;
        }
        Ok(ring)
    }

    /// Asks which master has which slots.
    fn learn(&mut self) -> Result<(), KvError> {
        let from = self.wires[0].address().clone();
        let ranges = self.wires[0].ask(&[b"CLUSTER", b"SLOTS"], |reply| slots(&reply, &from))?;
        let mut map = vec![u16::MAX; usize::from(SLOTS)];
        for (first, last, address) in ranges {
            let node = self.node_at(&address)? as u16;
            if let Some(part) = map.get_mut(usize::from(first)..=usize::from(last)) {
                part.fill(node);
            }
        }
        // a slot that nobody has: the first master says what is wrong
        map.iter_mut().filter(|node| **node == u16::MAX).for_each(|node| *node = 0);
        self.map = map;
        Ok(())
    }

    /// The number of the wire to this master, connected now if it is new.
    ///
    /// # Errors
    /// The connection is refused.
    pub fn node_at(&mut self, address: &Address) -> Result<usize, KvError> {
        if let Some(known) = self.wires.iter().position(|wire| wire.address() == address) {
            return Ok(known);
        }
        self.wires.push(Wire::connect(&self.login.at(address.clone()))?);
        Ok(self.wires.len() - 1)
    }

    /// The wire of a key.
    #[inline]
    pub fn node_of(&self, key: &[u8]) -> usize {
        if self.map.is_empty() { 0 } else { usize::from(self.map[usize::from(slot(key))]) }
    }

    /// A slot has moved for good.
    pub fn moved(&mut self, slot: u16, node: usize) {
        if let Some(place) = self.map.get_mut(usize::from(slot)) {
            *place = node as u16;
        }
    }

    /// Sends commands, each to the master of its key, and shows their replies in the order of the commands of each
    /// master; redirections are followed.
    ///
    /// # Errors
    /// A connection broke, or what `show` says; it gets the number of the command.
    pub fn pipeline(
        &mut self,
        commands: &[(&[u8], Vec<u8>)],
        show: &mut dyn FnMut(usize, &Reply<'_>) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        let mut sent: Vec<Vec<usize>> = vec![Vec::new(); self.wires.len()];
        for (number, (key, text)) in commands.iter().enumerate() {
            let node = self.node_of(key);
            self.wires[node].out.extend_from_slice(text);
            sent[node].push(number);
        }
        self.wires.iter_mut().try_for_each(Wire::flush)?;
        let mut again = Vec::new();
        for (node, numbers) in sent.into_iter().enumerate() {
            let from = self.wires[node].address().clone();
            for number in numbers {
                let redirected = self.wires[node].wait(|reply| match &reply {
                    Reply::Error(text) if redirection(text, &from).is_some() => Ok(true),
                    other => show(number, other).map(|()| false),
                })??;
                if redirected {
                    again.push(number);
                }
            }
        }
        for number in again {
            let (key, text) = &commands[number];
            self.follow(key, text, &mut |reply| show(number, reply))?;
        }
        Ok(())
    }

    /// Sends one command and follows where it is sent to.
    fn follow(
        &mut self,
        key: &[u8],
        text: &[u8],
        show: &mut dyn FnMut(&Reply<'_>) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        let (mut node, mut asking) = (self.node_of(key), false);
        for times in 1..=LATER_TIMES {
            if asking {
                self.wires[node].must(&["ASKING"])?;
            }
            let from = self.wires[node].address().clone();
            self.wires[node].out.extend_from_slice(text);
            let next = self.wires[node].wait(|reply| match &reply {
                Reply::Error(text) if redirection(text, &from).is_some() => Ok(redirection(text, &from)),
                other => show(other).map(|()| None),
            })??;
            asking = false;
            let Some(next) = next else { return Ok(()) };
            if times > AT_ONCE_MAX || next == Redirection::Later {
                std::thread::sleep(LATER);
            }
            match next {
                Redirection::Moved(slot, address) => {
                    node = self.node_at(&address)?;
                    self.moved(slot, node);
                }
                Redirection::Ask(address) => {
                    node = self.node_at(&address)?;
                    asking = true;
                }
                Redirection::Later => {}
            }
            self.redirections += 1;
        }
        Err(never_whole())
    }
}

/// Reads the answer to CLUSTER SLOTS: first and last slot, master.
///
/// # Errors
/// Redis refused, or its answer is no list.
pub fn slots(reply: &Reply<'_>, from: &Address) -> Result<Vec<(u16, u16, Address)>, KvError> {
    let Reply::Array(ranges) = reply else {
        return Err(match reply {
            Reply::Error(text) => refusal("CLUSTER SLOTS", text),
            _ => KvError::Engine("Redis: CLUSTER SLOTS has an answer that is no list".into()),
        });
    };
    let own = match from {
        Address::Tcp { host, .. } => host.as_str(),
        Address::Socket(_) => "127.0.0.1",
    };
    let one = |range: Reply<'_>| -> Option<(u16, u16, Address)> {
        let Reply::Array(parts) = range else { return None };
        let mut parts = parts.iter();
        let (Reply::Number(first), Reply::Number(last), Reply::Array(master)) =
            (parts.next()?, parts.next()?, parts.next()?)
        else {
            return None;
        };
        let mut master = master.iter();
        let (host, Reply::Number(port)) = (master.next()?, master.next()?) else { return None };
        let host = host.bytes().map(|host| String::from_utf8_lossy(host).into_owned());
        let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| own.to_string());
        let port = u16::try_from(port).ok()?;
        Some((u16::try_from(first).ok()?, u16::try_from(last).ok()?, Address::Tcp { host, port }))
    };
    Ok(ranges.iter().filter_map(one).collect())
}

/// A command as it is sent.
pub fn text(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    command(&mut out, words);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_are_read() {
        let from = Address::Tcp { host: "h".into(), port: 1 };
        let at = |host: &str, port| Address::Tcp { host: host.into(), port };
        assert_eq!(
            redirection(b"MOVED 12182 127.0.0.1:17003", &from),
            Some(Redirection::Moved(12182, at("127.0.0.1", 17003)))
        );
        assert_eq!(redirection(b"ASK 1 :7", &from), Some(Redirection::Ask(at("h", 7))));
        assert_eq!(redirection(b"TRYAGAIN Multiple keys", &from), Some(Redirection::Later));
        for other in [&b"ERR x"[..], b"MOVED", b"MOVED 99999 h:1", b"MOVED 1 h", b"MOVED 1 h:99999", b"\xff"]
        {
            assert_eq!(redirection(other, &from), None);
        }
    }
}
