//! `RUSTFLAGS="--cfg loom" cargo test -p ocelli-core --test 'loom_*'` (scripts/loom.sh)
//!
//! Rows are staged while somebody waits for them: the wait is woken and gets them.
#![cfg(loom)]

mod loom_support;

use loom::future::block_on;
use loom::thread;
use loom_support::{destination, id, table};
use std::time::Instant;

#[test]
fn a_fetch_that_races_with_staging_gets_the_rows() {
    loom::model(|| {
        let (table, now) = (table(), Instant::now());
        let guard = table.begin(&id(), now).expect("begins");
        let of_thread = table.clone();
        let fetching = thread::spawn(move || {
            let held = block_on(of_thread.send(&id(), destination(0), Some(1))).expect("rows");
            assert_eq!(held.rows(), Some(&7));
        });
        guard.stage(7).expect("stages");
        guard.keep();
        fetching.join().unwrap();
        assert_eq!(table.stats().entries, 0, "the last fetch releases");
    });
}
