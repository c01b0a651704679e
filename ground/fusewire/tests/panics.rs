//! A daemon whose thread panics: nobody waits for its answers for ever, and the log says why.
//!
//! This program is its own daemon (hence no test harness).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use fusewire::local::{self, MountPoint};
use fusewire::wire::{Attr, Entry, Operation, Request};
use fusewire::{Answered, DeferredReply, FileSystem, Reply, Transport, force_unmount};
use needs::{Case, Need};
use rustix::mount::MountFlags;
use rustix::process::{Pid, WaitOptions, waitpid};

const DAEMON: &str = "panicking-daemon";
/// Far more than anything takes, on the slowest machine: it ends what hangs.
const DEADLINE: Duration = Duration::from_secs(600);
/// The name whose lookup is answered by nobody, and the one at which the thread panics.
const UNANSWERED: &str = "unanswered";
const PANIC: &str = "panic";

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

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [hidden, dir, transport, log] = &args[..]
        && hidden == DAEMON
    {
        return daemon(Path::new(dir), transport, Path::new(log));
    }
    let mount = vec![Need::Root, Need::Mounts, Need::Fuse];
    let rings = [mount.clone(), vec![Need::Rings]].concat();
    let cases = [(Transport::Classic, mount), (Transport::Uring, rings)].map(|(transport, needs)| {
        let run =
            move || std::panic::catch_unwind(|| a_panic_ends_the_daemon_and_all_waiting(transport)).is_ok();
        Case::new(format!("a_panic_ends_the_daemon_and_all_waiting::{}", transport.name()), &needs, run)
    });
    needs::run(env!("CARGO_PKG_NAME"), "panics", cases.into())
}

/// Taken away, whatever happens.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = force_unmount(&self.0);
    }
}

fn a_panic_ends_the_daemon_and_all_waiting(transport: Transport) {
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
    open(PANIC);
    for _ in [UNANSWERED, PANIC] {
        let error = ended.recv_timeout(DEADLINE).expect("it waits for ever").unwrap_err();
        assert!(matches!(error, Some(libc::ECONNABORTED | libc::ENOTCONN)), "{error:?}");
    }
    let pid = Pid::from_raw(pid as i32).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(status.terminating_signal(), Some(libc::SIGABRT));
    assert_eq!(File::open(&dir).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("panicking[") && said.contains("panics.rs:"), "{said}");
    assert!(said.contains("planted in two lines; the daemon ends\n"), "{said}");
    drop(mount);
    let again: io::Result<_> = std::fs::read_dir(&dir);
    assert!(again.is_ok());
}
