//! The programs that run in the kernel: at each begin and end of a system call, at forks, execs, ends of threads and page
//! faults on files. They look the thread up in a map of recorded threads; for others they do nothing more.
//!
//! A recorded thread's entry ([`state`]) holds the call that it is in. When the call ends a record ([`record`]) is made of it, with
//! the paths read from the program's memory, where the kernel has just read them, too, and put into the ring buffer.

use crate::assembler::{Assembler, FRAME, R0, R1, R2, R3, R4, R6, R7, R8, R9, When, Width};

/// The layout of a thread's entry in the map of threads.
pub mod state {
    /// What is to be done at the call's end ([`super::spec`]); 32 bits.
    pub const SPEC: i16 = 0;
    /// The system call's number; 32 bits.
    pub const NUMBER: i16 = 4;
    /// Its begin.
    pub const BEGIN: i16 = 8;
    /// Its six arguments; two more words keep an index of three bits within the entry.
    pub const ARGUMENTS: i16 = 16;
    /// Flags of the clone that it is in.
    pub const CLONE_FLAGS: i16 = 80;
    /// Bytes.
    pub const BYTES: u32 = 88;
}

/// The layout of a record in the ring buffer.
pub mod record {
    /// What it is ([`super::kind`]); 32 bits.
    pub const KIND: i16 = 0;
    /// A system call's number, or a new thread's; 32 bits.
    pub const NUMBER: i16 = 4;
    /// The thread's number; 32 bits. Its process's number follows.
    pub const THREAD: i16 = 8;
    /// Begin in nanoseconds of CLOCK_MONOTONIC.
    pub const BEGIN: i16 = 16;
    /// End.
    pub const END: i16 = 24;
    /// Six arguments; of an exec the program's name.
    pub const ARGUMENTS: i16 = 32;
    /// The call's result.
    pub const RESULT: i16 = 80;
    /// Bytes of the first path, its zero included; 32 bits. 0: none.
    pub const FIRST: i16 = 88;
    /// Bytes of the second one; 32 bits.
    pub const SECOND: i16 = 92;
    /// Bytes without paths, which follow.
    pub const BYTES: i32 = 96;
}

/// Kinds of records.
pub mod kind {
    /// A system call has ended.
    pub const CALL: u32 = 1;
    /// A thread was made.
    pub const FORK: u32 = 2;
    /// A process has another program.
    pub const EXEC: u32 = 3;
    /// A thread has ended.
    pub const EXIT: u32 = 4;
    /// A page of a mapping was read in.
    pub const FAULT: u32 = 5;
}

/// What the map of system calls says of one.
pub mod spec {
    /// It is recorded. The numbers of the arguments that are pointers, plus 1, stand above: 4 bits each from these bits on.
    pub const RECORDED: u32 = 1;
    /// Where the first path's argument stands.
    pub const FIRST_SHIFT: i32 = 4;
    /// Where the second one's stands.
    pub const SECOND_SHIFT: i32 = 8;
    /// Where the argument's stands that points to two descriptors.
    pub const PAIR_SHIFT: i32 = 12;
    /// It is `clone`: its first argument has flags.
    pub const CLONE: u32 = 1 << 16;
    /// It is `clone3`: its first argument points to flags.
    pub const CLONE3: u32 = 1 << 17;
}

/// Bytes of a path that are read at most.
pub const PATH_BYTES_MAX: i32 = recording::raw::PATH_BYTES_MAX as i32;
/// Bytes of the memory of each CPU in which a record is made.
pub const SCRATCH_BYTES: u32 = record::BYTES as u32 + 2 * PATH_BYTES_MAX as u32;
/// System calls have numbers below this.
pub const NUMBERS_MAX: u32 = 512;

/// Functions of the kernel: `enum bpf_func_id` of include/uapi/linux/bpf.h.
mod function {
    pub const MAP_LOOKUP: i32 = 1;
    pub const MAP_UPDATE: i32 = 2;
    pub const MAP_DELETE: i32 = 3;
    pub const KTIME_GET_NS: i32 = 5;
    pub const CURRENT_PID_TGID: i32 = 14;
    pub const CURRENT_COMM: i32 = 16;
    pub const PROBE_READ_USER: i32 = 112;
    pub const PROBE_READ_KERNEL: i32 = 113;
    pub const PROBE_READ_USER_STR: i32 = 114;
    pub const RINGBUF_OUTPUT: i32 = 130;
}

/// The ring buffer wakes nobody: its reader looks at it by the clock, and a wake-up for each record would cost more than the record.
const NO_WAKEUP: i32 = 1;

