//! TPC-C (Transaction Processing Performance Council, TPC Benchmark C, revision 5.11): nine tables, five transactions,
//! the consistency conditions of clause 3.3.
//!
//! Money is kept in cents and taxes in ten-thousandths, as whole numbers, so that each engine computes exactly and
//! with the same statements. Terminals do not key or think unless told; so its figures are no tpmC.
//!
//! | module | holds |
//! |---|---|
//! | `mod` | the size of the database, its terminals |
//! | `schema` | tables and indexes |
//! | `values` | NURand, names, the constants C |
//! | `fill` | the first contents |
//! | `input` | what a terminal enters |
//! | `statements` | the prepared statements |
//! | `transactions` | the five transactions |
//! | `terminal` | a terminal: chooses, runs, tries again |
//! | `check` | the consistency conditions |
//! | `ledger` | what was acknowledged, and whether it is still there |

mod check;
mod fill;
mod input;
mod ledger;
mod schema;
mod statements;
mod terminal;
mod transactions;
mod values;

use stats::Direction;

pub(crate) use fill::{create, index, items, warehouse};

pub use check::{Condition, conditions};
pub use ledger::{Ledger, Loss};
pub use schema::TABLES;
pub use terminal::{Person, TpccTerminal};
pub use values::{Constants, last_name, nurand_of};

use crate::drive::Kind;

/// The five transactions, in the order of [`KINDS`].
pub const NEW_ORDER: usize = 0;
pub(crate) const PAYMENT: usize = 1;
pub(crate) const ORDER_STATUS: usize = 2;
pub(crate) const DELIVERY: usize = 3;
pub(crate) const STOCK_LEVEL: usize = 4;

/// The five transactions.
pub const KINDS: [Kind; 5] = [
    Kind { name: "new-order", direction: Direction::Write },
    Kind { name: "payment", direction: Direction::Write },
    Kind { name: "order-status", direction: Direction::Read },
    Kind { name: "delivery", direction: Direction::Write },
    Kind { name: "stock-level", direction: Direction::Read },
];

/// The size of a database. All but the warehouses are those of the specification (clause 1.2) unless a check wants it
/// small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Warehouses.
    pub warehouses: i64,
    /// Districts of a warehouse: 10.
    pub districts: i64,
    /// Customers of a district: 3000. As many orders are there at first, of which the last 3 in 10 are not delivered.
    pub customers: i64,
    /// Items, each in the stock of each warehouse: 100,000.
    pub items: i64,
}

impl Size {
    /// The size that the specification gives so many warehouses.
    pub fn of(warehouses: i64) -> Size {
        Size { warehouses, districts: 10, customers: 3000, items: 100_000 }
    }

    /// A database of a few MiB, for checks that bring it up again and again. Its figures compare with nothing.
    pub fn small(warehouses: i64) -> Size {
        Size { customers: 100, items: 2000, ..Size::of(warehouses) }
    }

    /// The first order that is not delivered when all is new: 2101 of 3000.
    pub(crate) fn first_open_order(&self) -> i64 {
        self.customers - self.customers * 3 / 10 + 1
    }
}
