//! The consistency conditions (clause 3.3.2), as queries that count what violates them.

use crate::SqlError;
use crate::db::{Connection, Value};

/// A condition and what violates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Its number in clause 3.3.2.
    pub number: u32,
    /// What must hold.
    pub rule: &'static str,
    /// Warehouses, districts or orders that violate it.
    pub violations: i64,
}

/// Conditions 1 to 4, which must hold after every run, and those of 5 to 12 that see what 1 to 4 do not: 8 and 9 tie
/// the sums to HISTORY. No condition skips a district whose rows are all gone, as an inner join would.
const QUERIES: [(u32, &str, &str); 6] = [
    (
        1,
        "W_YTD is the sum of D_YTD",
        "select count(*) from (select w_ytd, (select coalesce(sum(d_ytd),0) from district where d_w_id=w_id) s \
         from warehouse) t where w_ytd<>s",
    ),
    (
        2,
        "D_NEXT_O_ID - 1 is the largest order, and the largest new order",
        "select count(*) from (select d_next_o_id-1 n, (select max(o_id) from orders where o_w_id=d_w_id and o_d_id=d_id) o, \
         (select max(no_o_id) from new_order where no_w_id=d_w_id and no_d_id=d_id) m from district) t \
         where coalesce(o,-1)<>n or (m is not null and m<>n)",
    ),
    (
        3,
        "new orders of a district have no gaps",
        "select count(*) from (select no_w_id from new_order group by no_w_id, no_d_id \
         having max(no_o_id)-min(no_o_id)+1<>count(*)) t",
    ),
    (
        4,
        "the sum of O_OL_CNT is the number of order lines",
        "select count(*) from (select (select coalesce(sum(o_ol_cnt),0) from orders where o_w_id=d_w_id and o_d_id=d_id) a, \
         (select count(*) from order_line where ol_w_id=d_w_id and ol_d_id=d_id) b from district) t where a<>b",
    ),
    (
        8,
        "W_YTD is the sum of H_AMOUNT",
        "select count(*) from (select w_ytd, (select coalesce(sum(h_amount),0) from history where h_w_id=w_id) s \
         from warehouse) t where w_ytd<>s",
    ),
    (
        9,
        "D_YTD is the sum of H_AMOUNT",
        "select count(*) from district left join (select h_w_id, h_d_id, sum(h_amount) s from history group by h_w_id, h_d_id) t \
         on h_w_id=d_w_id and h_d_id=d_id where d_ytd<>coalesce(s,0)",
    ),
];

/// Asks for each condition.
///
/// # Errors
/// What the server answers.
pub fn conditions(connection: &mut Connection) -> Result<Vec<Condition>, SqlError> {
    let one = |(number, rule, query): &(u32, &'static str, &str)| {
        let what = format!("consistency condition {number}");
        let rows = connection.ask(query).map_err(SqlError::doing(what.clone()))?;
        let violations = rows.first().and_then(|row| row.first()).and_then(Value::int);
        let violations = violations
            .ok_or_else(|| SqlError::Inconsistent(format!("{what}: the server answered no number")))?;
        Ok(Condition { number: *number, rule, violations })
    };
    QUERIES.iter().map(one).collect()
}
