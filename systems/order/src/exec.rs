//! Tasks: each is a future, polled when the world wakes it. One thread, no clock; the order of wake-ups decides all.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ssd::{Nanos, Token};

use crate::phases::Phase;
use crate::request::{Request, Verb};
use crate::sync::{Group, TaskId};
use crate::world::World;

type Job<'p> = Pin<Box<dyn Future<Output = ()> + 'p>>;

/// A simulation's world and its tasks, which may borrow what lives for `'p`.
pub(crate) struct Machine<'p> {
    world: RefCell<World>,
    jobs: RefCell<Vec<Option<Job<'p>>>>,
    /// Started since the last poll.
    started: RefCell<Vec<(TaskId, Job<'p>)>>,
}

impl<'p> Machine<'p> {
    pub(crate) fn new(world: World) -> Rc<Machine<'p>> {
        Rc::new(Machine { world: RefCell::new(world), jobs: RefCell::default(), started: RefCell::default() })
    }

    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut World) -> R) -> R {
        f(&mut self.world.borrow_mut())
    }

    /// A task begins now.
    pub(crate) fn start<F>(
        self: &Rc<Machine<'p>>,
        name: &'static str,
        pid: u32,
        kernel: bool,
        body: impl FnOnce(TaskHandle<'p>) -> F,
    ) where
        F: Future<Output = ()> + 'p,
    {
        let id = self.with(|w| w.add_task(name, pid, kernel));
        let job = Box::pin(body(TaskHandle { machine: self.clone(), id }));
        self.started.borrow_mut().push((id, job));
        self.with(|w| w.ready.push_back(id));
    }

    fn poll(&self, task: TaskId) {
        let i = task as usize;
        {
            let mut jobs = self.jobs.borrow_mut();
            for (id, job) in self.started.borrow_mut().drain(..) {
                let id = id as usize;
                if jobs.len() <= id {
                    jobs.resize_with(id + 1, || None);
                }
                jobs[id] = Some(job);
            }
        }
        let Some(mut job) = self.jobs.borrow_mut().get_mut(i).and_then(Option::take) else { return };
        let mut context = Context::from_waker(Waker::noop());
        if job.as_mut().poll(&mut context).is_pending() {
            self.jobs.borrow_mut()[i] = Some(job);
        } else {
            self.with(|w| w.cpu.leave(w.now, task));
        }
    }

    /// Lets everything happen up to and including `until`; false if nothing is left to happen.
    pub(crate) fn run(&self, until: Nanos) -> bool {
        loop {
            while let Some(task) = self.with(|w| w.ready.pop_front()) {
                self.poll(task);
            }
            match self.with(|w| w.next()) {
                None => return false,
                Some(t) if t > until => return true,
                Some(t) => self.with(|w| w.advance(t)),
            }
        }
    }

    /// Drops all tasks, and with them what they hold of the machine.
    pub(crate) fn stop(&self) {
        self.jobs.borrow_mut().clear();
        self.started.borrow_mut().clear();
    }

    /// Tasks that have not ended.
    pub(crate) fn alive(&self) -> usize {
        self.jobs.borrow().iter().filter(|j| j.is_some()).count()
    }
}

/// Registers the task somewhere at its first poll; whoever wakes it makes it ready.
struct Park<'a, 'p, F> {
    me: &'a TaskHandle<'p>,
    register: Option<F>,
}

