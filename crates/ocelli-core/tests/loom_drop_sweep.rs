//! `RUSTFLAGS="--cfg loom" cargo test -p ocelli-core --test 'loom_*'` (scripts/loom.sh)
//!
//! A guard is dropped while the sweep looks: the entry goes once, and waiters are told.
#![cfg(loom)]

mod loom_support;

use loom::future::block_on;
use loom::thread;
use loom_support::{TTL, id, table};
use std::future::Future;
use std::task::{Context, Waker};
use std::time::Instant;

#[test]
fn a_guard_that_is_dropped_during_a_sweep_leaves_nothing() {
    loom::model(|| {
        let (table, now) = (table(), Instant::now());
        let guard = table.begin(&id(), now).expect("begins");
        // it waits already, and is polled by another waker from now on
        let mut sizes = Box::pin(table.sizes(&id()));
        assert!(sizes.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let waiting = thread::spawn(move || block_on(sizes));
        let of_sweep = table.clone();
        let sweeping = thread::spawn(move || of_sweep.sweep(now + TTL).len());
        drop(guard);
        assert_eq!(sweeping.join().unwrap(), 0, "what a guard holds is not swept");
        assert!(waiting.join().unwrap().is_err());
        let stats = table.stats();
        assert_eq!((stats.entries, stats.early_waiters), (0, 0));
    });
}
