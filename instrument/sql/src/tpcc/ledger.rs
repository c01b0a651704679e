//! What was acknowledged, and whether it is still there after a crash.
//!
//! A commit is invoked, then acknowledged or denied; when the connection breaks in between, nobody knows. After
//! recovery it must hold: acknowledged ⊆ found ⊆ invoked and not denied, and what is found has the values that were
//! written. A consistent database is not enough: it stays consistent when its last transactions are lost.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::SqlError;
use crate::db::{Connection, Row};

use super::Size;
use super::statements::int;

/// A transaction that leaves a row by which it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// New-Order: a row of ORDERS.
    Order { w: i64, d: i64, o: i64, c: i64, lines: i64 },
    /// Payment: a row of HISTORY.
    Payment { history: i64, cents: i64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Invoked,
    Acknowledged,
    Denied,
}

/// Key of a row, and what it holds besides.
type Key = (i64, i64, i64);
type Held = (i64, i64);

impl Entry {
    fn row(self) -> (Key, Held) {
        match self {
            Entry::Order { w, d, o, c, lines } => ((w, d, o), (c, lines)),
            Entry::Payment { history, cents } => ((0, 0, history), (cents, 0)),
        }
    }
}

#[derive(Debug, Default)]
struct Book {
    entries: Vec<(Entry, Fate)>,
    /// Nothing is acknowledged any more.
    closed: bool,
}

/// The ledger of all terminals of a run. It is in the memory of whoever drives them, not on the device.
#[derive(Debug, Default)]
pub struct Ledger {
    book: Mutex<Book>,
    /// Rows that were found after earlier crashes: they must stay.
    settled: Mutex<BTreeMap<Key, Held>>,
}

/// What was lost or is there that nobody wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loss {
    /// Commits that were acknowledged.
    pub acknowledged: usize,
    /// Of these, not found.
    pub lost: usize,
    /// Commits whose connection broke.
    pub unknown: usize,
    /// Of these, found.
    pub unknown_found: usize,
    /// Rows that nobody wrote, that were denied, or that hold something else.
    pub foreign: usize,
    /// Rows found after an earlier crash that are gone.
    pub unsettled: usize,
    /// One of what is wrong.
    pub example: Option<String>,
}

impl Loss {
    /// Whether all is as it must be.
    pub fn is_clean(&self) -> bool {
        self.lost + self.foreign + self.unsettled == 0
    }
}

impl Ledger {
    /// An empty one.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// A COMMIT is about to be sent.
    pub(super) fn invoke(&self, entry: Entry) -> usize {
        let entries = &mut self.book().entries;
        entries.push((entry, Fate::Invoked));
        entries.len() - 1
    }

    /// It was acknowledged. Once the ledger is closed nobody knows.
    pub(super) fn acknowledge(&self, number: usize) {
        self.end(number, Fate::Acknowledged);
    }

    /// It was refused. Once the ledger is closed nobody knows: a server that has lost its device tells what it likes.
    pub(super) fn deny(&self, number: usize) {
        self.end(number, Fate::Denied);
    }

    fn end(&self, number: usize, fate: Fate) {
        let mut book = self.book();
        if !book.closed
            && let Some(entry) = book.entries.get_mut(number)
        {
            entry.1 = fate;
        }
    }

