//! What was given to a device's driver, command by command.

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Empties the device's volatile cache.
    Flush,
    /// Gives blocks up.
    Discard,
    /// Anything else.
    Other,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCommand {
    /// When the driver got it, in nanoseconds of the trace clock.
    pub issued_ns: u64,
    /// The thread that gave it to the driver.
    pub pid: i32,
    /// That thread's name.
    pub comm: String,
    /// The hardware queue that it went into; 0 when that is not known.
    pub queue: u16,
    /// What it does.
    pub operation: Operation,
}
