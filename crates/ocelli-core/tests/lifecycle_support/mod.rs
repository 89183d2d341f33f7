//! Futures that are polled by hand, names, seeded chance.
#![allow(dead_code)] // each test uses its own part

use ocelli_core::lifecycle::{Limits, Table};
use ocelli_core::{Destination, ReqId};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub const TTL: Duration = Duration::from_secs(10);

/// Stands for rows: who holds them is counted.
pub type Rows = Arc<u64>;

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that is polled only when it was woken: a lost wake-up is a future that never ends.
pub struct Task<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    counter: Arc<Counter>,
    /// Wake-ups that were answered by a poll; `None` before the first.
    seen: Option<usize>,
}

impl<T> Task<T> {
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future), counter: Arc::new(Counter(AtomicUsize::new(0))), seen: None }
    }

    /// Whether a runtime would poll it now.
    pub fn is_due(&self) -> bool {
        self.seen != Some(self.counter.0.load(Ordering::SeqCst))
    }

    pub fn poll_if_due(&mut self) -> Option<T> {
        if self.is_due() { self.poll() } else { None }
    }

    pub fn poll(&mut self) -> Option<T> {
        self.seen = Some(self.counter.0.load(Ordering::SeqCst));
        let waker = Waker::from(self.counter.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// Polls with another waker than before: the earlier one must not be needed any more.
    pub fn poll_with_a_new_waker(&mut self) -> Option<T> {
        self.counter = Arc::new(Counter(AtomicUsize::new(0)));
        self.poll()
    }
}

/// What a future says at its first poll.
pub fn at_once<T>(future: impl Future<Output = T> + Send + 'static) -> Option<T> {
    Task::new(future).poll()
}

/// Xorshift: the same seed, the same schedule.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

pub fn id(n: usize) -> ReqId {
    ReqId::new(&format!("r{n}")).expect("id")
}

pub fn destination(n: usize) -> Destination {
    Destination::new("10.0.0.1", 1000 + n as u16).expect("destination")
}

pub fn limits() -> Limits {
    Limits { max_requests: 3, metadata_ttl: TTL, max_early_waiters: 4, max_destinations: 3 }
}

pub fn table() -> Table<Rows> {
    Table::new(limits())
}
