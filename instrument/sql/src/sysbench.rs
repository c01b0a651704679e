//! The OLTP mixes of sysbench: the same tables, statements and distributions as Debian's sysbench 1.0.20.
//!
//! Where sysbench goes on in an aborted transaction after a lock wait, this rolls back and tries the same transaction
//! again; both count such attempts apart, and latency includes them.

use stats::Direction;

use crate::db::{Connection, DbError, Statement, Value};
use crate::drive::{Kind, Terminal, TransactionEnd};
use crate::error::SqlError;
use crate::random::{Distribution, Random};

/// Rows of a statement while tables are filled.
const ROWS_AT_ONCE: i64 = 500;
/// Digit groups of columns `c` and `pad`.
const GROUPS: (usize, usize) = (10, 5);
/// Point reads of a transaction (`point_selects`).
const POINT_READS: usize = 10;
/// Rows of a range (`range_size`).
const RANGE_ROWS: i64 = 100;

/// A mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// `oltp_insert`: one row, each for itself.
    Insert,
    /// `oltp_read_only`: ten rows and four ranges.
    ReadOnly,
    /// `oltp_write_only`: two updates, a deletion, an insertion.
    WriteOnly,
    /// `oltp_read_write`: both in one transaction.
    ReadWrite,
    /// `oltp_point_select`: one row, read for itself.
    PointSelect,
    /// `oltp_update_index`: one update of the indexed column.
    UpdateIndex,
    /// `oltp_update_non_index`: one update of a text.
    UpdateNonIndex,
    /// `oltp_delete`: one row, which may be gone before.
    Delete,
}

/// Every mix.
pub const MIXES: [Mix; 8] = [
    Mix::Insert,
    Mix::ReadOnly,
    Mix::WriteOnly,
    Mix::ReadWrite,
    Mix::PointSelect,
    Mix::UpdateIndex,
    Mix::UpdateNonIndex,
    Mix::Delete,
];

impl Mix {
    /// What it runs, one kind of transaction.
    pub fn kinds(self) -> [Kind; 1] {
        let (name, direction) = match self {
            Mix::Insert => ("insert", Direction::Write),
            Mix::ReadOnly => ("read-only", Direction::Read),
            Mix::WriteOnly => ("write-only", Direction::Write),
            Mix::ReadWrite => ("read-write", Direction::Neither),
            Mix::PointSelect => ("point-select", Direction::Read),
            Mix::UpdateIndex => ("update-index", Direction::Write),
            Mix::UpdateNonIndex => ("update-non-index", Direction::Write),
            Mix::Delete => ("delete", Direction::Write),
        };
        [Kind { name, direction }]
    }

    /// Several statements between BEGIN and COMMIT; the others are one, committed by itself.
    fn is_transaction(self) -> bool {
        matches!(self, Mix::ReadOnly | Mix::WriteOnly | Mix::ReadWrite)
    }

    /// The statements that it prepares.
    fn statements(self) -> &'static [usize] {
        match self {
            Mix::Insert => &[],
            Mix::ReadOnly => &READS,
            Mix::WriteOnly => &WRITES,
            Mix::ReadWrite => &ALL,
            Mix::PointSelect => &[POINT],
            Mix::UpdateIndex => &[UPDATE_INDEX],
            Mix::UpdateNonIndex => &[UPDATE_TEXT],
            Mix::Delete => &[DELETE],
        }
    }
}

/// Tables and how they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oltp {
    /// The mix.
    pub mix: Mix,
    /// Number of tables.
    pub tables: i64,
    /// Rows of each.
    pub rows: i64,
    /// How row numbers are drawn.
    pub distribution: Distribution,
}

impl Oltp {
    /// Names of its tables.
    pub fn table_names(&self) -> Vec<String> {
        (1..=self.tables).map(|number| format!("sbtest{number}")).collect()
    }

