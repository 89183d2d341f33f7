//! The thread that owns all sockets: takes commands, hands messages over, hears what has landed, keeps
//! time. It waits in one place, the poll at the end of a turn.

use super::endpoint::{Caller, Endpoint, GivenUp, Job};
use super::frame::this_thread_owns_sockets;
use super::landing::Landing;
use super::stats::{Counters, add};
use super::{ZmqOptions, sndbuf};
use crate::DeliveryError;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What callers ask of the owner.
pub(super) enum Command {
    /// Send this.
    Send(Job),
    /// Finish until the deadline, then answer.
    Close { deadline: Instant, reply: oneshot::Sender<()> },
    /// Nobody is left who could ask for anything.
    Abandon,
}

/// How often queues are searched for messages that nobody waits for any more.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// The owner thread's state.
pub(super) struct Owner {
    options: ZmqOptions,
    inbox: Receiver<Command>,
    landing: Arc<Landing>,
    counters: Arc<Counters>,
    context: zmq::Context,
    endpoints: HashMap<SocketAddr, Endpoint>,
    /// Rises with every try to hand a message over.
    numbers: u64,
    next_housekeeping: Instant,
    closing: Option<Instant>,
    waiting_for_close: Vec<oneshot::Sender<()>>,
}

impl Owner {
    pub(super) fn new(
        mut options: ZmqOptions,
        inbox: Receiver<Command>,
        landing: Arc<Landing>,
        counters: Arc<Counters>,
    ) -> Result<Self, DeliveryError> {
        options.sndbuf_bytes = options.sndbuf_bytes.or_else(|| Some(sndbuf::for_this_host()));
        options.max_endpoints = options.max_endpoints.clamp(1, ZmqOptions::MOST_ENDPOINTS);
        Ok(Self {
            options,
            inbox,
            landing,
            counters,
            context: zmq::Context::new(),
            endpoints: HashMap::new(),
            numbers: 0,
            next_housekeeping: Instant::now() + HOUSEKEEPING,
            closing: None,
            waiting_for_close: Vec::new(),
        })
    }

    pub(super) fn run(mut self) {
        this_thread_owns_sockets();
        while self.turn().is_continue() {}
        self.shut();
    }

    fn turn(&mut self) -> ControlFlow<()> {
        self.landing.heard();
        let now = Instant::now();
        self.land(now);
        self.obey(now)?;
        self.expire(now);
        self.flush(now);
        self.retire_idle(now);
        self.show();
        if self.closing.is_some_and(|deadline| deadline <= now || self.endpoints.values().all(Endpoint::is_idle)) {
            return ControlFlow::Break(());
        }
        self.wait(now)
    }

    /// Tells callers what libzmq has let go of.
    fn land(&mut self, now: Instant) {
        let mut landed = self.landing.take();
        let broken: HashSet<SocketAddr> = landed.iter().filter(|l| l.lost).map(|l| l.ticket.address).collect();
        for address in &broken {
            // libzmq frees a frame that was cut in the middle as if it had been sent. It is the last
            // one before those that were lost whole.
            let cut = landed.iter_mut().rev().find(|l| !l.lost && l.ticket.address == *address);
            cut.into_iter().for_each(|l| l.lost = true);
        }
        for l in landed.iter().filter(|l| !l.lost) {
            let endpoint = self.endpoints.get_mut(&l.ticket.address);
            if let Some(caller) = endpoint.and_then(|endpoint| endpoint.landed(l.ticket.number, now)) {
                // counted first, here and everywhere, so that whoever hears of it finds it counted
                add(&self.counters.sent, 1);
                caller.hear(Ok(()));
            }
        }
        for address in broken {
            // a try that was taken back is freed here too; only messages in flight can be lost
            if self.endpoints.get(&address).is_some_and(|endpoint| endpoint.in_flight() > 0) {
                self.renew(address, &DeliveryError::ConnectionLost, now);
            }
        }
    }

    fn obey(&mut self, now: Instant) -> ControlFlow<()> {
        loop {
            match self.inbox.try_recv() {
                Ok(Command::Send(job)) => self.accept(job, now),
                Ok(Command::Close { deadline, reply }) => {
                    self.closing = Some(self.closing.map_or(deadline, |earlier| earlier.min(deadline)));
                    self.waiting_for_close.push(reply);
                }
                Ok(Command::Abandon) | Err(TryRecvError::Disconnected) => return ControlFlow::Break(()),
                Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
            }
        }
    }

    fn accept(&mut self, job: Job, now: Instant) {
        match self.endpoint(job.address, now) {
            Ok(endpoint) => endpoint.push(job),
            Err(why) => self.fail(vec![job.caller], &why),
        }
    }

    /// The endpoint of an address, with room for one more message.
    fn endpoint(&mut self, address: SocketAddr, now: Instant) -> Result<&mut Endpoint, DeliveryError> {
        if !self.endpoints.contains_key(&address) {
            if self.endpoints.len() >= self.options.max_endpoints {
                self.make_room()?;
            }
            let endpoint = Endpoint::open(&self.context, address, &self.options, now)?;
            add(&self.counters.sockets, 1);
            self.endpoints.insert(address, endpoint);
        }
        let limit = self.options.endpoint_capacity;
        match self.endpoints.get_mut(&address) {
            Some(endpoint) if endpoint.queued() + endpoint.in_flight() < limit => Ok(endpoint),
            _ => Err(DeliveryError::QueueFull { limit, one_destination: true }),
        }
    }