impl<F: FnOnce(&mut World, TaskId) + Unpin> Future for Park<'_, '_, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.register.take() {
            Some(register) => {
                let me = self.me;
                me.machine.with(|w| register(w, me.id));
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

/// A task's handle on the world.
#[derive(Clone)]
pub(crate) struct TaskHandle<'p> {
    machine: Rc<Machine<'p>>,
    pub(crate) id: TaskId,
}

impl TaskHandle<'_> {
    /// Looks at or changes the world. Not across an await.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut World) -> R) -> R {
        self.machine.with(f)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.with(|w| w.now)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.with(|w| w.who[self.id as usize].pid)
    }

    /// What the journal thread did since the last call.
    pub(crate) fn was(&self, phase: Phase) {
        self.with(|w| w.phases.was(phase, w.now));
    }

    /// Computes.
    pub(crate) async fn compute(&self, ns: Nanos) {
        if ns > 0 {
            Park { me: self, register: Some(move |w: &mut World, id| w.compute(id, ns)) }.await;
        }
    }

    /// Passes time without a core.
    pub(crate) async fn sleep(&self, ns: Nanos) {
        let register = move |w: &mut World, id| {
            w.schedule_out(id);
            w.wake_at(w.now + ns, id);
        };
        Park { me: self, register: Some(register) }.await;
    }

    /// Sleeps until woken by whoever finds the task where `register` puts it.
    pub(crate) async fn park(&self, register: impl FnOnce(&mut World, TaskId) + Unpin) {
        let register = |w: &mut World, id| {
            w.schedule_out(id);
            register(w, id);
        };
        Park { me: self, register: Some(register) }.await;
        self.compute(self.with(|w| w.setup.costs.switch_ns)).await;
    }

    /// Waits until all requests of the group have ended.
    pub(crate) async fn wait(&self, group: &Rc<Group>) {
        while !group.is_done() {
            let group = group.clone();
            self.park(move |_, id| group.wait(id)).await;
        }
    }

    /// Sends requests through a plug list; with `barrier` its last request ends the epoch. Where commands carry an
    /// order, this returns when all have their ids.
    pub(crate) async fn send(&self, requests: Vec<Request>, barrier: bool) {
        let Some(first) = requests.first() else { return };
        let ordered = self.with(|w| w.awaits_dispatch());
        let end = Request::new(Verb::Barrier, self.id, 0, 0, Token::ZERO).ordered(first.stream, first.minor);
        let dispatched = Rc::new(Group::default());
        self.with(|w| w.block.plug(self.id));
        for mut request in requests {
            self.compute(self.with(|w| w.setup.costs.submit_ns)).await;
            if ordered {
                dispatched.add();
                request.on_dispatch.push(dispatched.clone());
            }
            self.with(|w| w.bio(request));
        }
        let late = Request { on_dispatch: vec![dispatched.clone()], groups: vec![self.tracked()], ..end };
        self.with(|w| w.unplug(late, barrier));
        self.wait(&dispatched).await;
    }

    /// A group that the task's exit waits for.
    pub(crate) fn tracked(&self) -> Rc<Group> {
        let group = Rc::new(Group::default());
        self.track(&group);
        group
    }

    /// The task's exit waits for this group.
    pub(crate) fn track(&self, group: &Rc<Group>) {
        self.with(|w| {
            let of = &mut w.outstanding[self.id as usize];
            of.retain(|g| !g.is_done());
            of.push(group.clone());
        });
    }

    /// Ends the open epoch of `stream` (of the device's only one, where there are none), if it has one, by a barrier of
    /// its own.
    pub(crate) async fn end_epoch(&self, stream: u32, minor: Option<u32>) {
        if self.with(|w| w.block.epoch_open || w.block.counters.is_open(stream)) {
            let end = Request::new(Verb::Barrier, self.id, 0, 0, Token::ZERO).ordered(Some(stream), minor);
            let end = end.waited(&self.tracked());
            let dispatched = Rc::new(Group::default());
            dispatched.add();
            let request = Request { barrier: true, on_dispatch: vec![dispatched.clone()], ..end };
            self.with(|w| w.bio(request));
            self.wait(&dispatched).await;
        }
    }

    /// Sends a request through the kernel's worker, as flushes and FUA writes are, and waits for it.
    pub(crate) async fn send_by_worker(&self, mut request: Request) {
        let group = Rc::new(Group::default());
        self.sleep(self.with(|w| w.setup.costs.wake_delay_ns + w.setup.costs.worker_ns)).await;
        request.task = crate::world::WORKER;
        let request = request.waited(&group);
        self.with(|w| {
            w.who[crate::world::WORKER as usize].core = w.who[self.id as usize].core;
            w.bio(request);
        });
        self.wait(&group).await;
    }

    /// Flushes the device: all that has completed, or (tagged) the epochs that `stream` has ended.
    pub(crate) async fn flush(&self, stream: Option<u32>) {
        let request = Request::new(Verb::Flush, self.id, 0, 0, Token::ZERO).ordered(stream, None);
        self.send_by_worker(request).await;
    }
}
