//! The five transactions (clauses 2.4 to 2.8), each between BEGIN and COMMIT.

use crate::db::{DbError, Value};

use super::input::{Customer, Line, UNUSED_ITEM};
use super::statements::{Of, Session, int};

/// Longest `c_data`.
const DATA_BYTES_MAX: usize = 500;
/// Orders of a district that Stock-Level looks at.
const RECENT_ORDERS: i64 = 20;
/// How often Delivery looks for the oldest order of a district while others take them away.
const OLDEST_TRIES: u32 = 1000;

/// What a New-Order has made; none when it is to be rolled back because of its unused item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) o: i64,
    /// What the customer is to pay, in cents.
    pub(super) total_cents: i64,
}

/// New-Order, up to its COMMIT.
pub(super) fn new_order(
    session: &mut Session,
    (w, d, c): (i64, i64, i64),
    lines: &[Line],
) -> Result<Option<Ordered>, DbError> {
    session.connection.begin()?;
    let w_tax = int(&session.row(Of::WarehouseTax, &[w.into()])?, 0)?;
    let terms = session.row(Of::CustomerTerms, &[w.into(), d.into(), c.into()])?;
    let district = session.row(Of::DistrictLock, &[w.into(), d.into()])?;
    let (d_tax, o) = (int(&district, 0)?, int(&district, 1)?);
    session.change(Of::DistrictNext, &[w.into(), d.into()])?;
    let all_local = i64::from(lines.iter().all(|line| line.supply_w == w));
    let count = lines.len() as i64;
    session
        .change(Of::OrderInsert, &[w.into(), d.into(), o.into(), c.into(), count.into(), all_local.into()])?;
    session.change(Of::NewOrderInsert, &[w.into(), d.into(), o.into()])?;
    let mut sum = 0;
    for (number, line) in (1_i64..).zip(lines) {
        let Some(item) = session.rows(Of::Item, &[line.item.into()])?.into_iter().next() else {
            if line.item == UNUSED_ITEM {
                return Ok(None);
            }
            return Err(DbError::Other(format!("there is no item {}", line.item)));
        };
        let cents = int(&item, 0)? * line.quantity;
        let stock = session.lock_stock(d, line.supply_w, line.item)?;
        let left = int(&stock, 0)? - line.quantity;
        let left = if left >= 10 { left } else { left + 91 };
        let remote = i64::from(line.supply_w != w);
        session.change(
            Of::StockUpdate,
            &[left.into(), line.quantity.into(), remote.into(), line.supply_w.into(), line.item.into()],
        )?;
        session.change(
            Of::LineInsert,
            &[
                w.into(),
                d.into(),
                o.into(),
                number.into(),
                line.item.into(),
                line.supply_w.into(),
                line.quantity.into(),
                cents.into(),
                stock[1].clone(),
            ],
        )?;
        sum += cents;
    }
    Ok(Some(Ordered { o, total_cents: total(sum, int(&terms, 0)?, w_tax + d_tax) }))
}

/// Sum of the lines less the discount, plus taxes; both are in ten-thousandths.
fn total(cents: i64, discount: i64, taxes: i64) -> i64 {
    const WHOLE: i128 = 10_000;
    let exact = i128::from(cents) * (WHOLE - i128::from(discount)) * (WHOLE + i128::from(taxes));
    i64::try_from(exact / (WHOLE * WHOLE)).unwrap_or(i64::MAX)
}

/// The number of the customer: of those with a name the middle one, rounded up, in the order of first names.
fn number_of(session: &mut Session, (w, d): (i64, i64), customer: &Customer) -> Result<i64, DbError> {
    match customer {
        Customer::Number(number) => Ok(*number),
        Customer::Name(name) => {
            let rows = session.rows(Of::CustomersByName, &[w.into(), d.into(), name.as_str().into()])?;
            let middle = rows.len().div_ceil(2).checked_sub(1);
            let row = middle.and_then(|at| rows.get(at));
            row.map_or_else(
                || Err(DbError::Other(format!("no customer of district {w}/{d} is called {name}"))),
                |row| int(row, 0),
            )
        }
    }
}

/// Who pays how much where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paid<'a> {
    /// Warehouse and district that get it.
    pub(super) to: (i64, i64),
    /// Warehouse and district of the customer.
    pub(super) from: (i64, i64),
    pub(super) customer: &'a Customer,
    pub(super) cents: i64,
    /// Number of its row in HISTORY.
    pub(super) history: i64,
}

