//! A table, names, and a way to run a future on a loom thread.
#![allow(dead_code)] // each race uses its own part

use loom::sync::{Condvar, Mutex};
use ocelli_core::lifecycle::{Limits, Table};
use ocelli_core::{Destination, ReqId};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A thread that sleeps until it is woken. loom's own `block_on` takes a late wake-up of a future that
/// has ended for an error; wakers may be called late.
struct Parked {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let parked = Arc::new(Parked { woken: Mutex::new(false), changed: Condvar::new() });
    let waker = Waker::from(parked.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        let mut woken = parked.woken.lock().unwrap();
        while !*woken {
            woken = parked.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

pub const TTL: Duration = Duration::from_secs(10);

pub fn table() -> Table<u32> {
    Table::new(Limits { max_requests: 2, metadata_ttl: TTL, max_early_waiters: 4, max_destinations: 4 })
}

pub fn id() -> ReqId {
    ReqId::new("r").expect("id")
}

pub fn destination(n: u16) -> Destination {
    Destination::new("10.0.0.1", 1000 + n).expect("destination")
}