/// Where the arguments of a system call stand in the registers that the kernel saved (`struct pt_regs`), bytes.
#[cfg(target_arch = "x86_64")]
const SAVED: [i16; 6] = [112, 104, 96, 56, 72, 64];
/// Where the code segment stands, and what it is in 64-bit programs.
#[cfg(target_arch = "x86_64")]
const CODE_SEGMENT: (i16, i32) = (136, 0x33);
#[cfg(target_arch = "aarch64")]
const SAVED: [i16; 6] = [0, 8, 16, 24, 32, 40];
/// Bytes of saved registers that hold them.
const SAVED_BYTES: i32 = 144;

/// Descriptors of the maps.
#[derive(Debug, Clone, Copy)]
pub struct Maps {
    /// Threads that are recorded: number to [`state`].
    pub threads: i32,
    /// System calls: number to [`spec`].
    pub calls: i32,
    /// Memory for a record, for each CPU.
    pub scratch: i32,
    /// The ring buffer.
    pub ring: i32,
    /// Counters: [`LOST_KEY`], [`COMPAT_KEY`].
    pub lost: i32,
}

/// Where fields stand in the record of a tracepoint, bytes.
#[derive(Debug, Clone, Copy)]
pub struct FaultFields {
    /// The inode's number, 64 bits.
    pub inode: i16,
    /// The device, 32 bits.
    pub device: i16,
    /// The page's number, 64 bits.
    pub page: i16,
}

/// The frame: the thread's number, another key, saved registers.
const THREAD_KEY: i16 = -4;
const OTHER_KEY: i16 = -8;
const COUNTER_KEY: i16 = -12;
const FRAME_REGISTERS: i16 = -16 - SAVED_BYTES as i16;
const FRAME_STATE: i16 = -16 - state::BYTES as i16;
/// Counters by their places in the map `lost`: records that did not fit, and calls of 32-bit programs, whose numbers mean others.
pub const LOST_KEY: i32 = 0;
/// See [`LOST_KEY`].
pub const COMPAT_KEY: i32 = 1;

impl Assembler {
    /// The value of a key in the frame, or a jump to `out` when there is none. R0 has the value.
    fn look_up(&mut self, map: i32, key: i16) -> &mut Self {
        self.map(R1, map).copy(R2, FRAME).add(R2, i32::from(key));
        self.call(function::MAP_LOOKUP).jump_if(R0, When::Equal, 0, "out")
    }

    /// The entry of the running thread in `R8`, its number and its process's in `R7`, its number as a key in the frame.
    fn look_up_thread(&mut self, maps: Maps) -> &mut Self {
        self.call(function::CURRENT_PID_TGID).copy(R7, R0).store(Width::Word, FRAME, THREAD_KEY, R0);
        self.look_up(maps.threads, THREAD_KEY).copy(R8, R0)
    }

    /// The memory for a record in `R9`, with kind, thread and time.
    fn begin_record(&mut self, maps: Maps, kind: u32) -> &mut Self {
        self.store_number(Width::Word, FRAME, OTHER_KEY, 0);
        self.look_up(maps.scratch, OTHER_KEY).copy(R9, R0);
        self.store_number(Width::Word, R9, record::KIND, kind as i32);
        self.store(Width::Double, R9, record::THREAD, R7);
        self.store_number(Width::Word, R9, record::FIRST, 0).store_number(Width::Word, R9, record::SECOND, 0);
        self.call(function::KTIME_GET_NS).store(Width::Double, R9, record::BEGIN, R0);
        self.store(Width::Double, R9, record::END, R0)
    }

    /// Puts the record in `R9`, whose bytes are in `R3`, into the ring buffer; one that does not fit is counted. Then `out`.
    fn end_record(&mut self, maps: Maps) -> &mut Self {
        self.map(R1, maps.ring).copy(R2, R9).set(R4, NO_WAKEUP);
        self.call(function::RINGBUF_OUTPUT).jump_if(R0, When::Equal, 0, "out");
        self.count_lost(maps)
    }

    /// Records the thread whose number is a key in the frame from now on. One for which there is no room is counted.
    fn add_thread(&mut self, maps: Maps, key: i16) -> &mut Self {
        for word in (0..state::BYTES as i16).step_by(8) {
            self.store_number(Width::Double, FRAME, FRAME_STATE + word, 0);
        }
        self.map(R1, maps.threads).copy(R2, FRAME).add(R2, i32::from(key));
        self.copy(R3, FRAME).add(R3, i32::from(FRAME_STATE)).set(R4, 0);
        self.call(function::MAP_UPDATE).jump_if(R0, When::Equal, 0, "in the map");
        self.count_lost(maps).label("in the map")
    }

    fn count_lost(&mut self, maps: Maps) -> &mut Self {
        self.count(maps, LOST_KEY)
    }

