//! The prepared statements of the five transactions.

use crate::db::{Connection, DbError, Row, Statement, Value};

/// A statement by what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    WarehouseTax,
    CustomerTerms,
    DistrictLock,
    DistrictNext,
    OrderInsert,
    NewOrderInsert,
    Item,
    StockUpdate,
    LineInsert,
    WarehousePay,
    WarehouseName,
    DistrictPay,
    DistrictName,
    CustomersByName,
    CustomerLock,
    CustomerPay,
    CustomerPayBad,
    HistoryInsert,
    CustomerShow,
    LastOrder,
    LinesShow,
    OldestOrder,
    NewOrderDelete,
    OrderCustomer,
    OrderDeliver,
    LinesDeliver,
    LinesSum,
    CustomerDeliver,
    DistrictOrder,
    LowStock,
    StockLock,
}

/// Each statement, in the order of [`Of`]; the last one stands for one of each district.
const TEXTS: [(Of, &str); 30] = [
    (Of::WarehouseTax, "SELECT w_tax FROM warehouse WHERE w_id=?"),
    (
        Of::CustomerTerms,
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=?",
    ),
    (Of::DistrictLock, "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id=? AND d_id=? FOR UPDATE"),
    (Of::DistrictNext, "UPDATE district SET d_next_o_id=d_next_o_id+1 WHERE d_w_id=? AND d_id=?"),
    (
        Of::OrderInsert,
        "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
         VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP, NULL, ?, ?)",
    ),
    (Of::NewOrderInsert, "INSERT INTO new_order (no_w_id, no_d_id, no_o_id) VALUES (?, ?, ?)"),
    (Of::Item, "SELECT i_price, i_name, i_data FROM item WHERE i_id=?"),
    (
        Of::StockUpdate,
        "UPDATE stock SET s_quantity=?, s_ytd=s_ytd+?, s_order_cnt=s_order_cnt+1, s_remote_cnt=s_remote_cnt+? \
         WHERE s_w_id=? AND s_i_id=?",
    ),
    (
        Of::LineInsert,
        "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, \
         ol_quantity, ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, NULL, ?, ?, ?)",
    ),
    (Of::WarehousePay, "UPDATE warehouse SET w_ytd=w_ytd+? WHERE w_id=?"),
    (
        Of::WarehouseName,
        "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id=?",
    ),
    (Of::DistrictPay, "UPDATE district SET d_ytd=d_ytd+? WHERE d_w_id=? AND d_id=?"),
    (
        Of::DistrictName,
        "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id=? AND d_id=?",
    ),
    (
        Of::CustomersByName,
        "SELECT c_id FROM customer WHERE c_w_id=? AND c_d_id=? AND c_last=? ORDER BY c_first",
    ),
    (
        Of::CustomerLock,
        "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit_lim, \
         c_discount, c_balance, c_credit, c_data FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=? FOR UPDATE",
    ),
    (
        Of::CustomerPay,
        "UPDATE customer SET c_balance=c_balance-?, c_ytd_payment=c_ytd_payment+?, c_payment_cnt=c_payment_cnt+1 \
         WHERE c_w_id=? AND c_d_id=? AND c_id=?",
    ),
    (
        Of::CustomerPayBad,
        "UPDATE customer SET c_balance=c_balance-?, c_ytd_payment=c_ytd_payment+?, c_payment_cnt=c_payment_cnt+1, c_data=? \
         WHERE c_w_id=? AND c_d_id=? AND c_id=?",
    ),
    (
        Of::HistoryInsert,
        "INSERT INTO history (h_id, h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
         VALUES (?, ?, ?, ?, ?, ?, CURRENT_TIMESTAMP, ?, ?)",
    ),
    (
        Of::CustomerShow,
        "SELECT c_first, c_middle, c_last, c_balance FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=?",
    ),
    (
        Of::LastOrder,
        "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id=? AND o_d_id=? AND o_c_id=? ORDER BY o_id DESC LIMIT 1",
    ),
    (
        Of::LinesShow,
        "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
         WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?",
    ),
    (Of::OldestOrder, "SELECT no_o_id FROM new_order WHERE no_w_id=? AND no_d_id=? ORDER BY no_o_id LIMIT 1"),
    (Of::NewOrderDelete, "DELETE FROM new_order WHERE no_w_id=? AND no_d_id=? AND no_o_id=?"),
    (Of::OrderCustomer, "SELECT o_c_id FROM orders WHERE o_w_id=? AND o_d_id=? AND o_id=?"),
    (Of::OrderDeliver, "UPDATE orders SET o_carrier_id=? WHERE o_w_id=? AND o_d_id=? AND o_id=?"),
    (
        Of::LinesDeliver,
        "UPDATE order_line SET ol_delivery_d=CURRENT_TIMESTAMP WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?",
    ),
    (
        Of::LinesSum,
        "SELECT CAST(SUM(ol_amount) AS {signed}) FROM order_line WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?",
    ),
    (
        Of::CustomerDeliver,
        "UPDATE customer SET c_balance=c_balance+?, c_delivery_cnt=c_delivery_cnt+1 WHERE c_w_id=? AND c_d_id=? AND c_id=?",
    ),
    (Of::DistrictOrder, "SELECT d_next_o_id FROM district WHERE d_w_id=? AND d_id=?"),
    (
        Of::LowStock,
        "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id<? AND ol_o_id>=? \
         AND s_w_id=? AND s_i_id=ol_i_id AND s_quantity<?",
    ),
];

