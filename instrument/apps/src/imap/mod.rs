//! IMAP: clients that fetch, flag, delete and append against a private Dovecot.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the load: mailboxes, clients, the mixture of operations |
//! | `dovecot` | the server with its own configuration, directory and port |
//! | `client` | the few IMAP commands that the load needs |

mod client;
mod dovecot;

use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use stats::Direction;

use crate::bench::Tally;
use crate::error::at;
use crate::{AppError, Bench, Load, LoadSite, Parameters};

use client::Client;
use dovecot::Dovecot;

/// The user whose mailboxes these are; any name does, since the server takes any.
const USER: &str = "punish";
/// Bytes of a message.
const MESSAGE_BYTES: usize = 54;
/// Mailboxes, of which the clients use those of [`BOXES`].
const MAILBOXES: u64 = 10;
/// By the integer division of the original program each client has one mailbox; 4 and 9 are never used.
const BOXES: [u64; 8] = [0, 1, 2, 3, 5, 6, 7, 8];

/// `mailserver`: 8 clients, each on a mailbox of its own: 50 % UID FETCH; else one third each flag toggle (fetch and
/// store), delete and EXPUNGE, APPEND. The figure is operations a second of all clients together. Differs from the
/// original: no TLS, threads for processes.
#[derive(Debug)]
pub struct Imap {
    messages: u64,
    ops: u64,
}

impl Imap {
    /// Parameters `messages` (of each mailbox) and `ops` (of each client).
    ///
    /// # Errors
    /// A value out of range.
    pub fn new(parameters: &mut Parameters) -> Result<Imap, AppError> {
        Ok(Imap {
            messages: parameters.number("messages", 500, 1..=1_000_000)?,
            ops: parameters.number("ops", 250, 1..=100_000_000)?,
        })
    }
}

impl Load for Imap {
    fn phases(&self) -> u32 {
        2
    }

    fn seconds_guess(&self) -> f64 {
        (self.messages * MAILBOXES) as f64 / 5000.0 + (self.ops * BOXES.len() as u64) as f64 / 700.0 + 2.0
    }

    fn programs(&self) -> &'static [&'static str] {
        &["unshare", "mount", "dovecot"]
    }

    fn provide(&self, _home: &Path, _tell: &mut dyn FnMut(&str)) -> Result<(), AppError> {
        dovecot::check()
    }

    fn run(&self, phase: u32, place: LoadSite<'_>, bench: &mut Bench<'_>) -> Result<(), AppError> {
        let mail = place.root.join("mail");
        if phase == 0 {
            bench.report("making mailboxes");
            return mailboxes(&mail, self.messages);
        }
        let server = Dovecot::start(&mail)?;
        let mut clients = Vec::new();
        for number in BOXES {
            let mut client = Client::connect(server.port())?;
            client.login(USER)?;
            let uids = client.select(&format!("box{number}"))?;
            if uids.len() as u64 != self.messages {
                return Err(AppError::Protocol(format!(
                    "box{number} has {} messages, not {}",
                    uids.len(),
                    self.messages
                )));
            }
            clients.push((client, uids, place.seed.wrapping_mul(100).wrapping_add(number)));
        }
        let stopped = bench.stopped();
        let section = bench.open("mailserver", "imap", Direction::Neither);
        let mut tally = section.tally();
        let ended: Vec<_> = std::thread::scope(|scope| {
            let start = |(client, uids, seed)| {
                let tally = section.tally();
                scope.spawn(move || punish(client, uids, seed, self.ops, tally, stopped))
            };
            let running: Vec<_> = clients.into_iter().map(start).collect();
            running.into_iter().map(|thread| thread.join()).collect()
        });
        for one in ended {
            let one = one.map_err(|_| AppError::Protocol("an IMAP client panicked".into()))?;
            tally.merge(&one.map_err(|error| server.explain(error))?);
        }
        let took = bench.close(section, &tally, None)?;
        bench.metric("mailserver", "op/s", (self.ops * BOXES.len() as u64) as f64 / took.seconds);
        server.stop()
    }
}

/// One client's operations.
fn punish(
    mut client: Client,
    mut uids: Vec<u32>,
    seed: u64,
    ops: u64,
    mut tally: Tally,
    stopped: &dyn Fn() -> bool,
) -> Result<Tally, AppError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let text = message();
    for _ in 0..ops {
        if stopped() {
            return Err(AppError::Interrupted);
        }
        let (fetch, what) = (rng.random_range(0..2) == 0, rng.random_range(0..3));
        if uids.is_empty() || (!fetch && what == 2) {
            uids.push(client.append(&text)?);
        } else {
            let at = rng.random_range(0..uids.len());
            match (fetch, what) {
                (true, _) => client.fetch(uids[at])?,
                (false, 0) => client.toggle(uids[at])?,
                _ => client.delete(uids.swap_remove(at))?,
            }
        }
        tally.op(MESSAGE_BYTES as u64);
    }
    client.logout()?;
    Ok(tally)
}

/// A message of 54 bytes.
fn message() -> Vec<u8> {
    let mut text = b"From: a@example.org\r\nSubject: x\r\n\r\n".to_vec();
    text.resize(MESSAGE_BYTES, b'.');
    text
}

/// Makes the user's mailboxes as a Maildir with layout `fs`, owned by whom the server serves mail as.
fn mailboxes(mail: &Path, messages: u64) -> Result<(), AppError> {
    let owner = |path: &Path| {
        std::os::unix::fs::chown(path, Some(dovecot::MAIL_UID), Some(dovecot::MAIL_UID)).map_err(at(path))
    };
    let folder = |path: &Path| {
        std::fs::create_dir(path).map_err(at(path))?;
        owner(path)
    };
    let text = message();
    folder(mail)?;
    folder(&mail.join(USER))?;
    let top = mail.join(USER).join("Maildir");
    folder(&top)?;
    for name in (0..MAILBOXES).map(|number| format!("box{number}")) {
        let mailbox = top.join(name);
        folder(&mailbox)?;
        ["cur", "new", "tmp"].iter().try_for_each(|part| folder(&mailbox.join(part)))?;
        for number in 0..messages {
            let path =
                mailbox.join("cur").join(format!("1600000000.M{number:06}P1.loadline,S={MESSAGE_BYTES}:2,"));
            std::fs::write(&path, &text).map_err(at(&path))?;
            owner(&path)?;
        }
    }
    Ok(())
}
