//! Reads the kernel's tracepoints from a private tracefs instance, in binary, without losing count of lost
//! events.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@format`] | the `format` files: where each field of an event is |
//! | [`page`] | ring-buffer pages: bytes in, records out; pure |
//! | [`event`] | one event with access to its fields; events of many CPUs in one order |
//! | [`instance`] | a private instance: created, set up, removed when dropped |
//! | [`session`] | runs a closure under tracing |
//! | `error` | what can go wrong |
//! | [`live`] | hands over records while the kernel makes them |
//!
//! Reading `trace_pipe_raw` costs about a tenth of reading the text of `trace_pipe`, and pages are parsed
//! only after the traced work has ended. Only little-endian machines are supported.

mod error;
pub mod event;
pub mod format;
pub mod instance;
pub mod live;
pub mod page;
pub mod session;

pub use error::TraceError;
pub use event::Event;
pub use format::EventFormat;
pub use instance::{Instance, Selection, sweep};
pub use live::Rings;
pub use session::{Capture, Options, capture};
