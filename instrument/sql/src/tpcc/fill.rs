//! The first contents of the database (clause 4.3.3).

use std::fmt::Write;

use crate::SqlError;
use crate::db::Connection;
use crate::random::Random;

use super::values::{self, Constants, last_name};
use super::{Size, schema};

/// Bytes of an INSERT statement, about: servers take 16 MiB, and large ones gain nothing.
const STATEMENT_BYTES: usize = 128 << 10;
/// Customers whose last names go through all numbers; the others' are drawn.
const NAMED_IN_ORDER: i64 = 1000;
/// `w_tax`, `d_tax`: up to 20 %, in ten-thousandths.
const TAX_MAX: i64 = 2000;
/// `c_discount`: up to 50 %, in ten-thousandths.
const DISCOUNT_MAX: i64 = 5000;
/// What each customer has paid at first, in cents.
const FIRST_PAYMENT: i64 = 1000;
/// Numbers of HISTORY rows that filling makes: below those of terminals.
const HISTORY_OF_WAREHOUSE: i64 = 1 << 20;

/// Rows on their way into one table.
struct Rows<'a> {
    connection: &'a mut Connection,
    stopped: &'a dyn Fn() -> bool,
    table: &'static str,
    text: String,
}

impl<'a> Rows<'a> {
    fn of(table: &'static str, connection: &'a mut Connection, stopped: &'a dyn Fn() -> bool) -> Rows<'a> {
        Rows { connection, stopped, table, text: String::new() }
    }

    /// Adds a row: its values with their quotes.
    fn add(&mut self, values: std::fmt::Arguments<'_>) -> Result<(), SqlError> {
        match self.text.is_empty() {
            true => self.text = format!("INSERT INTO {} VALUES ", self.table),
            false => self.text.push(','),
        }
        // writing to a string does not fail
        let _ = write!(self.text, "({values})");
        if self.text.len() > STATEMENT_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), SqlError> {
        if (self.stopped)() {
            return Err(SqlError::Interrupted);
        }
        if !self.text.is_empty() {
            let sent = self.connection.plain(&self.text);
            sent.map_err(SqlError::doing(format!("filling table {}", self.table)))?;
            self.text.clear();
        }
        Ok(())
    }
}

/// Makes the tables.
pub(crate) fn create(connection: &mut Connection) -> Result<(), SqlError> {
    for text in schema::CREATE {
        let text = connection.engine().dialect(text);
        connection.plain(&text).map_err(SqlError::doing("making the tables of TPC-C"))?;
    }
    Ok(())
}

/// Makes the indexes of full tables.
pub(crate) fn index(connection: &mut Connection) -> Result<(), SqlError> {
    for text in schema::INDEXES {
        connection.plain(text).map_err(SqlError::doing("making the indexes of TPC-C"))?;
    }
    Ok(())
}

/// 26 to 50 letters; one in ten holds `ORIGINAL`.
fn data(random: &mut Random) -> String {
    const MARK: &str = "ORIGINAL";
    let mut text = random.letters(26, 50);
    if random.percent(10) {
        let at = random.within(0, (text.len() - MARK.len()) as i64) as usize;
        text.replace_range(at..at + MARK.len(), MARK);
    }
    text
}

/// Two lines of a street, city, state, zip code.
fn place(random: &mut Random) -> String {
    let lines = [
        random.letters(10, 20),
        random.letters(10, 20),
        random.letters(10, 20),
        random.letters(2, 2).to_uppercase(),
    ];
    format!("'{}','{}11111'", lines.join("','"), random.digits(4))
}

/// Fills ITEM, which all warehouses share.
pub(crate) fn items(
    size: &Size,
    connection: &mut Connection,
    seed: u64,
    stopped: &dyn Fn() -> bool,
) -> Result<(), SqlError> {
    let mut random = Random::of_data(seed, 0);
    let mut rows = Rows::of("item", connection, stopped);
    for item in 1..=size.items {
        let (image, name, price) =
            (random.within(1, 10_000), random.letters(14, 24), random.within(100, 10_000));
        let data = data(&mut random);
        rows.add(format_args!("{item},{image},'{name}',{price},'{data}'"))?;
    }
    rows.send()
}

/// Fills everything that belongs to a warehouse.
pub(crate) fn warehouse(
    size: &Size,
    w: i64,
    connection: &mut Connection,
    seed: u64,
    stopped: &dyn Fn() -> bool,
) -> Result<(), SqlError> {
    let mut random = Random::of_data(seed, w as u64);
    let paid = FIRST_PAYMENT * size.customers * size.districts;
    let mut rows = Rows::of("warehouse", connection, stopped);
    let (name, place_of, tax) = (random.letters(6, 10), place(&mut random), random.within(0, TAX_MAX));
    rows.add(format_args!("{w},'{name}',{place_of},{tax},{paid}"))?;
    rows.send()?;
    stock(size, w, connection, &mut random, stopped)?;
    for d in 1..=size.districts {
        district(size, (w, d), connection, &mut random, stopped)?;
        customers(size, (w, d), connection, &mut random, seed, stopped)?;
        orders(size, (w, d), connection, &mut random, stopped)?;
    }
    Ok(())
}

fn stock(
    size: &Size,
    w: i64,
    connection: &mut Connection,
    random: &mut Random,
    stopped: &dyn Fn() -> bool,
) -> Result<(), SqlError> {
    let mut rows = Rows::of("stock", connection, stopped);
    for item in 1..=size.items {
        let quantity = random.within(10, 100);
        let districts: Vec<String> = (0..10).map(|_| random.letters(24, 24)).collect();
        let (districts, data) = (districts.join("','"), data(random));
        rows.add(format_args!("{w},{item},{quantity},'{districts}',0,0,0,'{data}'"))?;
    }
    rows.send()
}

fn district(
    size: &Size,
    (w, d): (i64, i64),
    connection: &mut Connection,
    random: &mut Random,
    stopped: &dyn Fn() -> bool,
) -> Result<(), SqlError> {
    let mut rows = Rows::of("district", connection, stopped);
    let (name, place, tax) = (random.letters(6, 10), place(random), random.within(0, TAX_MAX));
    let (paid, next) = (FIRST_PAYMENT * size.customers, size.customers + 1);
    rows.add(format_args!("{w},{d},'{name}',{place},{tax},{paid},{next}"))?;
    rows.send()
}

fn customers(
    size: &Size,
    (w, d): (i64, i64),
    connection: &mut Connection,
    random: &mut Random,
    seed: u64,
    stopped: &dyn Fn() -> bool,
) -> Result<(), SqlError> {
    let constants = Constants::of(seed);
    let mut rows = Rows::of("customer", connection, stopped);
    for c in 1..=size.customers {
        let last = match c <= NAMED_IN_ORDER {
            true => last_name(c - 1),
            false => values::name(random, constants.last_load, size),
        };
        let (first, place, phone) = (random.letters(8, 16), place(random), random.digits(16));
        let credit = if random.percent(10) { "BC" } else { "GC" };
        let (discount, data) = (random.within(0, DISCOUNT_MAX), random.letters(300, 500));
        rows.add(format_args!(
            "{w},{d},{c},'{first}','OE','{last}',{place},'{phone}',CURRENT_TIMESTAMP,'{credit}',5000000,{discount},\
             -{FIRST_PAYMENT},{FIRST_PAYMENT},1,0,'{data}'"
        ))?;
    }
    rows.send()?;
    let mut rows = Rows::of("history", connection, stopped);
    for c in 1..=size.customers {
        let number = w * HISTORY_OF_WAREHOUSE + (d - 1) * size.customers + c;
        let data = random.letters(12, 24);
        rows.add(format_args!("{number},{c},{d},{w},{d},{w},CURRENT_TIMESTAMP,{FIRST_PAYMENT},'{data}'"))?;
    }
    rows.send()
}

fn orders(
    size: &Size,
    (w, d): (i64, i64),
    connection: &mut Connection,
    random: &mut Random,
    stopped: &dyn Fn() -> bool,
) -> Result<(), SqlError> {
    let mut customers: Vec<i64> = (1..=size.customers).collect();
    random.shuffle(&mut customers);
    let lines: Vec<i64> = customers.iter().map(|_| random.within(5, 15)).collect();
    let open = size.first_open_order();
    let mut rows = Rows::of("orders", connection, stopped);
    for (o, (c, lines)) in (1..).zip(customers.iter().zip(&lines)) {
        match o < open {
            true => {
                let carrier = random.within(1, 10);
                rows.add(format_args!("{w},{d},{o},{c},CURRENT_TIMESTAMP,{carrier},{lines},1"))?;
            }
            false => rows.add(format_args!("{w},{d},{o},{c},CURRENT_TIMESTAMP,NULL,{lines},1"))?,
        }
    }
    rows.send()?;
    let mut rows = Rows::of("new_order", connection, stopped);
    for o in open..=size.customers {
        rows.add(format_args!("{w},{d},{o}"))?;
    }
    rows.send()?;
    let mut rows = Rows::of("order_line", connection, stopped);
    for (o, lines) in (1..).zip(&lines) {
        for number in 1..=*lines {
            let (item, text) = (random.within(1, size.items), random.letters(24, 24));
            let (date, cents) = match o < open {
                true => ("CURRENT_TIMESTAMP", 0),
                false => ("NULL", random.within(1, 999_999)),
            };
            rows.add(format_args!("{w},{d},{o},{number},{item},{w},{date},5,{cents},'{text}'"))?;
        }
    }
    rows.send()
}
