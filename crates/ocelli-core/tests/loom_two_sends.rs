//! `RUSTFLAGS="--cfg loom" cargo test -p ocelli-core --test 'loom_*'` (scripts/loom.sh)
//!
//! Two sends end while the encode is released: the last of the three takes the entry with it.
#![cfg(loom)]

mod loom_support;

use loom::thread;
use loom_support::{destination, id, table};
use std::time::Instant;

#[test]
fn the_last_of_two_sends_and_an_encode_releases_the_entry() {
    loom::model(|| {
        let (table, now) = (table(), Instant::now());
        let guard = table.begin(&id(), now).expect("begins");
        guard.stage(7).expect("stages");
        let (one, two) = (guard.begin_send(&destination(0)), guard.begin_send(&destination(1)));
        let ends = [thread::spawn(move || drop(one)), thread::spawn(move || drop(two))];
        guard.release();
        ends.into_iter().for_each(|end| end.join().unwrap());
        assert_eq!(table.stats().entries, 0);
        assert!(table.begin(&id(), now).is_ok(), "the id is free again");
    });
}