    /// Closes the socket that has been idle for longest.
    fn make_room(&mut self) -> Result<(), DeliveryError> {
        let idle = self.endpoints.iter().filter(|(_, endpoint)| endpoint.is_idle());
        let oldest = idle.min_by_key(|(_, endpoint)| endpoint.last_used()).map(|(address, _)| *address);
        let oldest = oldest.and_then(|address| self.endpoints.remove(&address));
        oldest.map(Endpoint::retire).ok_or(DeliveryError::TooManyEndpoints(self.options.max_endpoints))
    }

    fn expire(&mut self, now: Instant) {
        let (mut expired, mut stuck, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        for (address, endpoint) in &mut self.endpoints {
            let before = expired.len();
            expired.append(&mut endpoint.expired(now));
            if endpoint.is_stuck(now) {
                stuck.push(*address);
            } else if expired.len() > before && endpoint.is_idle() {
                // it never connected: the next message starts afresh
                dead.push(*address);
            }
        }
        self.time_out(expired);
        stuck.into_iter().for_each(|address| self.renew(address, &DeliveryError::ConnectionLost, now));
        dead.iter().for_each(|address| drop(self.endpoints.remove(address)));
    }

    /// Gives up a socket with all that libzmq has of it; what still waits gets a new one.
    fn renew(&mut self, address: SocketAddr, why: &DeliveryError, now: Instant) {
        let Some(endpoint) = self.endpoints.remove(&address) else { return };
        let GivenUp { queue, timed_out, lost } = endpoint.give_up(now);
        self.time_out(timed_out);
        self.fail(lost, why);
        if queue.is_empty() {
            return;
        }
        match Endpoint::open(&self.context, address, &self.options, now) {
            Ok(mut endpoint) => {
                add(&self.counters.sockets, 1);
                queue.into_iter().for_each(|job| endpoint.push(job));
                self.endpoints.insert(address, endpoint);
            }
            Err(why) => self.fail(callers(queue), &why),
        }
    }

    fn flush(&mut self, now: Instant) {
        let tidy = now >= self.next_housekeeping;
        if tidy {
            self.next_housekeeping = now + HOUSEKEEPING;
        }
        let mut unusable = Vec::new();
        for (address, endpoint) in self.endpoints.iter_mut().filter(|(_, endpoint)| endpoint.queued() > 0) {
            match endpoint.flush(&mut self.numbers, &self.landing, now) {
                Ok(skipped) => add(&self.counters.skipped, skipped as u64),
                Err(why) => unusable.push((*address, why)),
            }
            if tidy {
                add(&self.counters.skipped, endpoint.skip_abandoned() as u64);
            }
        }
        for (address, why) in unusable {
            self.renew(address, &why, now);
        }
    }

    fn retire_idle(&mut self, now: Instant) {
        let limit = self.options.idle_timeout;
        let rested = |e: &Endpoint| e.is_idle() && now.saturating_duration_since(e.last_used()) >= limit;
        self.endpoints.extract_if(|_, endpoint| rested(endpoint)).for_each(|(_, endpoint)| endpoint.retire());
    }

    fn wait(&self, now: Instant) -> ControlFlow<()> {
        let idle_ends = |e: &Endpoint| e.is_idle().then(|| e.last_used() + self.options.idle_timeout);
        let times = self.endpoints.values().flat_map(|e| e.next_deadline().into_iter().chain(idle_ends(e)));
        let times = times.chain(self.closing);
        let waiting = self.endpoints.values().any(|e| e.queued() > 0);
        let next = times.chain(waiting.then_some(self.next_housekeeping)).min();
        let timeout_ms = next.map_or(-1, |at| {
            // rounded up, so that the time has come when we wake
            i64::try_from(at.saturating_duration_since(now).as_micros().div_ceil(1000)).unwrap_or(i64::MAX)
        });
        let mut items = vec![zmq::PollItem::from_fd(self.landing.fd(), zmq::POLLIN)];
        items.extend(self.endpoints.values().filter_map(Endpoint::poll_item));
        match zmq::poll(&mut items, timeout_ms) {
            Ok(_) | Err(zmq::Error::EINTR) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Fails what is left and closes everything.
    fn shut(mut self) {
        let now = Instant::now();
        for (_, endpoint) in std::mem::take(&mut self.endpoints) {
            if endpoint.is_idle() {
                endpoint.retire();
                continue;
            }
            let GivenUp { queue, timed_out, lost } = endpoint.give_up(now);
            self.time_out(timed_out);
            self.fail(lost, &DeliveryError::Closed);
            self.fail(callers(queue), &DeliveryError::Closed);
        }
        self.show();
        let Self { context, waiting_for_close, .. } = self;
        // waits for lingering sockets, at most for their linger time
        drop(context);
        for reply in waiting_for_close {
            let _ = reply.send(());
        }
    }

    fn fail(&self, callers: Vec<Caller>, why: &DeliveryError) {
        add(&self.counters.failed, callers.len() as u64);
        callers.into_iter().for_each(|caller| caller.hear(Err(why.clone())));
    }

    fn time_out(&self, callers: Vec<Caller>) {
        add(&self.counters.timed_out, callers.len() as u64);
        self.fail(callers, &DeliveryError::TimedOut(self.options.send_timeout));
    }

    fn show(&self) {
        let sum = |of: fn(&Endpoint) -> usize| self.endpoints.values().map(of).sum::<usize>() as u64;
        self.counters.endpoints.store(self.endpoints.len() as u64, Relaxed);
        self.counters.queued.store(sum(Endpoint::queued), Relaxed);
        self.counters.in_flight.store(sum(Endpoint::in_flight), Relaxed);
    }
}

fn callers(queue: VecDeque<Job>) -> Vec<Caller> {
    queue.into_iter().map(|job| job.caller).collect()
}
