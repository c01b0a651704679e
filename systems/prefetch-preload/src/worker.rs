//! Threads without libc: for streams, for fetching files, for what needs files opened, for mappings.
//!
//! They are made by a bare clone(2): making a thread through libc allocates, turns single-threaded shortcuts of
//! malloc and stdio off for good, and is not allowed where a signal handler may be running. The price is that
//! they must not touch thread-local storage (they have a zeroed block of their own, for safety) nor unwind.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use prefetch::device::FETCH_WIDTH_MAX;
use prefetch::{Fetched, FileState, Request};
use prefetch_os::area::Head;
use prefetch_os::ask::{Os, issue};
use prefetch_os::{Kernel, memory, processor, sys};

use crate::cost::{self, Meter};
use crate::mappings::{self, Looks};
use crate::table::{self, BUDGET, HIGH, Slot};
use crate::{report, series, walker};

/// Bytes of a worker's stack.
const STACK_BYTES: usize = 256 << 10;
/// Ranges that are claimed under one lock.
const BATCH: usize = 8;

/// Between two looks at a thread that is ending, ns: the rest of its exit takes tens of microseconds on a free processor.
const BURIAL_NS: u64 = 100_000;
/// Looks at it, two seconds in all, like the wait for its end: should a thread of the program have got its number
/// meanwhile, the call goes on after that.
const BURIAL_LOOKS: u32 = 20_000;

/// How often the keeper looks how full the processors are while a file is fetched, ns.
const PRESSURE_NS: u64 = 20_000_000;

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Role {
    /// Prefetches ahead of streams.
    Streams = 0,
    /// Fetches files whole, waiting for each step.
    Fetch = 1,
    /// Looks at memory and walks directories, with a table of descriptors of its own.
    Keeper = 2,
    /// Looks at what was touched of mappings, with a table of descriptors of its own.
    Mapper = 3,
}

const ROLES: [Role; 4] = [Role::Streams, Role::Fetch, Role::Keeper, Role::Mapper];

#[repr(C, align(64))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: each stack is used by the one thread of its role.
unsafe impl Sync for Stack {}

/// A thread control block: its middle points at itself, as the x86-64 ABI asks; the rest is zero.
#[repr(C, align(64))]
struct Block(UnsafeCell<[usize; 512]>);

// SAFETY: as for stacks.
unsafe impl Sync for Block {}

struct Worker {
    /// The kernel's number of the thread: 0 when it does not run. The kernel clears it after the last use of
    /// the stack.
    tid: AtomicU32,
    /// The number of the last thread of this role that the kernel may not have buried yet: 0 when there is none.
    /// `tid` is cleared early in a thread's exit, while it still counts as one of the process.
    last: AtomicU32,
    /// Bumped for each reason to look again.
    seq: AtomicU32,
    sleeping: AtomicBool,
    stack: Stack,
    block: Block,
}

static WORKER: [Worker; 4] = [const {
    Worker {
        tid: AtomicU32::new(0),
        last: AtomicU32::new(0),
        seq: AtomicU32::new(0),
        sleeping: AtomicBool::new(false),
        stack: Stack(UnsafeCell::new([0; STACK_BYTES])),
        block: Block(UnsafeCell::new([0; 512])),
    }
}; 4];

static KERNEL: Kernel = Kernel::new();
static QUIT: AtomicBool = AtomicBool::new(false);
/// When a stream was last served, ns.
static ACTIVE_NS: AtomicU64 = AtomicU64::new(0);
/// When a step of fetching was last done, ns.
static FETCHED_NS: AtomicU64 = AtomicU64::new(0);
/// In what share of the time somebody waits for a processor, of [`processor::FULL`].
static PRESSURE: AtomicU64 = AtomicU64::new(0);

/// There is something for the workers: starts or wakes the one that serves streams.
pub fn wake() {
    rouse(Role::Streams);
}

/// Starts or wakes one worker.
pub fn rouse(role: Role) {
    if QUIT.load(Relaxed) {
        return;
    }
    let worker = &WORKER[role as usize];
    worker.seq.fetch_add(1, SeqCst);
    if worker.tid.load(Relaxed) == 0 {
        start(role);
    } else if worker.sleeping.load(SeqCst) {
        sys::futex_wake(&worker.seq, 1);
    }
}

