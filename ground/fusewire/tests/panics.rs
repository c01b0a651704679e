//! A daemon whose thread panics or whose ring fails: nobody waits for its answers for ever, and the log says why.
//!
//! This program is its own daemon (hence no test harness).

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use fusewire::local::{self, MountPoint};
use fusewire::wire::{Attr, Entry, Operation, Request};
use fusewire::{AbortOnPanic, Answered, DeferredReply, FileSystem, Reply, Transport, force_unmount};
use needs::{Case, Need};
use rustix::mount::MountFlags;
use rustix::process::{Pid, WaitOptions, waitpid};

const DAEMON: &str = "panicking-daemon";
const HOLDER: &str = "panicking-holder";
/// Far more than anything takes, on the slowest machine: it ends what hangs.
const DEADLINE: Duration = Duration::from_secs(600);
/// The name whose lookup is answered by nobody, the one at which the thread panics, and the one after which no ring can be
/// entered.
const UNANSWERED: &str = "unanswered";
const PANIC: &str = "panic";
const FAIL: &str = "fail";
/// The name at which the thread panics in a program that has no log, as whoever serves as a library.
const PANIC_UNLOGGED: &str = "panic-unlogged";

/// An empty directory.
#[derive(Default)]
struct Panicking {
    waiting: Mutex<Vec<DeferredReply>>,
}

impl FileSystem for Panicking {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) -> Answered {
        let attr = Attr { mode: libc::S_IFDIR | 0o755, nlink: 1, ..Attr::default() };
        match request.operation {
            Operation::Lookup { name } if name == PANIC.as_bytes() => panic!("planted\nin two lines"),
            Operation::Lookup { name } if name == PANIC_UNLOGGED.as_bytes() => {
                drop(std::panic::take_hook());
                panic!("planted")
            }
            Operation::Lookup { name } if name == FAIL.as_bytes() => {
                refuse_rings();
                reply.error(libc::ENOENT)
            }
            Operation::Lookup { name } if name == UNANSWERED.as_bytes() => {
                let (answered, later) = reply.later();
                self.waiting.lock().unwrap().push(later);
                answered
            }
            // seen when the other one waits
            Operation::Lookup { .. } if !self.waiting.lock().unwrap().is_empty() => {
                reply.entry(&Entry { node: 2, ttl: Duration::ZERO, attr })
            }
            Operation::Lookup { .. } => reply.error(libc::ENOENT),
            Operation::GetAttr { .. } => reply.attr(&attr, Duration::ZERO),
            _ => reply.error(libc::ENOSYS),
        }
    }

    fn forget(&self, _node: u64, _lookups: u64) {}
}

/// From now on io_uring_enter(2) fails with EPERM, in all threads.
fn refuse_rings() {
    let errno = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    // SAFETY: no pointers: they make plain instructions.
    let mut rules = unsafe {
        [
            // the number of the call is the first word of `seccomp_data`
            libc::BPF_STMT((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0),
            libc::BPF_JUMP(
                (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
                libc::SYS_io_uring_enter as u32,
                0,
                1,
            ),
            libc::BPF_STMT((libc::BPF_RET | libc::BPF_K) as u16, errno),
            libc::BPF_STMT((libc::BPF_RET | libc::BPF_K) as u16, libc::SECCOMP_RET_ALLOW),
        ]
    };
    let program = libc::sock_fprog { len: rules.len() as u16, filter: rules.as_mut_ptr() };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the program and its rules live through the call.
    let filtered = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    assert_eq!(filtered, 0, "{}", io::Error::last_os_error());
}

fn daemon(dir: &Path, transport: &str, log: &Path) -> ExitCode {
    let place = MountPoint {
        name: "panicking",
        source: Path::new("nothing"),
        dir,
        fs_type: "fuse.panicking",
        flags: MountFlags::empty(),
        transport: Transport::parse(transport).unwrap(),
        threads: 2,
        stand_back: false,
    };
    let start = || place.serve(&local::wish(0), Arc::<Panicking>::default).map_err(|error| error.what);
    let Some(session) = host::daemon::come_up("panicking", Some(log), start) else {
        return ExitCode::FAILURE;
    };
    // a panic that unwinds is an end as well, but a late one
    let _ = session.join();
    ExitCode::SUCCESS
}

/// A lock, for all that sees it.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        println!("given back");
    }
}

