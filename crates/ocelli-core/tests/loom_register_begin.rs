//! `RUSTFLAGS="--cfg loom" cargo test --release -p ocelli-core --test 'loom_*'` (scripts/loom.sh)
//!
//! A registration and its encode come at the same time: whichever is first, the encode is told of the
//! destination and the registration ends well.
#![cfg(loom)]

mod loom_support;

use loom::thread;
use loom_support::{block_on, destination, id, table};
use std::time::Instant;

#[test]
fn a_registration_that_races_with_its_encode_is_told() {
    loom::model(|| {
        let (table, now) = (table(), Instant::now());
        let of_thread = table.clone();
        // asserts where it runs: loom's join takes a late wake-up of this thread for an error
        thread::spawn(move || assert_eq!(block_on(of_thread.register(&id(), destination(0), 1, now)), Ok(())));
        let guard = table.begin(&id(), now).expect("begins");
        assert_eq!(block_on(guard.next_destination()), Some(destination(0)));
        assert_eq!(block_on(guard.next_destination()), None);
        drop(guard);
        assert_eq!(table.stats().entries, 0);
    });
}
