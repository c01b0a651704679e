//! Every constant of the modelled host, with unit and reason. All stacks and all workloads share them.
//!
//! Where a value says *log*, it was read from the OPIMQ artifact's shipped ftrace logs (FAST'25); *fit* values were
//! chosen on the points that `docs/notebook/order.md` names, and are the same at every other point.

use ssd::Nanos;

/// What the host's software costs. Processor time is spent on a core; delays pass without one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostCosts {
    /// Delay from a wake-up to the task's first instruction: interrupt, idle exit, context switch. Log: from
    /// the end of the JD write to the JC command 13 us, of which this is the larger part.
    pub wake_delay_ns: Nanos,
    /// Processor time of a task that was woken, until it does something useful.
    pub switch_ns: Nanos,
    /// Processor time of one request from `submit_bio` to the doorbell. Log: 2-5 us.
    pub submit_ns: Nanos,
    /// Delay until a kernel worker issues a flush or FUA write that was queued to it. Log: 27-36 us from the end
    /// of JC to the flush, with one wake-up in it.
    pub worker_ns: Nanos,
    /// Processor time to start a commit: lock the transaction, wait for handles. Log: D to JD 26-30 us, with one
    /// wake-up in it.
    pub commit_start_ns: Nanos,
    /// Processor time to end a commit: update the journal, state changes. Log: flush to return 50-73 us, with two
    /// wake-ups in it.
    pub commit_end_ns: Nanos,
    /// Processor time of the journal thread to log one metadata block: copy, checksum, submit. Fit, together with
    /// `file_block_ns`.
    pub log_block_ns: Nanos,
    /// The same after the commit record: end of I/O, refile, insert into the checkpoint list.
    pub file_block_ns: Nanos,
    /// Processor time of the journal thread for each inode with data in the transaction: it asks for its write-back,
    /// and looks whether that has ended, though the caller has written it. Fit.
    pub inode_ns: Nanos,
    /// Processor time of the journal thread to wake one waiter on a busy core: put it in the run queue. Fit.
    pub waiter_ns: Nanos,
    /// The same while all cores idle: choose one, send the interrupt that ends its sleep; between the two in proportion.
    /// Fit.
    pub waiter_idle_ns: Nanos,
    /// Processor time of a metadata handle: start, write access, stop.
    pub handle_ns: Nanos,
    /// The journal thread sleeps this long in the first commit after a mount, between descriptor and metadata:
    /// the journal's block map is not in memory yet. Log: the two JD commands of a first commit.
    pub cold_map_ns: Nanos,
    /// Two writes to a file within this time change its modification time once (one timer tick).
    pub tick_ns: Nanos,
    /// A persistent write of an ordering record or doorbell to device memory (ccNVMe, HORAE): write and read back
    /// over PCIe.
    pub mmio_ns: Nanos,
}

impl Default for HostCosts {
    fn default() -> HostCosts {
        HostCosts {
            wake_delay_ns: 10_000,
            switch_ns: 1_500,
            submit_ns: 2_500,
            worker_ns: 16_000,
            commit_start_ns: 14_000,
            commit_end_ns: 20_000,
            log_block_ns: 1_500,
            file_block_ns: 2_800,
            inode_ns: 7_000,
            waiter_ns: 1_500,
            waiter_idle_ns: 2_500,
            handle_ns: 1_500,
            cold_map_ns: 20_000,
            tick_ns: 1_000_000,
            mmio_ns: 1_500,
        }
    }
}

/// Requests of a plug list that are sent before it is finished (Linux: `BLK_MAX_REQUEST_COUNT`).
pub const PLUG_REQUESTS_MAX: usize = 32;
/// A last request of this many blocks sends the plug list as well (Linux: `BLK_PLUG_FLUSH_SIZE`, 128 KiB).
pub const PLUG_BLOCKS_MAX: u32 = 32;
/// Blocks of one command; more is split (1 MiB, the limit most NVMe drives state).
pub const COMMAND_BLOCKS_MAX: u32 = 256;
/// Blocks of one request of the journal thread: with this size the plug list is sent.
pub const JOURNAL_REQUEST_BLOCKS: u32 = 32;
/// Metadata blocks a journal descriptor block names: 16 bytes each, header and checksum off 4096.
pub const TAGS_PER_DESCRIPTOR: u32 = 254;
/// A requeued command is tried again after this long, if no completion came before (Linux: `BLK_MQ_RESOURCE_DELAY`).
pub const REQUEUE_NS: Nanos = 3_000_000;