    /// Adds one to a counter.
    fn count(&mut self, maps: Maps, counter: i32) -> &mut Self {
        self.store_number(Width::Word, FRAME, COUNTER_KEY, counter);
        self.look_up(maps.lost, COUNTER_KEY).set(R1, 1).atomic_add(R0, 0, R1)
    }

    fn out(&mut self) -> Vec<[u8; 8]> {
        self.label("out").exit().finish()
    }
}

/// At the begin of a system call: a recorded thread's entry takes it. (Raw tracepoint `sys_enter`: registers, number.)
pub fn enter(maps: Maps) -> Vec<[u8; 8]> {
    let mut code = Assembler::new();
    code.copy(R6, R1).look_up_thread(maps);
    code.store_number(Width::Word, R8, state::SPEC, 0);
    code.store_number(Width::Double, R8, state::CLONE_FLAGS, 0);
    code.load(Width::Double, R7, R6, 8).store(Width::Word, FRAME, OTHER_KEY, R7);
    code.look_up(maps.calls, OTHER_KEY).load(Width::Word, R9, R0, 0).jump_if(R9, When::Equal, 0, "out");
    code.store(Width::Word, R8, state::NUMBER, R7);
    code.copy(R1, FRAME).add(R1, i32::from(FRAME_REGISTERS)).set(R2, SAVED_BYTES).load(
        Width::Double,
        R3,
        R6,
        0,
    );
    code.call(function::PROBE_READ_KERNEL).jump_if(R0, When::Differs, 0, "out");
    #[cfg(target_arch = "x86_64")]
    {
        let (place, is_64) = CODE_SEGMENT;
        code.load(Width::Double, R1, FRAME, FRAME_REGISTERS + place).jump_if(
            R1,
            When::Equal,
            is_64,
            "64 bits",
        );
        code.count(maps, COMPAT_KEY).set(R1, 1).jump_if(R1, When::Equal, 1, "out").label("64 bits");
    }
    for (argument, saved) in SAVED.into_iter().enumerate() {
        code.load(Width::Double, R1, FRAME, FRAME_REGISTERS + saved);
        code.store(Width::Double, R8, state::ARGUMENTS + 8 * argument as i16, R1);
    }
    code.call(function::KTIME_GET_NS).store(Width::Double, R8, state::BEGIN, R0);
    code.store(Width::Word, R8, state::SPEC, R9);
    code.copy(R1, R9).and(R1, spec::CLONE as i32).jump_if(R1, When::Equal, 0, "no clone");
    code.load(Width::Double, R1, R8, state::ARGUMENTS).store(Width::Double, R8, state::CLONE_FLAGS, R1);
    code.label("no clone");
    code.and(R9, spec::CLONE3 as i32).jump_if(R9, When::Equal, 0, "out");
    code.copy(R1, R8).add(R1, i32::from(state::CLONE_FLAGS)).set(R2, 8);
    code.load(Width::Double, R3, R8, state::ARGUMENTS).call(function::PROBE_READ_USER);
    code.out()
}

/// At the end of a system call: the record of it. (Raw tracepoint `sys_exit`: registers, result.)
pub fn exit(maps: Maps) -> Vec<[u8; 8]> {
    let mut code = Assembler::new();
    code.copy(R6, R1).look_up_thread(maps);
    code.load(Width::Word, R1, R8, state::SPEC).and(R1, spec::RECORDED as i32);
    code.jump_if(R1, When::Equal, 0, "out");
    code.begin_record(maps, kind::CALL);
    code.load(Width::Word, R1, R8, state::NUMBER).store(Width::Word, R9, record::NUMBER, R1);
    code.load(Width::Double, R1, R8, state::BEGIN).store(Width::Double, R9, record::BEGIN, R1);
    for argument in 0..6 {
        code.load(Width::Double, R1, R8, state::ARGUMENTS + 8 * argument);
        code.store(Width::Double, R9, record::ARGUMENTS + 8 * argument, R1);
    }
    code.load(Width::Double, R1, R6, 8).store(Width::Double, R9, record::RESULT, R1);
    read_pair(&mut code);
    // the bytes of paths so far, in R6
    code.set(R6, 0);
    read_path(&mut code, spec::FIRST_SHIFT, record::FIRST, ["no first", "bad first"]);
    read_path(&mut code, spec::SECOND_SHIFT, record::SECOND, ["no second", "bad second"]);
    code.store_number(Width::Word, R8, state::SPEC, 0);
    code.copy(R3, R6).add(R3, record::BYTES).end_record(maps);
    code.out()
}