/// Ends all workers and waits until they are gone: before calls that only a process of one thread may make, and
/// before it changes its credentials.
pub fn stop() {
    if WORKER.iter().all(|worker| worker.tid.load(Relaxed) == 0 && worker.last.load(Relaxed) == 0) {
        return;
    }
    QUIT.store(true, SeqCst);
    for worker in &WORKER {
        worker.seq.fetch_add(1, SeqCst);
        sys::futex_wake(&worker.seq, u32::MAX >> 1);
        for _ in 0..2000 {
            let tid = worker.tid.load(SeqCst);
            if tid == 0 {
                break;
            }
            sys::futex_wait(&worker.tid, tid, 1_000_000);
        }
        buried(worker.last.swap(0, SeqCst));
    }
    for at in 0..HIGH.load(Relaxed) as usize {
        if let Some(slot) = table::slot(at) {
            slot.wake.store(false, Relaxed);
        }
    }
    QUIT.store(false, SeqCst);
}

/// Waits until the kernel no longer counts a thread that is ending: unshare(2) is refused while it does.
fn buried(tid: u32) {
    if tid == 0 {
        return;
    }
    let process = sys::getpid() as usize;
    for _ in 0..BURIAL_LOOKS {
        // SAFETY: signal 0 is never delivered: the call only tells whether there is such a thread.
        if unsafe { sys::call(libc::SYS_tgkill, [process, tid as usize, 0, 0, 0, 0]) }.is_err() {
            return;
        }
        sys::sleep_ns(BURIAL_NS);
    }
}

/// The process forked: there are no workers in the child.
pub fn forked() {
    for worker in &WORKER {
        worker.tid.store(0, Relaxed);
        worker.last.store(0, Relaxed);
        worker.sleeping.store(false, Relaxed);
    }
    QUIT.store(false, Relaxed);
    walker::forked();
    series::forked();
    mappings::forked();
    for at in 0..HIGH.load(Relaxed) as usize {
        if let Some(slot) = table::slot(at) {
            slot.wake.store(false, Relaxed);
        }
    }
}

fn start(role: Role) {
    let worker = &WORKER[role as usize];
    if worker.tid.compare_exchange(0, u32::MAX, SeqCst, Relaxed).is_err() {
        return;
    }
    // All signals are the program's: blocked while the thread is made, which inherits the mask.
    let all = [u64::MAX];
    let mut mask = [0u64];
    // SAFETY: both masks have the kernel's size of 8 bytes.
    let blocked = unsafe {
        let (new, old) = (all.as_ptr() as usize, mask.as_mut_ptr() as usize);
        sys::call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, new, old, 8, 0, 0])
    };
    let made = if blocked.is_ok() { clone(role) } else { Err(0) };
    if blocked.is_ok() {
        // SAFETY: as above.
        let _ = unsafe {
            sys::call(
                libc::SYS_rt_sigprocmask,
                [libc::SIG_SETMASK as usize, mask.as_ptr() as usize, 0, 8, 0, 0],
            )
        };
    }
    match made {
        Ok(tid) => {
            worker.last.store(tid as u32, SeqCst);
            if let Some(area) = report::area() {
                area.add_head(Head::Workers, 1);
            }
        }
        // No thread (a limit on processes, say): nothing is prefetched until the next try.
        Err(_) => worker.tid.store(0, SeqCst),
    }
}