fn a_thread_that_panics_gives_no_lock_back() {
    let output = Command::new(std::env::current_exe().unwrap()).arg(HOLDER).output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "held\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("planted"), "the cause is lost: {said}");
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == [HOLDER] {
        let _guard = AbortOnPanic::new();
        let _held = Held;
        println!("held");
        panic!("planted");
    }
    if let [hidden, dir, transport, log] = &args[..]
        && hidden == DAEMON
    {
        return daemon(Path::new(dir), transport, Path::new(log));
    }
    let mount = vec![Need::Root, Need::Mounts, Need::Fuse];
    let rings = [mount.clone(), vec![Need::Rings]].concat();
    let panicked = ("a_panic", PANIC, "planted in two lines");
    let failed =
        ("a_ring_that_fails", FAIL, "a queue is not served any more: Operation not permitted (os error 1)");
    let unlogged = ("a_panic_without_a_log", PANIC_UNLOGGED, "");
    let cases = [
        (panicked, Transport::Classic, &mount),
        (panicked, Transport::Uring, &rings),
        (unlogged, Transport::Classic, &mount),
        (unlogged, Transport::Uring, &rings),
        (failed, Transport::Uring, &rings),
    ];
    let cases = cases.map(|((what, name, why), transport, needs)| {
        let run = move || {
            std::panic::catch_unwind(|| ends_the_daemon_and_all_waiting(transport, name, why)).is_ok()
        };
        Case::new(format!("{what}_ends_the_daemon_and_all_waiting::{}", transport.name()), needs, run)
    });
    let mut cases = Vec::from(cases);
    let run = || std::panic::catch_unwind(a_thread_that_panics_gives_no_lock_back).is_ok();
    cases.push(Case::new("a_thread_that_panics_gives_no_lock_back", &[], run));
    needs::run(env!("CARGO_PKG_NAME"), "panics", cases)
}

/// Taken away, whatever happens.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = force_unmount(&self.0);
    }
}

fn ends_the_daemon_and_all_waiting(transport: Transport, name: &'static str, why: &str) {
    let home = tempfile::tempdir().unwrap();
    let (dir, log) = (home.path().join("mnt"), home.path().join("log"));
    std::fs::create_dir(&dir).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(DAEMON).arg(&dir).arg(transport.name()).arg(&log);
    let pid = host::daemon::launch(&mut command).unwrap();
    let mount = Mount(dir.clone());
    let (done, ended) = mpsc::channel();
    let open = |name: &'static str| {
        let (path, done) = (dir.join(name), done.clone());
        std::thread::spawn(move || done.send(File::open(path).map_err(|error| error.raw_os_error())));
    };
    open(UNANSWERED);
    assert!(host::wait::wait_until(DEADLINE, || dir.join("other").exists()));
    open(name);
    for _ in [UNANSWERED, name] {
        let error = ended.recv_timeout(DEADLINE).expect("it waits for ever").unwrap_err();
        assert!(matches!(error, Some(libc::ECONNABORTED | libc::ENOTCONN)), "{error:?}");
    }
    let pid = Pid::from_raw(pid as i32).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.terminating_signal(), Some(libc::SIGABRT));
    assert_eq!(File::open(&dir).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    if name != PANIC_UNLOGGED {
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(said.contains("panicking[") && said.contains(".rs:"), "{said}");
        assert!(said.contains(&format!("{why}; the daemon ends\n")), "{said}");
    }
    drop(mount);
    let again: io::Result<_> = std::fs::read_dir(&dir);
    assert!(again.is_ok());
}