    /// Closes it until it is settled: what is acknowledged from now on does not count, since the power fails next and a
    /// server with unsafe settings goes on acknowledging from its memory. What was acknowledged before was so under power.
    pub fn close(&self) {
        self.book().closed = true;
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits that were acknowledged so far.
    pub fn acknowledged(&self) -> usize {
        self.book().entries.iter().filter(|(_, fate)| *fate == Fate::Acknowledged).count()
    }

    /// Looks for all of it in a database that was recovered. What is found is settled: the next time it must be found
    /// again.
    ///
    /// # Errors
    /// What the server answers.
    pub fn settle(&self, size: &Size, connection: &mut Connection) -> Result<Loss, SqlError> {
        let found = found(size, connection)?;
        let book = &mut *self.book();
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let loss = judge(&book.entries, &settled, &found);
        *book = Book::default();
        *settled = found;
        Ok(loss)
    }
}

/// The rows that terminals have written.
fn found(size: &Size, connection: &mut Connection) -> Result<BTreeMap<Key, Held>, SqlError> {
    let what = "reading what is left";
    let orders =
        format!("SELECT o_w_id, o_d_id, o_id, o_c_id, o_ol_cnt FROM orders WHERE o_id > {}", size.customers);
    // below are those that filling has made
    let payments = format!("SELECT 0, 0, h_id, h_amount, 0 FROM history WHERE h_id >= {}", 1_i64 << 32);
    let mut found = BTreeMap::new();
    for query in [orders, payments] {
        let rows = connection.ask(&query).map_err(SqlError::doing(what))?;
        let read = |row: &Row| -> Result<_, crate::db::DbError> {
            Ok(((int(row, 0)?, int(row, 1)?, int(row, 2)?), (int(row, 3)?, int(row, 4)?)))
        };
        for row in &rows {
            let (key, held) = read(row).map_err(SqlError::doing(what))?;
            found.insert(key, held);
        }
    }
    Ok(found)
}

fn judge(entries: &[(Entry, Fate)], settled: &BTreeMap<Key, Held>, found: &BTreeMap<Key, Held>) -> Loss {
    let mut loss = Loss::default();
    let mut lawful = settled.clone();
    for (entry, fate) in entries {
        let (key, held) = entry.row();
        let is_there = found.get(&key) == Some(&held);
        match fate {
            Fate::Acknowledged => {
                loss.acknowledged += 1;
                if !is_there {
                    loss.lost += 1;
                    loss.example.get_or_insert_with(|| format!("{entry:?} was acknowledged and is gone"));
                }
            }
            Fate::Invoked => {
                loss.unknown += 1;
                loss.unknown_found += usize::from(is_there);
            }
            // an order number that was denied may be another order's
            Fate::Denied => continue,
        }
        // of two entries with one key the last is the one that can be there: the first was not committed
        lawful.insert(key, held);
    }
    for (key, held) in found {
        if lawful.get(key) != Some(held) {
            loss.foreign += 1;
            loss.example.get_or_insert_with(|| {
                let ours = entries.iter().rfind(|(entry, _)| entry.row().0 == *key);
                let known = ours.map(|(entry, fate)| format!(": {entry:?} was {fate:?}")).unwrap_or_default();
                format!("{key:?} holds {held:?}, which nobody wrote{}", known)
            });
        }
    }
    for (key, held) in settled {
        if found.get(key) != Some(held) {
            loss.unsettled += 1;
            loss.example
                .get_or_insert_with(|| format!("{key:?} was there after an earlier crash and is gone"));
        }
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(o: i64) -> Entry {
        Entry::Order { w: 1, d: 2, o, c: 3, lines: 4 }
    }

    fn there(entries: &[Entry]) -> BTreeMap<Key, Held> {
        entries.iter().map(|entry| entry.row()).collect()
    }

    #[test]
    fn what_is_lost_is_found_out() {
        let entries = [
            (order(1), Fate::Acknowledged),
            (order(2), Fate::Acknowledged),
            (order(3), Fate::Invoked),
            (order(4), Fate::Invoked),
            (order(5), Fate::Denied),
            (Entry::Payment { history: 9, cents: 100 }, Fate::Acknowledged),
        ];
        let none = BTreeMap::new();
        let all = there(&[order(1), order(2), order(3), Entry::Payment { history: 9, cents: 100 }]);
        let clean = judge(&entries, &none, &all);
        assert!(clean.is_clean(), "{clean:?}");
        assert_eq!((clean.acknowledged, clean.unknown, clean.unknown_found), (3, 2, 1));
        let lost = judge(&entries, &none, &there(&[order(1), Entry::Payment { history: 9, cents: 100 }]));
        assert_eq!((lost.lost, lost.foreign), (1, 0));
        assert!(lost.example.unwrap().contains("acknowledged and is gone"));
    }

    #[test]
    fn a_closed_ledger_takes_no_word_of_the_server() {
        let ledger = Ledger::new();
        let (before, after) = (ledger.invoke(order(1)), ledger.invoke(order(2)));
        ledger.acknowledge(before);
        let refused = ledger.invoke(order(3));
        ledger.deny(refused);
        let late = ledger.invoke(order(4));
        ledger.close();
        ledger.acknowledge(after);
        ledger.deny(late);
        assert_eq!(ledger.acknowledged(), 1);
        let fates: Vec<Fate> = ledger.book().entries.iter().map(|(_, fate)| *fate).collect();
        assert_eq!(fates, [Fate::Acknowledged, Fate::Invoked, Fate::Denied, Fate::Invoked]);
    }

    #[test]
    fn what_nobody_wrote_is_found_out() {
        let entries = [(order(1), Fate::Acknowledged), (order(5), Fate::Denied)];
        let none = BTreeMap::new();
        assert_eq!(judge(&entries, &none, &there(&[order(1), order(5)])).foreign, 1, "a denied commit");
        assert_eq!(judge(&entries, &none, &there(&[order(1), order(7)])).foreign, 1, "a row from nowhere");
        let other = Entry::Order { w: 1, d: 2, o: 1, c: 3, lines: 5 };
        let changed = judge(&entries, &none, &there(&[other]));
        assert_eq!((changed.lost, changed.foreign), (1, 1), "a row with other values");
    }

    #[test]
    fn what_was_found_once_must_stay() {
        let settled = there(&[order(1), order(2)]);
        let loss = judge(&[], &settled, &there(&[order(1)]));
        assert_eq!(loss.unsettled, 1);
        assert!(judge(&[], &settled, &settled).is_clean());
    }
}
