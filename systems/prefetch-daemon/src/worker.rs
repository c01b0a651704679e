//! The threads that ask the kernel: asking may wait for a full device queue, and events must not wait for that.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use prefetch::Request;
use prefetch_os::ask::{Done, fetch, issue};
use prefetch_os::{Kernel, sys};

use crate::table::Ticket;

/// Requests that may wait for the thread; more are claimed later.
pub const QUEUE_MAX: usize = 1024;

/// Something to ask of the kernel.
#[derive(Debug)]
struct Job {
    ticket: Ticket,
    file: Arc<File>,
    request: Request,
    call_bytes: u64,
    /// Ask first whether it is there.
    ask: bool,
    /// The file's size when it is to be waited for.
    wait: Option<u64>,
}

/// What became of a request.
#[derive(Debug)]
pub struct Answer {
    /// Whose it was.
    pub ticket: Ticket,
    /// The request.
    pub request: Request,
    /// What the kernel said.
    pub done: Done,
    /// How long a step of fetching took, and what it had of a processor, ns; `None` for prefetching ahead.
    pub fetched_ns: Option<(u64, u64)>,
}

/// Two threads: one prefetches ahead and never waits for data, one fetches files step by step.
#[derive(Debug)]
pub struct Workers {
    ahead: Sender<Job>,
    steps: Sender<Job>,
    queued: Arc<AtomicUsize>,
    answers: Receiver<Answer>,
}

impl Workers {
    /// Starts them. `bell` is written to for each step that was fetched.
    ///
    /// # Errors
    /// When the system makes no thread.
    pub fn start(bell: OwnedFd) -> std::io::Result<Workers> {
        let (answer, answers) = channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let ahead = worker("ll-ahead", answer.clone(), Arc::clone(&queued), None)?;
        let steps = worker("ll-fetch", answer, Arc::clone(&queued), Some(bell))?;
        Ok(Workers { ahead, steps, queued, answers })
    }

    /// Whether the queue takes more.
    pub fn has_room(&self) -> bool {
        self.queued.load(Relaxed) < QUEUE_MAX
    }

    /// Prefetches a range.
    pub fn ahead(&self, ticket: Ticket, file: Arc<File>, request: Request, call_bytes: u64, ask: bool) {
        self.queued.fetch_add(1, Relaxed);
        let _ = self.ahead.send(Job { ticket, file, request, call_bytes, ask, wait: None });
    }

    /// Fetches a range of a file of a size and waits for it.
    pub fn fetch(&self, ticket: Ticket, file: Arc<File>, request: Request, call_bytes: u64, size: u64) {
        self.queued.fetch_add(1, Relaxed);
        let _ = self.steps.send(Job { ticket, file, request, call_bytes, ask: true, wait: Some(size) });
    }

    /// What has been done since the last time.
    pub fn answers(&self) -> impl Iterator<Item = Answer> + '_ {
        self.answers.try_iter()
    }
}

/// A thread that ends when its queue is dropped. Files are closed here once nobody needs them.
fn worker(
    name: &str,
    answers: Sender<Answer>,
    queued: Arc<AtomicUsize>,
    bell: Option<OwnedFd>,
) -> std::io::Result<Sender<Job>> {
    let (sender, jobs) = channel::<Job>();
    let body = move || {
        let kernel = Kernel::new();
        for job in jobs {
            let fd = job.file.as_raw_fd();
            let (done, fetched_ns) = match job.wait {
                Some(size) => {
                    let begin_ns = sys::thread_ns();
                    let (done, ns) = fetch(&kernel, fd, job.request, job.call_bytes, size);
                    (done, Some((ns, sys::thread_ns().saturating_sub(begin_ns))))
                }
                None => (issue(&kernel, fd, job.request, job.call_bytes, job.ask), None),
            };
            queued.fetch_sub(1, Relaxed);
            let (ticket, request) = (job.ticket, job.request);
            drop(job.file);
            if answers.send(Answer { ticket, request, done, fetched_ns }).is_err() {
                return;
            }
            if let Some(bell) = &bell {
                let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
            }
        }
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
    Ok(sender)
}