    /// Makes and fills the table of this number, from 1.
    ///
    /// # Errors
    /// What the server answered; interrupted.
    pub fn fill(
        &self,
        number: i64,
        connection: &mut Connection,
        seed: u64,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), SqlError> {
        let table = format!("sbtest{number}");
        let filling = || SqlError::doing(format!("filling {table}"));
        let engine = connection.engine();
        let made = engine.dialect(&format!(
            "CREATE TABLE {table} (id {{serial}}, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
             pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)){{table}}"
        ));
        connection.plain(&made).map_err(filling())?;
        let mut random = Random::of_data(seed, number as u64);
        let mut first = 1;
        while first <= self.rows {
            if stopped() {
                return Err(SqlError::Interrupted);
            }
            let last = (first + ROWS_AT_ONCE - 1).min(self.rows);
            let row = |_| {
                let k = self.distribution.draw(&mut random, 1, self.rows);
                format!("({k},'{}','{}')", random.groups(GROUPS.0), random.groups(GROUPS.1))
            };
            let rows: Vec<String> = (first..=last).map(row).collect();
            let text = format!("INSERT INTO {table} (k, c, pad) VALUES {}", rows.join(","));
            connection.plain(&text).map_err(filling())?;
            first = last + 1;
        }
        connection.plain(&format!("CREATE INDEX k_{number} ON {table} (k)")).map_err(filling())
    }

    /// A terminal on a connection.
    ///
    /// # Errors
    /// A statement cannot be prepared.
    pub fn terminal(&self, connection: Connection, random: Random) -> Result<OltpTerminal, DbError> {
        let mut terminal = OltpTerminal {
            oltp: *self,
            connection,
            random,
            statements: Vec::new(),
            transaction: Transaction::default(),
        };
        for number in 1..=self.tables {
            let table = format!("sbtest{number}");
            let mut prepared: [Option<Statement>; STATEMENTS.len()] = Default::default();
            for &number in self.mix.statements() {
                let text = STATEMENTS[number].replace("{t}", &table);
                prepared[number] = Some(terminal.connection.prepare(&text)?);
            }
            terminal.statements.push(prepared);
        }
        Ok(terminal)
    }
}

