//! For fuzz targets: what another rank says of itself, read from bytes.

use std::time::Duration;

use crate::leader::{ExpectedRanks, Hello, refusal};

/// Reads a rank's first message as rank 0 of three does; why it is refused, if it is one and is.
pub fn hello(payload: &[u8]) -> Option<String> {
    let hello: Hello = serde_json::from_slice(payload).ok()?;
    let expected = ExpectedRanks { size: 3, plan: "plan".into(), patience: Duration::from_secs(1) };
    refusal(&hello, &expected, &[None, None, None])
}
