//! The sync calls.

/// What a caller wants of a sync call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Data and metadata are durable at return.
    Fsync,
    /// Data, and the metadata that is needed to read it, are durable at return.
    Fdatasync,
    /// What was written before is persistent before what is written later; returns at dispatch. On protocols
    /// without order it is `Fsync`.
    Fbarrier,
    /// The same with the metadata of `Fdatasync`.
    Fdatabarrier,
}

impl Sync {
    pub(crate) fn is_durable(self) -> bool {
        matches!(self, Sync::Fsync | Sync::Fdatasync)
    }

    pub(crate) fn data_only(self) -> bool {
        matches!(self, Sync::Fdatasync | Sync::Fdatabarrier)
    }
}