const POINT: usize = 0;
const RANGES: [usize; 4] = [1, 2, 3, 4];
const UPDATE_INDEX: usize = 5;
const UPDATE_TEXT: usize = 6;
const DELETE: usize = 7;
const INSERT: usize = 8;
const READS: [usize; 5] = [POINT, 1, 2, 3, 4];
const WRITES: [usize; 4] = [UPDATE_INDEX, UPDATE_TEXT, DELETE, INSERT];
const ALL: [usize; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

/// Statements of each table, by the numbers above.
const STATEMENTS: [&str; 9] = [
    "SELECT c FROM {t} WHERE id=?",
    "SELECT c FROM {t} WHERE id BETWEEN ? AND ?",
    "SELECT SUM(k) FROM {t} WHERE id BETWEEN ? AND ?",
    "SELECT c FROM {t} WHERE id BETWEEN ? AND ? ORDER BY c",
    "SELECT DISTINCT c FROM {t} WHERE id BETWEEN ? AND ? ORDER BY c",
    "UPDATE {t} SET k=k+1 WHERE id=?",
    "UPDATE {t} SET c=? WHERE id=?",
    "DELETE FROM {t} WHERE id=?",
    "INSERT INTO {t} (id, k, c, pad) VALUES (?, ?, ?, ?)",
];

/// What one transaction does: chosen once, so that it is the same when it is tried again.
#[derive(Debug, Default)]
struct Transaction {
    /// Table (from 0), statement, values.
    steps: Vec<(usize, usize, Vec<Value>)>,
    /// The statement of mix `insert`, which sysbench does not prepare.
    text: String,
}

/// A terminal that runs a mix.
#[derive(Debug)]
pub struct OltpTerminal {
    oltp: Oltp,
    connection: Connection,
    random: Random,
    /// By table, by number of the statement; those of the mix.
    statements: Vec<[Option<Statement>; STATEMENTS.len()]>,
    transaction: Transaction,
}

impl OltpTerminal {
    fn id(&mut self) -> i64 {
        self.oltp.distribution.draw(&mut self.random, 1, self.oltp.rows)
    }

    fn table(&mut self) -> usize {
        self.random.within(0, self.oltp.tables - 1) as usize
    }

    fn step(&mut self, table: usize, statement: usize, values: Vec<Value>) {
        self.transaction.steps.push((table, statement, values));
    }

    fn choose_points(&mut self, reads: usize) {
        let table = self.table();
        for _ in 0..reads {
            let id = self.id();
            self.step(table, POINT, vec![id.into()]);
        }
    }

    fn choose_ranges(&mut self) {
        for range in RANGES {
            let (table, id) = (self.table(), self.id());
            self.step(table, range, vec![id.into(), (id + RANGE_ROWS - 1).into()]);
        }
    }

    fn choose_update_index(&mut self) {
        let (table, id) = (self.table(), self.id());
        self.step(table, UPDATE_INDEX, vec![id.into()]);
    }

    fn choose_update_text(&mut self) {
        let (table, id, text) = (self.table(), self.id(), self.random.groups(GROUPS.0));
        self.step(table, UPDATE_TEXT, vec![text.into(), id.into()]);
    }

    fn choose_delete(&mut self) {
        let (table, id) = (self.table(), self.id());
        self.step(table, DELETE, vec![id.into()]);
    }

    fn choose_replacement(&mut self) {
        let (table, id, k) = (self.table(), self.id(), self.id());
        let (c, pad) = (self.random.groups(GROUPS.0), self.random.groups(GROUPS.1));
        self.step(table, DELETE, vec![id.into()]);
        self.step(table, INSERT, vec![id.into(), k.into(), c.into(), pad.into()]);
    }

    fn choose_reads(&mut self) {
        self.choose_points(POINT_READS);
        self.choose_ranges();
    }

    fn choose_writes(&mut self) {
        self.choose_update_index();
        self.choose_update_text();
        self.choose_replacement();
    }

    fn choose_insert(&mut self) {
        let (table, k) = (self.table() + 1, self.id());
        let (c, pad) = (self.random.groups(GROUPS.0), self.random.groups(GROUPS.1));
        self.transaction.text = if self.connection.engine().is_mysql() {
            format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (0, {k}, '{c}', '{pad}')")
        } else {
            format!("INSERT INTO sbtest{table} (k, c, pad) VALUES ({k}, '{c}', '{pad}')")
        };
    }

    fn run_steps(&mut self) -> Result<(), DbError> {
        if self.oltp.mix.is_transaction() {
            self.connection.begin()?;
        }
        for (table, number, values) in &self.transaction.steps {
            let Some(statement) = self.statements[*table][*number].as_ref() else { continue };
            if *number < UPDATE_INDEX {
                self.connection.fetch(statement, values)?;
            } else {
                self.connection.run(statement, values)?;
            }
        }
        if self.oltp.mix.is_transaction() { self.connection.commit() } else { Ok(()) }
    }
}

impl Terminal for OltpTerminal {
    type Error = DbError;

    fn choose(&mut self) -> usize {
        self.transaction.steps.clear();
        match self.oltp.mix {
            Mix::Insert => self.choose_insert(),
            Mix::ReadOnly => self.choose_reads(),
            Mix::WriteOnly => self.choose_writes(),
            Mix::ReadWrite => {
                self.choose_reads();
                self.choose_writes();
            }
            Mix::PointSelect => self.choose_points(1),
            Mix::UpdateIndex => self.choose_update_index(),
            Mix::UpdateNonIndex => self.choose_update_text(),
            Mix::Delete => self.choose_delete(),
        }
        0
    }

    fn attempt(&mut self) -> Result<TransactionEnd, DbError> {
        if self.oltp.mix == Mix::Insert {
            return self.connection.plain(&self.transaction.text).map(|()| TransactionEnd::Committed);
        }
        match self.run_steps() {
            Ok(()) => Ok(TransactionEnd::Committed),
            Err(error) => Err(match rolled_back(&mut self.connection, error) {
                // two transactions delete and insert the row of one number: under READ COMMITTED the second one finds
                // the first one's row only when it inserts
                DbError::Duplicate(text) => DbError::Conflict(text),
                other => other,
            }),
        }
    }
}

/// Rolls back after an error, and says which it was.
pub(crate) fn rolled_back(connection: &mut Connection, error: DbError) -> DbError {
    if matches!(error, DbError::Gone(_)) {
        return error;
    }
    match connection.roll_back() {
        Ok(()) => error,
        Err(broken) => broken,
    }
}