/// A connection with its prepared statements.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    statements: Vec<Statement>,
    stock_lock: Vec<Statement>,
}

impl Session {
    /// Prepares all statements.
    pub(super) fn new(mut connection: Connection) -> Result<Session, DbError> {
        let prepared = TEXTS.iter().map(|(_, text)| connection.prepare(text));
        let statements = prepared.collect::<Result<Vec<_>, _>>()?;
        let of_district = |d: i64, connection: &mut Connection| {
            connection.prepare(&format!(
                "SELECT s_quantity, s_dist_{d:02}, s_data FROM stock WHERE s_w_id=? AND s_i_id=? FOR UPDATE"
            ))
        };
        let stock_lock = (1..=10).map(|d| of_district(d, &mut connection)).collect::<Result<Vec<_>, _>>()?;
        Ok(Session { connection, statements, stock_lock })
    }

    fn statement(&self, of: Of) -> &Statement {
        &self.statements[of as usize]
    }

    /// Changes exactly one row.
    pub(super) fn change(&mut self, of: Of, values: &[Value]) -> Result<(), DbError> {
        match self.count(of, values)? {
            1 => Ok(()),
            rows => Err(DbError::Other(format!("{of:?} changed {rows} rows instead of one"))),
        }
    }

    /// Changes rows; how many.
    pub(super) fn count(&mut self, of: Of, values: &[Value]) -> Result<u64, DbError> {
        let Session { connection, statements, .. } = self;
        connection.run(&statements[of as usize], values)
    }

    /// All rows of a query.
    pub(super) fn rows(&mut self, of: Of, values: &[Value]) -> Result<Vec<Row>, DbError> {
        let statement = self.statement(of).clone();
        self.connection.rows(&statement, values)
    }

    /// The row that must be there.
    pub(super) fn row(&mut self, of: Of, values: &[Value]) -> Result<Row, DbError> {
        let row = self.rows(of, values)?.into_iter().next();
        row.ok_or_else(|| DbError::Other(format!("{of:?} finds no row for {values:?}")))
    }

    /// Locks a row of STOCK: quantity, the text of district `d`, data.
    pub(super) fn lock_stock(&mut self, d: i64, w: i64, item: i64) -> Result<Row, DbError> {
        let Session { connection, stock_lock, .. } = self;
        let row = connection.first(&stock_lock[(d - 1) as usize], &[w.into(), item.into()])?;
        row.ok_or_else(|| {
            DbError::Other(format!("{:?} finds no item {item} in warehouse {w}", Of::StockLock))
        })
    }
}

/// The whole number in a column of a row.
pub(super) fn int(row: &Row, column: usize) -> Result<i64, DbError> {
    let number = row.get(column).and_then(Value::int);
    number.ok_or_else(|| DbError::Other(format!("column {column} of {row:?} is not a whole number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_stand_at_their_numbers() {
        for (at, (of, _)) in TEXTS.iter().enumerate() {
            assert_eq!(*of as usize, at, "{of:?}");
        }
        assert_eq!(Of::StockLock as usize, TEXTS.len());
    }
}