/// Payment, up to its COMMIT.
pub(super) fn payment(session: &mut Session, paid: &Paid<'_>) -> Result<(), DbError> {
    let ((w, d), (c_w, c_d), cents) = (paid.to, paid.from, paid.cents);
    session.connection.begin()?;
    session.change(Of::WarehousePay, &[cents.into(), w.into()])?;
    let warehouse = session.row(Of::WarehouseName, &[w.into()])?;
    session.change(Of::DistrictPay, &[cents.into(), w.into(), d.into()])?;
    let district = session.row(Of::DistrictName, &[w.into(), d.into()])?;
    let c = number_of(session, paid.from, paid.customer)?;
    let key: [Value; 3] = [c_w.into(), c_d.into(), c.into()];
    let row = session.row(Of::CustomerLock, &key)?;
    let [key_w, key_d, key_c] = key;
    if row[13].text() == "BC" {
        let data = format!("{c} {c_d} {c_w} {d} {w} {cents} {}", row[14].text());
        // all of it is ASCII
        let data = data[..data.len().min(DATA_BYTES_MAX)].to_string();
        session
            .change(Of::CustomerPayBad, &[cents.into(), cents.into(), data.into(), key_w, key_d, key_c])?;
    } else {
        session.change(Of::CustomerPay, &[cents.into(), cents.into(), key_w, key_d, key_c])?;
    }
    let text = format!("{}    {}", warehouse[0].text(), district[0].text());
    session.change(
        Of::HistoryInsert,
        &[
            paid.history.into(),
            c.into(),
            c_d.into(),
            c_w.into(),
            d.into(),
            w.into(),
            cents.into(),
            text.into(),
        ],
    )
}

/// Order-Status, up to its COMMIT: how many lines it has shown.
pub(super) fn order_status(
    session: &mut Session,
    (w, d): (i64, i64),
    customer: &Customer,
) -> Result<usize, DbError> {
    session.connection.begin()?;
    let c = number_of(session, (w, d), customer)?;
    session.row(Of::CustomerShow, &[w.into(), d.into(), c.into()])?;
    let order = session.row(Of::LastOrder, &[w.into(), d.into(), c.into()])?;
    let lines = session.rows(Of::LinesShow, &[w.into(), d.into(), order[0].clone()])?;
    Ok(lines.len())
}

/// Delivery, up to its COMMIT: all districts in one transaction; how many had nothing to deliver.
pub(super) fn delivery(session: &mut Session, w: i64, districts: i64, carrier: i64) -> Result<u32, DbError> {
    session.connection.begin()?;
    let mut skipped = 0;
    for d in 1..=districts {
        let Some(o) = take_oldest(session, w, d)? else {
            skipped += 1;
            continue;
        };
        let key: [Value; 3] = [w.into(), d.into(), o.into()];
        let c = session.row(Of::OrderCustomer, &key)?[0].clone();
        let [key_w, key_d, key_o] = key.clone();
        session.change(Of::OrderDeliver, &[carrier.into(), key_w, key_d, key_o])?;
        session.count(Of::LinesDeliver, &key)?;
        let cents = session.row(Of::LinesSum, &key)?[0].clone();
        session.change(Of::CustomerDeliver, &[cents, w.into(), d.into(), c])?;
    }
    Ok(skipped)
}

/// Takes the oldest order of a district that is not delivered. The deletion waits for others that delete the same row,
/// and tells by its count whether it was ours; so each order is delivered once on every engine, whatever its locks of
/// ranges are.
fn take_oldest(session: &mut Session, w: i64, d: i64) -> Result<Option<i64>, DbError> {
    for _ in 0..OLDEST_TRIES {
        let Some(row) = session.rows(Of::OldestOrder, &[w.into(), d.into()])?.into_iter().next() else {
            return Ok(None);
        };
        let o = int(&row, 0)?;
        if session.count(Of::NewOrderDelete, &[w.into(), d.into(), o.into()])? == 1 {
            return Ok(Some(o));
        }
    }
    Err(DbError::Conflict(format!("others took {OLDEST_TRIES} orders of district {w}/{d} away")))
}

/// Stock-Level, up to its COMMIT: items of the latest orders of which there is little.
pub(super) fn stock_level(session: &mut Session, (w, d): (i64, i64), threshold: i64) -> Result<i64, DbError> {
    session.connection.begin()?;
    let next = int(&session.row(Of::DistrictOrder, &[w.into(), d.into()])?, 0)?;
    let oldest = next - RECENT_ORDERS;
    let values = [w.into(), d.into(), next.into(), oldest.into(), w.into(), threshold.into()];
    int(&session.row(Of::LowStock, &values)?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_has_discount_and_taxes() {
        // 100.00 less 10 %, plus 5 % and 10 %: 103.50
        assert_eq!(total(10_000, 1000, 1500), 10_350);
        assert_eq!(total(0, 0, 4000), 0);
    }
}