#[cfg(target_arch = "x86_64")]
fn clone(role: Role) -> sys::Answer {
    let worker = &WORKER[role as usize];
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    let tid = worker.tid.as_ptr() as usize;
    let top = worker.stack.0.get() as usize + STACK_BYTES;
    let result: isize;
    // SAFETY: no thread runs on this stack and block (tid was 0, set by the kernel when it is done with both).
    // The child calls `run`, which never returns, on a stack aligned to 16; the parent goes on after the call.
    unsafe {
        let block = worker.block.0.get().cast::<usize>().add(256);
        block.write(block as usize);
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone as isize => result,
            in("rdi") flags as usize,
            in("rsi") top,
            in("rdx") tid,
            in("r10") tid,
            in("r8") block as usize,
            in("r12") role as usize,
            in("r13") run as extern "C" fn(usize) -> ! as usize,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    if result > 0 { Ok(result as usize) } else { Err(-result as i32) }
}

#[cfg(not(target_arch = "x86_64"))]
fn clone(_role: Role) -> sys::Answer {
    Err(libc::ENOSYS)
}

/// The body of a worker.
extern "C" fn run(role: usize) -> ! {
    match ROLES.get(role) {
        Some(Role::Streams) => streams(),
        Some(Role::Fetch) => fetches(),
        Some(Role::Mapper) => mapper(),
        _ => keeper(),
    }
    // SAFETY: ends this thread only; the kernel then clears `tid`.
    let _ = unsafe { sys::call(libc::SYS_exit, [0; 6]) };
    loop {
        core::hint::spin_loop();
    }
}

fn name(name: &core::ffi::CStr) {
    // SAFETY: a C string of at most 16 bytes.
    let _ = unsafe {
        sys::call(libc::SYS_prctl, [libc::PR_SET_NAME as usize, name.as_ptr() as usize, 0, 0, 0, 0])
    };
}

/// Turns, steps of fetching and looks at mappings are nearer to each other than the usual 50 us of slack.
fn be_punctual() {
    // SAFETY: the thread's own timers, without pointers.
    let _ = unsafe { sys::call(libc::SYS_prctl, [libc::PR_SET_TIMERSLACK as usize, 1_000, 0, 0, 0, 0]) };
}

/// Sleeps until the next reason to look, or so long. `false`: the worker is to end.
fn rest(role: Role, seen: u32, timeout_ns: u64) -> bool {
    let worker = &WORKER[role as usize];
    worker.sleeping.store(true, SeqCst);
    if worker.seq.load(SeqCst) == seen && !QUIT.load(SeqCst) {
        sys::futex_wait(&worker.seq, seen, timeout_ns);
    }
    worker.sleeping.store(false, SeqCst);
    !QUIT.load(SeqCst)
}

const LONG_NS: u64 = 3_600_000_000_000;

fn streams() {
    name(c"ll-prefetch");
    be_punctual();
    rouse(Role::Keeper);
    // When a stream of each file has its turn, ns; 0: none is waiting for it.
    let mut turns = [0u64; table::SLOTS];
    let mut meter = Meter::begin();
    loop {
        meter.charge();
        let seen = WORKER[Role::Streams as usize].seq.load(SeqCst);
        let mut busy = false;
        let mut turn_ns = u64::MAX;
        let now_ns = sys::now_ns();
        for (at, turn) in turns.iter_mut().enumerate().take(HIGH.load(Relaxed) as usize) {
            let Some(slot) = table::slot(at) else { break };
            if slot.dead.load(Relaxed) {
                table::bury(slot);
                *turn = 0;
            } else if slot.wake.swap(false, Relaxed) || (*turn != 0 && *turn <= now_ns) {
                let (served, next_ns) = serve(at, slot);
                *turn = next_ns;
                busy |= served;
            }
            if *turn != 0 {
                turn_ns = turn_ns.min(*turn);
            }
        }
        if busy {
            let now = sys::now_ns();
            if now.saturating_sub(ACTIVE_NS.swap(now, Relaxed)) > 1_000_000_000 {
                rouse(Role::Keeper);
            }
            if QUIT.load(SeqCst) {
                return;
            }
        } else if turn_ns > now_ns && !rest(Role::Streams, seen, LONG_NS.min(turn_ns - now_ns)) {
            return;
        }
    }
}

/// Prefetches for one file until it has nothing to claim. Whether there was anything, and when a stream that must
/// wait has its turn, ns, or 0.
fn serve(at: usize, slot: &'static Slot) -> (bool, u64) {
    let mut busy = false;
    let mut turn_ns = 0;
    let mut rounds = 0u32;
    while !QUIT.load(Relaxed) && rounds < 64 {
        let mut batch = [Request { offset: 0, len: 0 }; BATCH];
        let Some(mut file) = patiently(slot) else {
            slot.wake.store(true, Relaxed);
            return (true, 0);
        };
        let fd = slot.fd.load(Relaxed);
        let mut claimed = 0;
        let now_ns = sys::now_ns();
        while let Some(entry) = batch.get_mut(claimed)
            && let Some(request) = file.claim_at(now_ns, slot.device(), &BUDGET)
        {
            *entry = request;
            claimed += 1;
        }
        if file.is_fetching() {
            rouse(Role::Fetch);
        }
        turn_ns = file.next_claim_ns(slot.device()).filter(|turn_ns| *turn_ns > now_ns).unwrap_or(0);
        drop(file);
        if claimed == 0 {
            break;
        }
        busy = true;
        rounds += 1;
        let mut cached = 0;
        for (step, request) in batch.iter().take(claimed).enumerate() {
            if !table::belongs(fd, at) {
                return (busy, 0);
            }
            let ask = step == 0 && rounds.is_multiple_of(4);
            let done = issue(&KERNEL, fd, *request, slot.device().limits.call_bytes(), ask);
            cached += done.cached;
        }
        if let Some(mut file) = slot.try_lock() {
            if cached > 0 {
                file.redundant(cached, slot.device(), &BUDGET);
            }
            check_evictions(fd, &mut file);
        }
    }
    (busy, turn_ns)
}

fn patiently(slot: &'static Slot) -> Option<table::Guard<'static>> {
    (0..100).find_map(|_| {
        core::hint::spin_loop();
        slot.try_lock()
    })
}

static EVICTIONS_CHECKED_NS: AtomicU64 = AtomicU64::new(0);

/// Ten times a second: whether what lies ahead is still there.
fn check_evictions(fd: i32, file: &mut FileState) {
    let now = sys::now_ns();
    if now.saturating_sub(EVICTIONS_CHECKED_NS.load(Relaxed)) < 100_000_000 {
        return;
    }
    EVICTIONS_CHECKED_NS.store(now, Relaxed);
    let Some(range) = file.ahead_range() else { return };
    if let Ok(residency) = KERNEL.residency(fd, range.offset, range.len)
        && residency.evicted > range.len / 8
    {
        file.evicted(residency.evicted, &BUDGET);
    }
}

fn fetches() {
    name(c"ll-fetch");
    be_punctual();
    loop {
        let seen = WORKER[Role::Fetch as usize].seq.load(SeqCst);
        let mut busy = false;
        for at in 0..HIGH.load(Relaxed) as usize {
            let Some(slot) = table::slot(at) else { break };
            busy |= fetch_file(at, slot);
        }
        let timeout = if busy { 1_000_000 } else { LONG_NS };
        if !rest(Role::Fetch, seen, timeout) {
            return;
        }
    }
}

/// A step of fetching that is under way.
#[derive(Clone, Copy, Default)]
struct Step {
    offset: u64,
    len: u64,
    cached: u64,
    begin_ns: u64,
}

/// The steps under way of one file, the oldest first.
struct Steps {
    ring: [Step; FETCH_WIDTH_MAX],
    first: usize,
    count: usize,
}

impl Steps {
    fn push(&mut self, step: Step) {
        if let Some(entry) = self.ring.get_mut((self.first + self.count) % FETCH_WIDTH_MAX) {
            *entry = step;
            self.count += 1;
        }
    }

    fn pop(&mut self) -> Option<Step> {
        let step = self.ring.get(self.first).copied().filter(|_| self.count > 0)?;
        self.first = (self.first + 1) % FETCH_WIDTH_MAX;
        self.count -= 1;
        Some(step)
    }
}

/// Fetches a file for as long as the policy says so, several steps under way at a time. Whether there was one.
fn fetch_file(at: usize, slot: &'static Slot) -> bool {
    let mut steps = Steps { ring: [Step::default(); FETCH_WIDTH_MAX], first: 0, count: 0 };
    let mut busy = false;
    let mut asked_ns = 0;
    let mut used_ns = sys::thread_ns();
    while !QUIT.load(Relaxed) {
        let Some(mut file) = patiently(slot) else { return true };
        let (fd, size) = (slot.fd.load(Relaxed), file.size);
        let idle = fd < 0 || !file.is_fetching();
        let mut next = None;
        if !idle && steps.count < file.fetch_width().min(FETCH_WIDTH_MAX) {
            let due_ns = file.next_fetch_ns(asked_ns, slot.device());
            let now_ns = sys::now_ns();
            if now_ns < due_ns {
                drop(file);
                sys::sleep_ns(due_ns - now_ns);
                continue;
            }
            next = file.claim_fetch(now_ns, slot.device(), &BUDGET);
        }
        drop(file);
        if let Some(request) = next {
            if !table::belongs(fd, at) {
                return busy;
            }
            let begin_ns = sys::now_ns();
            if !busy {
                FETCHED_NS.store(begin_ns, Relaxed);
                rouse(Role::Keeper);
            }
            busy = true;
            asked_ns = begin_ns;
            let done = issue(&KERNEL, fd, request, slot.device().limits.call_bytes(), true);
            let cached = done.untold(request);
            steps.push(Step { offset: request.offset, len: request.len, cached, begin_ns });
            if done.meets_writers(request.len)
                && let Some(mut file) = patiently(slot)
            {
                file.fetch_meets_writers(slot.device(), table::mode());
            }
            if done.refused {
                return busy;
            }
            continue;
        }
        let Some(step) = steps.pop() else { return busy };
        if idle || !table::belongs(fd, at) {
            return busy;
        }
        finish(slot, fd, size, step, &mut used_ns);
    }
    busy
}

/// Waits for a step and tells the policy how long it took. `used_ns` is what this thread had of a processor when it last told.
fn finish(slot: &'static Slot, fd: i32, size: u64, step: Step, used_ns: &mut u64) {
    if step.cached < step.len {
        let last = step.offset.saturating_add(step.len).min(size).saturating_sub(1);
        // Without this wait the queue would hold the whole file, and every other read would wait behind it.
        let _ = KERNEL.wait_for(fd, last);
    }
    let now_ns = sys::now_ns();
    ACTIVE_NS.store(now_ns, Relaxed);
    FETCHED_NS.store(now_ns, Relaxed);
    let used = sys::thread_ns();
    let taken_ns = used.saturating_sub(*used_ns) * PRESSURE.load(Relaxed) / processor::FULL;
    *used_ns = used;
    for _ in 0..1000 {
        if let Some(mut file) = patiently(slot) {
            if slot.fd.load(Relaxed) == fd {
                let elapsed_ns = now_ns.saturating_sub(step.begin_ns);
                let done = Fetched { bytes: step.len, cached: step.cached, elapsed_ns, taken_ns };
                file.fetched(&done, slot.device(), table::mode());
                report::file(slot, &file);
            }
            return;
        }
        sys::sleep_ns(10_000);
    }
}

/// Gives a thread a table of descriptors of its own, empty. Before Linux 5.9 it cannot have one, must open nothing, and
/// ends.
fn has_own_descriptors() -> bool {
    // SAFETY: no pointers. With the flag, and from 0 on, no descriptor is even copied.
    let own = unsafe {
        sys::call(libc::SYS_close_range, [0, u32::MAX as usize, libc::CLOSE_RANGE_UNSHARE as usize, 0, 0, 0])
    };
    own.is_ok()
}

/// Follows mappings.
fn mapper() {
    name(c"ll-mapper");
    be_punctual();
    if !has_own_descriptors() {
        return;
    }
    rouse(Role::Keeper);
    let Some(mut looks) = Looks::begin() else { return };
    loop {
        let seen = WORKER[Role::Mapper as usize].seq.load(SeqCst);
        let pause = looks.round();
        if pause.is_some_and(|pause| pause < 10_000_000) {
            ACTIVE_NS.store(sys::now_ns(), Relaxed);
        }
        if !rest(Role::Mapper, seen, pause.unwrap_or(LONG_NS)) {
            return;
        }
    }
}

/// Looks at memory while there is activity, and walks directories. Its descriptors are its own: what it opens and
/// closes can neither take a number from the program nor drop its locks.
fn keeper() {
    name(c"ll-keeper");
    if !has_own_descriptors() {
        return;
    }
    let mut told_ns = 0;
    let mut meter = Meter::begin();
    let mut pressure = processor::Pressure::new();
    loop {
        let seen = WORKER[Role::Keeper as usize].seq.load(SeqCst);
        let now = sys::now_ns();
        let fetching = now.saturating_sub(FETCHED_NS.load(Relaxed)) < 100_000_000;
        if fetching {
            PRESSURE.store(pressure.look(now), Relaxed);
        }
        if now.saturating_sub(told_ns) > 100_000_000 {
            told_ns = now;
            BUDGET.tell(&memory::look());
            report::process();
            cost::judge(now);
        }
        let walking = walker::walk(series::ahead_bytes());
        let waiting = series::follow(walker::ahead_bytes());
        let ordered = series::ahead_bytes() + walker::ahead_bytes() > 0;
        table::DEVICE.iter().for_each(|device| device.ordered.store(ordered, Relaxed));
        meter.charge();
        let active = now.saturating_sub(ACTIVE_NS.load(Relaxed)) < 1_000_000_000;
        let timeout = match (walking, active || waiting) {
            (true, _) => 1_000_000,
            _ if fetching => PRESSURE_NS,
            (false, true) => 200_000_000,
            (false, false) => LONG_NS,
        };
        if !rest(Role::Keeper, seen, timeout) {
            return;
        }
    }
}
