//! What the cells of each study ask ([`analysis::trend::asked`]), kept beside the runs: thousands of studies are known by
//! reading a few numbers of each, not its record. Cells that ask the same, as those of studies that differ by their titles do,
//! are kept once.
//!
//! These tables have no version of the store's: an older loadline does not know them and stores runs without, a store that is
//! only read may not have them. Of such studies a record is read.

use std::collections::HashMap;
use std::sync::Arc;

use analysis::trend::{self, CellDefinitions, DefinedCell};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use study::results::Run;

use super::error::StoreError;
use super::pack::{damaged, unpack};

/// Cells, each once, as JSON.
const CELLS: &str = "asked_cells_";
/// Of each study the rows of its cells.
const STUDIES: &str = "asked_studies_";

/// The name of a table: what another version of the outcome was kept in is left to the loadline that knows it.
fn table(name: &str) -> String {
    format!("{name}{}", trend::ASKS_VERSION)
}

/// Makes the tables where they are missing, and fills them from the records of the runs.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    if are_there(connection)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(&format!(
        "CREATE TABLE IF NOT EXISTS {} (row INTEGER PRIMARY KEY, cell TEXT NOT NULL UNIQUE);
         CREATE TABLE IF NOT EXISTS {} (study_hash TEXT PRIMARY KEY, cells TEXT NOT NULL) WITHOUT ROWID;",
        table(CELLS),
        table(STUDIES)
    ))?;
    // a damaged record is told to whoever asks for its run
    each_unkept(&transaction, &mut |_, head| {
        head.map_or(Ok(()), |head| save_definitions(&transaction, &head))
    })?;
    transaction.commit()?;
    Ok(())
}

fn are_there(connection: &Connection) -> Result<bool, StoreError> {
    let found = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
    Ok(connection.query_row(found, [table(STUDIES)], |row| row.get::<_, i64>(0))? > 0)
}

/// Keeps what the study of a run asks, unless it is kept.
pub(super) fn save_definitions(transaction: &Transaction<'_>, head: &Run) -> Result<(), StoreError> {
    let (cells, studies) = (table(CELLS), table(STUDIES));
    let known = format!("SELECT 1 FROM {studies} WHERE study_hash = ?1");
    let known = transaction.prepare_cached(&known)?.exists([&head.study_hash])?;
    if known {
        return Ok(());
    }
    let mut add = transaction.prepare_cached(&format!("INSERT OR IGNORE INTO {cells} (cell) VALUES (?1)"))?;
    let mut find = transaction.prepare_cached(&format!("SELECT row FROM {cells} WHERE cell = ?1"))?;
    let mut rows = Vec::new();
    for cell in trend::defined_cells(head) {
        let text = serde_json::to_string(&cell).map_err(|error| damaged(&head.id, error))?;
        add.execute([&text])?;
        rows.push(find.query_row([&text], |row| row.get::<_, i64>(0))?.to_string());
    }
    let mut add =
        transaction.prepare_cached(&format!("INSERT INTO {studies} (study_hash, cells) VALUES (?1, ?2)"))?;
    add.execute(params![head.study_hash, rows.join(" ")])?;
    Ok(())
}

/// Forgets a study of which no run is stored.
pub(super) fn forget(transaction: &Transaction<'_>, study_hash: &str) -> Result<(), StoreError> {
    transaction.execute(
        &format!(
            "DELETE FROM {} WHERE study_hash = ?1
             AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.study_hash = ?1)",
            table(STUDIES)
        ),
        [study_hash],
    )?;
    Ok(())
}

/// Shows one run, without its trials, of each study that is not kept.
fn each_unkept(
    connection: &Connection,
    show: &mut dyn FnMut(String, Result<Run, StoreError>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let unkept = match are_there(connection)? {
        true => format!("WHERE study_hash NOT IN (SELECT study_hash FROM {})", table(STUDIES)),
        false => String::new(),
    };
    let mut statement = connection.prepare(&format!(
        "SELECT id, study_hash, record FROM runs
         WHERE rowid IN (SELECT max(rowid) FROM runs {unkept} GROUP BY study_hash)"
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        show(row.get(1)?, unpack(&id, row.get_ref(2)?.as_blob().unwrap_or_default()))?;
    }
    Ok(())
}

/// What the cells of every stored study ask.
///
/// # Errors
/// The store cannot be read, or a record is damaged.
pub(super) fn all(connection: &Connection) -> Result<CellDefinitions, StoreError> {
    let mut asks = load_definitions(connection)?;
    each_unkept(connection, &mut |study_hash, head| {
        asks.add(&study_hash, trend::defined_cells(&head?).into_iter().map(Arc::new).collect());
        Ok(())
    })?;
    Ok(asks)
}

/// The same of those studies alone that are known without reading a record.
///
/// # Errors
/// The store cannot be read.
pub(super) fn load_definitions(connection: &Connection) -> Result<CellDefinitions, StoreError> {
    let mut asks = CellDefinitions::default();
    if !are_there(connection)? {
        return Ok(asks);
    }
    let mut statement = connection.prepare(&format!("SELECT row, cell FROM {}", table(CELLS)))?;
    let mut rows = statement.query([])?;
    let mut cells: HashMap<i64, Arc<DefinedCell>> = HashMap::new();
    while let Some(row) = rows.next()? {
        // what cannot be read is as if it were not kept
        if let Ok(cell) = serde_json::from_str(row.get_ref(1)?.as_str().unwrap_or_default()) {
            cells.insert(row.get(0)?, Arc::new(cell));
        }
    }
    let mut statement = connection.prepare(&format!("SELECT study_hash, cells FROM {}", table(STUDIES)))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let find = |word: &str| cells.get(&word.parse().ok()?).cloned();
        let listed = row.get_ref(1)?.as_str().unwrap_or_default();
        if let Some(found) = listed.split_whitespace().map(find).collect() {
            asks.add(row.get_ref(0)?.as_str().unwrap_or_default(), found);
        }
    }
    Ok(asks)
}

/// What the cells of one study ask, when it is known without reading a record.
///
/// # Errors
/// The store cannot be read.
pub(super) fn kept_of(
    connection: &Connection,
    study_hash: &str,
) -> Result<Option<Vec<Arc<DefinedCell>>>, StoreError> {
    if !are_there(connection)? {
        return Ok(None);
    }
    let mut statement =
        connection.prepare_cached(&format!("SELECT cells FROM {} WHERE study_hash = ?1", table(STUDIES)))?;
    let Some(rows) = statement.query_row([study_hash], |row| row.get::<_, String>(0)).optional()? else {
        return Ok(None);
    };
    let mut statement =
        connection.prepare_cached(&format!("SELECT cell FROM {} WHERE row = ?1", table(CELLS)))?;
    let mut cells = Vec::new();
    for row in rows.split_whitespace() {
        let text: Option<String> = statement.query_row([row], |row| row.get(0)).optional()?;
        let Some(cell) = text.and_then(|text| serde_json::from_str(&text).ok()) else { return Ok(None) };
        cells.push(Arc::new(cell));
    }
    Ok(Some(cells))
}