/// Loads the pointer of an argument into R3, or jumps where there is none: its number plus 1 stands in the call's spec.
fn load_pointer(code: &mut Assembler, shift: i32, none: &'static str) {
    code.load(Width::Word, R1, R8, state::SPEC).shift_right(R1, shift).and(R1, 0xf);
    code.jump_if(R1, When::Equal, 0, none);
    code.add(R1, -1).and(R1, 7).shift_left(R1, 3).copy(R2, R8).add_register(R2, R1);
    code.load(Width::Double, R3, R2, state::ARGUMENTS);
}

/// Reads the two descriptors that a call has made, in place of its last argument.
fn read_pair(code: &mut Assembler) {
    load_pointer(code, spec::PAIR_SHIFT, "no pair");
    code.copy(R1, R9).add(R1, i32::from(record::ARGUMENTS) + 5 * 8).set(R2, 8);
    code.call(function::PROBE_READ_USER).label("no pair");
}

/// Reads the path that an argument points to, behind what was read before; its length is kept in the record and added to R6.
fn read_path(code: &mut Assembler, shift: i32, length: i16, [none, bad]: [&'static str; 2]) {
    load_pointer(code, shift, none);
    code.copy(R1, R9).add_register(R1, R6).add(R1, record::BYTES).set(R2, PATH_BYTES_MAX);
    // a negative result is greater than all lengths
    code.call(function::PROBE_READ_USER_STR).jump_if(R0, When::Greater, PATH_BYTES_MAX, bad);
    code.store(Width::Word, R9, length, R0).add_register(R6, R0);
    code.label(none).label(bad);
}

/// When a recorded thread makes one, which is then recorded, too. (Tracepoint `sched_process_fork`; where `child_pid` stands.)
pub fn fork(maps: Maps, child: i16) -> Vec<[u8; 8]> {
    let mut code = Assembler::new();
    code.copy(R6, R1).look_up_thread(maps);
    code.load(Width::Word, R6, R6, child);
    code.begin_record(maps, kind::FORK).store(Width::Word, R9, record::NUMBER, R6);
    code.load(Width::Double, R1, R8, state::CLONE_FLAGS).store(Width::Double, R9, record::ARGUMENTS, R1);
    code.store(Width::Word, FRAME, OTHER_KEY, R6).add_thread(maps, OTHER_KEY);
    code.set(R3, record::BYTES).end_record(maps);
    code.out()
}

/// When a recorded process has got another program. (Raw tracepoint `sched_process_exec`: task, the thread's number before.)
/// The thread that has called exec is the only one left, under its process's number: its entry moves there.
pub fn exec(maps: Maps) -> Vec<[u8; 8]> {
    let mut code = Assembler::new();
    code.load(Width::Double, R6, R1, 8).store(Width::Word, FRAME, OTHER_KEY, R6);
    code.look_up(maps.threads, OTHER_KEY);
    code.map(R1, maps.threads).copy(R2, FRAME).add(R2, i32::from(OTHER_KEY)).call(function::MAP_DELETE);
    code.call(function::CURRENT_PID_TGID).copy(R7, R0).store(Width::Word, FRAME, THREAD_KEY, R0);
    code.add_thread(maps, THREAD_KEY).begin_record(maps, kind::EXEC);
    code.copy(R1, R9).add(R1, i32::from(record::ARGUMENTS)).set(R2, 16).call(function::CURRENT_COMM);
    code.set(R3, record::BYTES).end_record(maps);
    code.out()
}

/// When a recorded thread ends. (Raw tracepoint `sched_process_exit`.)
pub fn end(maps: Maps) -> Vec<[u8; 8]> {
    let mut code = Assembler::new();
    code.look_up_thread(maps).begin_record(maps, kind::EXIT);
    code.map(R1, maps.threads).copy(R2, FRAME).add(R2, i32::from(THREAD_KEY)).call(function::MAP_DELETE);
    code.set(R3, record::BYTES).end_record(maps);
    code.out()
}

/// When a recorded thread touches a page of a mapped file that is to be found. (Tracepoint `mm_filemap_fault`.)
pub fn fault(maps: Maps, fields: FaultFields) -> Vec<[u8; 8]> {
    let mut code = Assembler::new();
    code.copy(R6, R1).look_up_thread(maps).begin_record(maps, kind::FAULT);
    let words: [(Width, i16); 3] =
        [(Width::Word, fields.device), (Width::Double, fields.inode), (Width::Double, fields.page)];
    for (at, (width, field)) in words.into_iter().enumerate() {
        code.load(width, R1, R6, field);
        code.store(Width::Double, R9, record::ARGUMENTS + 8 * at as i16, R1);
    }
    code.set(R3, record::BYTES).end_record(maps);
    code.out()
}
