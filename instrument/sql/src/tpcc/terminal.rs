//! A terminal of TPC-C: chooses, runs, tries again, keeps the ledger.

use std::sync::Arc;

use crate::db::{Connection, DbError};
use crate::drive::{Terminal, TransactionEnd};
use crate::random::Random;
use crate::sysbench::rolled_back;

use super::input::{Drawer, Input};
use super::ledger::{Entry, Ledger};
use super::statements::Session;
use super::transactions::{self, Paid};
use super::{Constants, Size};

/// Keying time, then mean think time, in seconds, by kind of transaction (clause 5.2.5.7).
const WAITS: [(f64, f64); 5] = [(18.0, 12.0), (3.0, 12.0), (2.0, 10.0), (2.0, 5.0), (2.0, 5.0)];
/// A think time is at most so many times its mean (clause 5.2.5.4).
const THINK_MAX: f64 = 10.0;
/// Bits of a HISTORY number for the transactions of a terminal, and for the terminals of a run.
const SEQUENCE_BITS: u32 = 32;
const TERMINAL_BITS: u32 = 12;

/// Who sits at a terminal.
#[derive(Debug, Clone)]
pub struct Person {
    /// The terminal's number, from 0.
    pub number: u32,
    /// The size of the database.
    pub size: Size,
    /// The constants that it was filled with.
    pub constants: Constants,
    /// Seed of the run.
    pub seed: u64,
    /// Number of the run on this database, from 0: its rows in HISTORY have numbers of their own.
    pub run: u32,
    /// Whether there is keying and thinking.
    pub waits: bool,
    /// Where what was acknowledged is written down, if that is wanted.
    pub ledger: Option<Arc<Ledger>>,
}

/// A terminal.
#[derive(Debug)]
pub struct TpccTerminal {
    person: Person,
    /// Its warehouse and its district: those of Stock-Level.
    place: (i64, i64),
    session: Session,
    drawer: Drawer,
    input: Input,
    sequence: i64,
}

impl Person {
    /// Sits down at a connection.
    ///
    /// # Errors
    /// A statement cannot be prepared.
    pub fn at(self, connection: Connection) -> Result<TpccTerminal, DbError> {
        let number = i64::from(self.number);
        let w = number % self.size.warehouses + 1;
        let d = number / self.size.warehouses % self.size.districts + 1;
        // each run on a database draws other numbers
        let seed = self.seed.wrapping_add(u64::from(self.run) << SEQUENCE_BITS);
        let drawer = Drawer::new(Random::of_terminal(seed, self.number), self.constants, self.size, w);
        let session = Session::new(connection)?;
        let input = Input::Delivery { carrier: 1 };
        Ok(TpccTerminal { person: self, place: (w, d), session, drawer, input, sequence: 0 })
    }
}

impl TpccTerminal {
    /// The number of its next row in HISTORY: above all that filling makes.
    fn history(&self) -> i64 {
        let run = i64::from(self.person.run) << TERMINAL_BITS;
        (run + i64::from(self.person.number) + 1) << SEQUENCE_BITS | self.sequence
    }

    /// Runs the transaction up to its end, in which its fate is written down.
    fn run(&mut self) -> Result<TransactionEnd, DbError> {
        let (w, of_terminal) = (self.place.0, self.place.1);
        let history = self.history();
        let session = &mut self.session;
        let entry = match &self.input {
            Input::NewOrder { d, c, lines } => match transactions::new_order(session, (w, *d, *c), lines)? {
                None => {
                    session.connection.roll_back()?;
                    return Ok(TransactionEnd::RolledBack);
                }
                Some(ordered) => {
                    Some(Entry::Order { w, d: *d, o: ordered.o, c: *c, lines: lines.len() as i64 })
                }
            },
            Input::Payment { d, c_w, c_d, customer, cents } => {
                let paid = Paid { to: (w, *d), from: (*c_w, *c_d), customer, cents: *cents, history };
                transactions::payment(session, &paid)?;
                Some(Entry::Payment { history, cents: *cents })
            }
            Input::OrderStatus { d, customer } => {
                transactions::order_status(session, (w, *d), customer)?;
                None
            }
            Input::Delivery { carrier } => {
                transactions::delivery(session, w, self.person.size.districts, *carrier)?;
                None
            }
            Input::StockLevel { threshold } => {
                transactions::stock_level(session, (w, of_terminal), *threshold)?;
                None
            }
        };
        match (&self.person.ledger, entry) {
            (Some(ledger), Some(entry)) => {
                let number = ledger.invoke(entry);
                let ended = session.connection.commit();
                match &ended {
                    Ok(()) => ledger.acknowledge(number),
                    // nobody knows
                    Err(DbError::Gone(_)) => {}
                    Err(_) => ledger.deny(number),
                }
                ended?;
            }
            _ => session.connection.commit()?,
        }
        Ok(TransactionEnd::Committed)
    }
}

impl Terminal for TpccTerminal {
    type Error = DbError;

    fn choose(&mut self) -> usize {
        let (kind, input) = self.drawer.next();
        self.input = input;
        self.sequence += 1;
        kind
    }

    fn attempt(&mut self) -> Result<TransactionEnd, DbError> {
        self.run().map_err(|error| rolled_back(&mut self.session.connection, error))
    }

    fn wait_seconds(&mut self, kind: usize) -> f64 {
        if !self.person.waits {
            return 0.0;
        }
        let (keying, thinking) = WAITS[kind];
        // 1 - u lies in (0, 1]
        let think = -(1.0 - self.drawer.random.unit()).ln() * thinking;
        keying + think.min(THINK_MAX * thinking)
    }
}
