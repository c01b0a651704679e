//! What is simulated: protocol, machine, device, layout of the disk.

use ssd::{Profile, Regime};

use crate::params::{COMMAND_BLOCKS_MAX, HostCosts, PLUG_BLOCKS_MAX, PLUG_REQUESTS_MAX, REQUEUE_NS};

/// A journaling protocol, and with it the contract it needs of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// EXT4, ordered mode: waits for D, then JD, then a flush, then JC with FUA (Transfer-and-Flush).
    Ext4,
    /// The same on a device without FUA: JC, then another flush.
    Ext4NoFua,
    /// EXT4 with `barrier=0`: waits for transfers, never flushes. Nothing is safe over a power cut.
    Ext4NoBarrier,
    /// OPEXT4 on OPIMQ (FAST'25): streams, epochs, dual-stream writes, tagged flush.
    OpExt4,
    /// BarrierFS (FAST'18): a barrier flag and one queue; commit thread and flush thread.
    BarrierFs,
    /// MQFS on ccNVMe: a journal for each core, commit records in persistent device memory.
    Mqfs,
    /// HORAE (OSDI'20): the order is written to device memory, the blocks fly together, one flush.
    Horae,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 7] = [
        Protocol::Ext4,
        Protocol::Ext4NoFua,
        Protocol::Ext4NoBarrier,
        Protocol::OpExt4,
        Protocol::BarrierFs,
        Protocol::Mqfs,
        Protocol::Horae,
    ];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Ext4 => "ext4",
            Protocol::Ext4NoFua => "ext4-nofua",
            Protocol::Ext4NoBarrier => "ext4-nobarrier",
            Protocol::OpExt4 => "opext4",
            Protocol::BarrierFs => "barrierfs",
            Protocol::Mqfs => "mqfs",
            Protocol::Horae => "horae",
        }
    }

    /// The device's contract under it.
    pub fn regime(self) -> Regime {
        match self {
            Protocol::Ext4NoBarrier => Regime::None,
            Protocol::OpExt4 => Regime::Streams,
            Protocol::BarrierFs => Regime::Barrier,
            _ => Regime::Flush,
        }
    }
}

/// Group descriptor blocks of an ext4 on 1 TB: 7452 groups of 128 MiB, 64 descriptors of 64 bytes in a block. The
/// directories of containers are spread over the groups.
pub const DESCRIPTOR_BLOCKS: u32 = 117;

/// How the blocks of the device are used. Counts are blocks of 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The journal (of each core, with MQFS: divided among them).
    pub journal: u32,
    /// Block groups: each holds the files of one container.
    pub groups: u32,
    /// Inode blocks of a group, 16 inodes each.
    pub inodes: u32,
    /// Directory blocks of a group.
    pub dirs: u32,
    /// Data blocks of a group.
    pub data: u32,
}

impl Layout {
    /// Blocks of group descriptors that are in use.
    pub fn descriptors(&self) -> u32 {
        self.groups.clamp(1, DESCRIPTOR_BLOCKS)
    }

    /// Blocks of the whole device, rounded up to what the device's geometry likes.
    pub fn blocks(&self) -> u64 {
        let group = u64::from(2 + self.inodes + self.dirs + self.data);
        64 + u64::from(self.journal) + u64::from(self.descriptors()) + u64::from(self.groups) * group
    }
}

/// Where the block layer cuts and sends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks of one command; more is split.
    pub command_blocks: u32,
    /// A plug list of this many requests is sent before it is finished.
    pub plug_requests: usize,
    /// A last request of this many blocks sends it as well.
    pub plug_blocks: u32,
    /// A requeued command is tried again after this long, ns, if no completion came before.
    pub requeue_ns: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            command_blocks: COMMAND_BLOCKS_MAX,
            plug_requests: PLUG_REQUESTS_MAX,
            plug_blocks: PLUG_BLOCKS_MAX,
            requeue_ns: REQUEUE_NS,
        }
    }
}

/// Everything a simulation is built from.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The protocol.
    pub protocol: Protocol,
    /// Cores of the host, hardware threads counted singly.
    pub cores: u16,
    /// I/O queues of the host; the protocol may use fewer.
    pub queues: u16,
    /// Commands in flight on each queue.
    pub tags: u32,
    /// Epoch pinning (streams only).
    pub pinning: bool,
    /// Costs of the host's software.
    pub costs: HostCosts,
    /// The device.
    pub profile: Profile,
    /// Spread of the device's program times, see [`ssd::Config::program_jitter`].
    pub program_jitter: f64,
    /// The disk.
    pub layout: Layout,
    /// Of everything random.
    pub seed: u64,
    /// Where the block layer cuts.
    pub limits: Limits,
    /// Chance that a dispatch is refused and requeued.
    pub shortage: f64,
    /// Whether every command is checked by the oracle (P1-P10).
    pub watched: bool,
    /// Whether the order of each file's data writes is checked as well (memory grows with the run).
    pub chained: bool,
    /// Whether commands are traced.
    pub traced: bool,
    /// A planted bug of the host.
    #[doc(hidden)]
    pub mutation: Option<crate::mutation::Mutation>,
    /// A planted bug of the firmware.
    #[doc(hidden)]
    pub firmware: Option<ssd::mutation::Mutation>,
}

impl Setup {
    /// The testbed of the OPIMQ artifact: 40 hardware threads, 40 queues, a 980 PRO, and a disk for `groups`
    /// containers.
    pub fn testbed(protocol: Protocol, profile: Profile, groups: u32) -> Setup {
        Setup {
            protocol,
            cores: 40,
            queues: 40,
            tags: 1023,
            pinning: true,
            costs: HostCosts::default(),
            profile,
            program_jitter: 0.0,
            layout: Layout { journal: 1 << 18, groups, inodes: 64, dirs: 10, data: 1024 },
            seed: 1,
            limits: Limits::default(),
            shortage: 0.0,
            watched: true,
            chained: false,
            traced: false,
            mutation: None,
            firmware: None,
        }
    }
}
