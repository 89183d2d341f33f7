//! `RUSTFLAGS="--cfg loom" cargo test -p ocelli-core --test 'loom_*'` (scripts/loom.sh)
//!
//! A registration and its encode come at the same time: whichever is first, the encode is told of the
//! destination and the registration ends well.
#![cfg(loom)]

mod loom_support;

use loom::future::block_on;
use loom::thread;
use loom_support::{destination, id, table};
use std::time::Instant;

#[test]
fn a_registration_that_races_with_its_encode_is_told() {
    loom::model(|| {
        let (table, now) = (table(), Instant::now());
        let of_thread = table.clone();
        let registering = thread::spawn(move || block_on(of_thread.register(&id(), destination(0), 1, now)));
        let guard = table.begin(&id(), now).expect("begins");
        assert_eq!(block_on(guard.next_destination()), Some(destination(0)));
        assert_eq!(block_on(guard.next_destination()), None);
        assert_eq!(registering.join().unwrap(), Ok(()));
        drop(guard);
        let stats = table.stats();
        assert_eq!((stats.entries, stats.early_waiters), (0, 0));
    });
}
