//! The error rates that the rules promise, simulated: every rule against noise of the kinds that trials have shown.
//!
//! Each figure is printed with its seed: `cargo test -p loadline-stats --test simulations -- --nocapture`. More rounds:
//! `LOADLINE_SIMULATE=10`. A limit holds give or take three standard errors of the rounds made.

mod between;
mod blocked;
mod many;
mod noise;
mod sequential;
mod slices;
mod turns;
