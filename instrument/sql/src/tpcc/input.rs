//! What a terminal enters: drawn once for a transaction, so that it is the same when it is tried again.

use crate::random::Random;

use super::values::{self, Constants};
use super::{DELIVERY, NEW_ORDER, ORDER_STATUS, PAYMENT, STOCK_LEVEL, Size};

/// An item that does not exist, by which one New-Order in a hundred ends.
pub(super) const UNUSED_ITEM: i64 = -1;

/// A line of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) item: i64,
    pub(super) supply_w: i64,
    pub(super) quantity: i64,
}

/// How a customer is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Customer {
    Number(i64),
    Name(String),
}

/// What is entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    NewOrder { d: i64, c: i64, lines: Vec<Line> },
    Payment { d: i64, c_w: i64, c_d: i64, customer: Customer, cents: i64 },
    OrderStatus { d: i64, customer: Customer },
    Delivery { carrier: i64 },
    StockLevel { threshold: i64 },
}

/// The mix as a deck of 23 cards, of which each terminal takes one after the other, shuffled anew when all are taken
/// (clause 5.2.4.2): 10 New-Order, 10 Payment, 1 of each other.
const DECK: [usize; 23] = {
    let mut deck = [NEW_ORDER; 23];
    let mut card = 10;
    while card < 20 {
        deck[card] = PAYMENT;
        card += 1;
    }
    deck[20] = ORDER_STATUS;
    deck[21] = DELIVERY;
    deck[22] = STOCK_LEVEL;
    deck
};

/// What a person at a terminal draws.
#[derive(Debug)]
pub(super) struct Drawer {
    pub(super) random: Random,
    constants: Constants,
    size: Size,
    /// The terminal's warehouse.
    w: i64,
    deck: Vec<usize>,
}

impl Drawer {
    pub(super) fn new(random: Random, constants: Constants, size: Size, w: i64) -> Drawer {
        Drawer { random, constants, size, w, deck: Vec::new() }
    }

    /// The next transaction.
    pub(super) fn next(&mut self) -> (usize, Input) {
        if self.deck.is_empty() {
            self.deck = DECK.to_vec();
            self.random.shuffle(&mut self.deck);
        }
        let kind = self.deck.pop().unwrap_or(NEW_ORDER);
        let d = self.random.within(1, self.size.districts);
        let input = match kind {
            NEW_ORDER => self.new_order(d),
            PAYMENT => self.payment(d),
            ORDER_STATUS => Input::OrderStatus { d, customer: self.customer() },
            DELIVERY => Input::Delivery { carrier: self.random.within(1, 10) },
            _ => Input::StockLevel { threshold: self.random.within(10, 20) },
        };
        (kind, input)
    }

    /// Another warehouse than the terminal's, each as likely as each other.
    fn other_warehouse(&mut self) -> i64 {
        let other = self.random.within(1, self.size.warehouses - 1);
        if other >= self.w { other + 1 } else { other }
    }

    fn new_order(&mut self, d: i64) -> Input {
        let c = values::customer(&mut self.random, &self.constants, &self.size);
        let count = self.random.within(5, 15);
        let rolls_back = self.random.percent(1);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| {
                let item = values::item(&mut self.random, &self.constants, &self.size);
                let remote = self.random.percent(1) && self.size.warehouses > 1;
                let supply_w = if remote { self.other_warehouse() } else { self.w };
                Line { item, supply_w, quantity: self.random.within(1, 10) }
            })
            .collect();
        if rolls_back && let Some(last) = lines.last_mut() {
            last.item = UNUSED_ITEM;
        }
        // rows of STOCK are locked in one order, so that orders do not deadlock; the unused item stays last
        let known = lines.len() - usize::from(rolls_back);
        lines[..known].sort_unstable_by_key(|line| (line.supply_w, line.item));
        Input::NewOrder { d, c, lines }
    }

    fn payment(&mut self, d: i64) -> Input {
        let (mut c_w, mut c_d) = (self.w, d);
        if self.random.percent(15) && self.size.warehouses > 1 {
            c_w = self.other_warehouse();
            c_d = self.random.within(1, self.size.districts);
        }
        let customer = self.customer();
        Input::Payment { d, c_w, c_d, customer, cents: self.random.within(100, 500_000) }
    }

    fn customer(&mut self) -> Customer {
        match self.random.percent(60) {
            true => Customer::Name(values::name(&mut self.random, self.constants.last_run, &self.size)),
            false => Customer::Number(values::customer(&mut self.random, &self.constants, &self.size)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(warehouses: i64, w: i64, number: usize) -> Vec<(usize, Input)> {
        let random = Random::of_terminal(3, 1);
        let mut drawer = Drawer::new(random, Constants::of(3), Size::of(warehouses), w);
        (0..number).map(|_| drawer.next()).collect()
    }

    #[test]
    fn each_deck_holds_the_mix() {
        let mut counts = [0; 5];
        drawn(4, 2, 23 * 100).iter().for_each(|(kind, _)| counts[*kind] += 1);
        assert_eq!(counts, [1000, 1000, 100, 100, 100]);
    }

    #[test]
    fn orders_have_lines_remote_ones_and_unused_items_as_the_specification_says() {
        let (mut orders, mut lines_all, mut remote, mut unused) = (0.0, 0.0, 0.0, 0.0);
        for (_, input) in drawn(4, 2, 230_000) {
            let Input::NewOrder { lines, .. } = input else { continue };
            assert!((5..=15).contains(&lines.len()));
            orders += 1.0;
            lines_all += lines.len() as f64;
            remote += lines.iter().filter(|line| line.supply_w != 2).count() as f64;
            let at = lines.iter().position(|line| line.item == UNUSED_ITEM);
            if let Some(at) = at {
                assert_eq!(at, lines.len() - 1, "it is the last line");
                unused += 1.0;
            }
            assert!(
                lines
                    .iter()
                    .all(|line| (1..=4).contains(&line.supply_w) && (1..=10).contains(&line.quantity))
            );
        }
        assert!((lines_all / orders - 10.0).abs() < 0.05);
        assert!((0.008..0.012).contains(&(remote / lines_all)), "{}", remote / lines_all);
        assert!((0.008..0.012).contains(&(unused / orders)), "{}", unused / orders);
    }

    #[test]
    fn payments_go_to_other_warehouses_and_by_name_as_the_specification_says() {
        let (mut payments, mut remote, mut named) = (0.0, 0.0, 0.0);
        for (_, input) in drawn(4, 4, 230_000) {
            let Input::Payment { c_w, customer, cents, .. } = input else { continue };
            payments += 1.0;
            remote += f64::from(c_w != 4);
            named += f64::from(matches!(customer, Customer::Name(_)));
            assert!((100..=500_000).contains(&cents) && (1..=4).contains(&c_w));
        }
        assert!((0.14..0.16).contains(&(remote / payments)), "{}", remote / payments);
        assert!((0.59..0.61).contains(&(named / payments)), "{}", named / payments);
    }

    #[test]
    fn one_warehouse_has_no_other() {
        for (_, input) in drawn(1, 1, 2300) {
            match input {
                Input::NewOrder { lines, .. } => assert!(lines.iter().all(|line| line.supply_w == 1)),
                Input::Payment { c_w, .. } => assert_eq!(c_w, 1),
                _ => {}
            }
        }
    }
}
