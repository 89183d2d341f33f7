//! The life cycle by name: each weak point and field case that lives in the table, as a test.
#![allow(clippy::expect_used, clippy::panic)] // helpers of tests are tests

mod lifecycle_support;

use lifecycle_support::{Rows, TTL, Task, at_once, destination, id, limits, table};
use ocelli_core::lifecycle::{EncodeGuard, Limits, SendGuard, Sizes, Stats, SweptPhase, Table};
use ocelli_core::{Destination, Fault, Reason};
use std::sync::Arc;
use std::time::Instant;

fn begin(table: &Table<Rows>, n: usize) -> EncodeGuard<Rows> {
    table.begin(&id(n), Instant::now()).expect("begins")
}

fn register(table: &Table<Rows>, n: usize, to: usize, count: u32) -> Task<Result<(), Fault>> {
    Task::new(table.register(&id(n), destination(to), count, Instant::now()))
}

fn reason<T>(answer: Option<Result<T, Fault>>) -> Option<Reason> {
    answer.and_then(Result::err).map(|fault| fault.reason)
}

fn next(guard: &EncodeGuard<Rows>) -> Option<Option<Destination>> {
    at_once(guard.next_destination())
}

/// P1, at the table: 200 encodes begin, their destinations register only then; an early registration that
/// is for none of them finds room beside all that wait.
#[test]
fn two_hundred_registrations_after_two_hundred_encodes_are_all_told() {
    let table: Table<Rows> = Table::new(Limits { max_requests: 200, ..limits() });
    let guards: Vec<_> = (0..200).map(|n| begin(&table, n)).collect();
    assert_eq!(reason(Some(table.begin(&id(200), Instant::now()))), Some(Reason::Overloaded));
    let mut told: Vec<_> = guards.iter().map(|guard| Task::new(guard.next_destination())).collect();
    assert!(told.iter_mut().all(|next| next.poll().is_none()));
    assert_eq!(register(&table, 999, 0, 1).poll(), None, "encodes that wait for destinations use no early room");
    for (n, next) in told.iter_mut().enumerate() {
        assert_eq!(register(&table, n, 0, 1).poll(), Some(Ok(())));
        assert_eq!(next.poll_if_due(), Some(Some(destination(0))));
    }
    assert!(guards.iter().all(|guard| next(guard) == Some(None)));
    drop(guards);
    assert_eq!(table.stats(), Stats::default());
}

/// Q12: a burst meets the limit; whoever is let in is not disturbed, and an end makes room for one more.
#[test]
fn a_burst_beyond_the_limit_is_overload_and_room_comes_back() {
    let table = table();
    let mut begun: Vec<_> = (0..1000).filter_map(|n| table.begin(&id(n), Instant::now()).ok()).collect();
    assert_eq!(begun.len(), limits().max_requests);
    begun.pop();
    assert!(table.begin(&id(5000), Instant::now()).is_ok());
}

/// Weakness 23: a registration that overtakes its encode waits for it, and is then told.
#[test]
fn a_registration_that_comes_before_its_encode_waits_for_it() {
    let table = table();
    let mut early = register(&table, 1, 0, 2);
    assert_eq!((early.poll(), table.stats().early_waiters), (None, 1));
    let guard = begin(&table, 1);
    assert!(early.is_due(), "the encode wakes it");
    assert_eq!(early.poll(), Some(Ok(())));
    assert_eq!(table.stats().early_waiters, 0);
    assert_eq!(guard.expected_destinations(), Some(2));
    assert_eq!(next(&guard), Some(Some(destination(0))));
    let mut more = Task::new(guard.next_destination());
    assert_eq!(more.poll(), None, "one of two is missing");
    assert_eq!(register(&table, 1, 1, 2).poll(), Some(Ok(())));
    assert_eq!(more.poll_if_due(), Some(Some(destination(1))));
}

/// Weakness 18: waits for ids that never come are bounded, and leave nothing when they are dropped.
#[test]
fn waits_for_ids_that_never_come_are_bounded_and_leave_nothing() {
    let table = table();
    let mut waits: Vec<_> = (0..limits().max_early_waiters).map(|n| Task::new(table.sizes(&id(n)))).collect();
    assert!(waits.iter_mut().all(|wait| wait.poll().is_none()));
    let refused = register(&table, 99, 0, 1).poll().and_then(Result::err).expect("refused at once");
    assert_eq!(refused.reason, Reason::Overloaded);
    assert!(refused.message.contains("--max-pending-requests"), "{refused}");
    waits.pop();
    assert_eq!(register(&table, 99, 0, 1).poll(), None, "one that gave up makes room");
    drop(waits);
    assert_eq!(table.stats(), Stats::default());
}

/// Weakness 18: thousands of ids that each wait, give up and never come again.
#[test]
fn ids_that_gave_up_are_not_remembered() {
    let table = table();
    for n in 0..10_000 {
        assert_eq!(Task::new(table.sizes(&id(n))).poll(), None);
    }
    assert_eq!(table.stats(), Stats::default());
}

/// Weakness 20: an encode that was refused at the door tells who waits for it and who comes after.
#[test]
fn waiters_of_a_refused_encode_are_told_why_at_once() {
    let table = table();
    let mut early = register(&table, 1, 0, 1);
    assert_eq!(early.poll(), None);
    table.refuse(&id(1), Fault::new(Reason::Overloaded, "full"));
    assert_eq!(reason(early.poll_if_due()), Some(Reason::Overloaded));
    assert_eq!(reason(register(&table, 1, 1, 1).poll()), Some(Reason::Overloaded), "and those who come late");
    let _guard = begin(&table, 1);
    assert_eq!(register(&table, 1, 0, 1).poll(), Some(Ok(())), "the id can be tried again");
}

/// Q12: an active id is not begun twice; after its end it is free, and a late registration is told at once
/// instead of waiting for the time-out. What ended is remembered for a bounded time.
#[test]
fn an_ended_id_is_known_for_a_while_and_free() {
    let (table, now) = (table(), Instant::now());
    let guard = table.begin(&id(1), now).expect("begins");
    assert_eq!(reason(Some(table.begin(&id(1), now))), Some(Reason::DuplicateRequest));
    drop(guard);
    let late = register(&table, 1, 0, 1).poll().and_then(Result::err).expect("told at once");
    assert_eq!((late.reason, late.message.as_str()), (Reason::NotActive, "Encoder request is not active: r1"));
    drop(table.begin(&id(1), now).expect("the id is free"));
    table.sweep(now + TTL * 2);
    assert_eq!(register(&table, 1, 0, 1).poll(), None, "long after it is an id like any other");
}

#[test]
fn ranks_that_disagree_about_their_number_are_told_with_both_numbers() {
    let table = table();
    let _guard = begin(&table, 1);
    let register = |to: usize, count: u32| register(&table, 1, to, count).poll().expect("at once");
    assert_eq!(register(0, 2), Ok(()));
    assert_eq!(register(0, 2), Ok(()), "a repeat is harmless");
    let message = register(1, 3).unwrap_err().message;
    assert_eq!(message, "Inconsistent receive_count for req_id=r1: registered 2, got 3");
    assert_eq!(register(1, 2), Ok(()));
    assert_eq!(register(2, 2).unwrap_err().reason, Reason::InconsistentReceiveCount);
    assert_eq!(register(0, 5).unwrap_err().reason, Reason::BadRequest, "more than there may be");
}

/// Q2: destinations that register after the encode failed are told to it all the same, so that it can
/// tell them why.
#[test]
fn a_failed_encode_is_told_of_its_destinations_and_its_waiters_of_the_fault() {
    let table = table();
    let guard = begin(&table, 1);
    let mut sizes = Task::new(table.sizes(&id(1)));
    let mut send = Task::new(table.send(&id(1), destination(0), Some(1)));
    assert!(sizes.poll().is_none() && send.poll().is_none());
    guard.fail(Fault::new(Reason::MediaUndecodable, "broken"), Instant::now());
    assert_eq!(reason(sizes.poll_if_due()), Some(Reason::MediaUndecodable));
    assert_eq!(reason(send.poll_if_due()), Some(Reason::MediaUndecodable));
    assert_eq!(register(&table, 1, 0, 1).poll(), Some(Ok(())));
    assert_eq!(next(&guard), Some(Some(destination(0))));
    assert!(guard.begin_send(&destination(0)).rows().is_none(), "what is sent is the fault");
    assert_eq!(next(&guard), Some(None));
}

/// A second try under the id of a failed encode begins at once; whom the first had no time to tell, the
/// second owes. (No request is lost silently.)
#[test]
fn a_failed_encode_gives_way_and_hands_over_whom_it_did_not_tell() {
    let table = table();
    let first = begin(&table, 1);
    assert_eq!(register(&table, 1, 0, 2).poll(), Some(Ok(())));
    assert_eq!(register(&table, 1, 1, 2).poll(), Some(Ok(())));
    assert_eq!(next(&first), Some(Some(destination(0))));
    first.fail(Fault::new(Reason::Engine, "broken"), Instant::now());
    let second = begin(&table, 1);
    assert_eq!(next(&first), Some(None));
    assert_eq!(next(&second), Some(Some(destination(1))));
    assert_eq!(first.stage(Arc::new(1)).unwrap_err().reason, Reason::NotActive);
    drop(first);
    assert_eq!(table.stats().entries, 1, "the end of the first does not touch the second");
    assert_eq!(register(&table, 1, 0, 2).poll(), Some(Ok(())), "who was told of the fault may ask again");
    assert_eq!(next(&second), Some(Some(destination(0))));
}

/// Q10, Q11: a client that goes away at any stage drops its guard: nothing is left, and whoever waits is told.
#[test]
fn an_encode_that_is_cancelled_at_any_stage_leaves_nothing() {
    let (table, now, rows) = (table(), Instant::now(), Arc::new(7));
    for stage in 0..4 {
        let guard = begin(&table, stage);
        let mut sizes = Task::new(table.sizes(&id(stage)));
        let mut send = Task::new(table.send(&id(stage), destination(0), None));
        let mut next = Task::new(guard.next_destination());
        assert!(sizes.poll().is_none() && send.poll().is_none() && next.poll().is_none());
        if stage > 0 {
            guard.publish_sizes(Sizes { rows: 1, dim: 1, bytes: 4 }, now);
            assert!(sizes.poll_if_due().is_some_and(|sizes| sizes.is_ok()));
        }
        if stage > 1 {
            guard.stage(rows.clone()).expect("stages");
        }
        if stage > 2 {
            drop(send.poll_if_due());
        }
        drop(guard);
        assert_eq!(next.poll_if_due(), Some(None), "stage {stage}");
        assert!(stage > 0 || reason(sizes.poll_if_due()) == Some(Reason::NotActive), "stage {stage}");
        assert!(stage > 2 || reason(send.poll_if_due()) == Some(Reason::NotActive), "stage {stage}");
        assert_eq!((table.stats(), Arc::strong_count(&rows)), (Stats::default(), 1), "stage {stage}");
    }
}

/// Release is asked for while sends go on: it is done when the last of them ends, and nothing new begins.
#[test]
fn rows_live_until_the_last_send_ends() {
    let (table, rows) = (table(), Arc::new(7));
    let guard = begin(&table, 1);
    guard.stage(rows.clone()).expect("stages");
    let (one, two) = (guard.begin_send(&destination(0)), guard.begin_send(&destination(1)));
    guard.release();
    assert_eq!(reason(register(&table, 1, 2, 3).poll()), Some(Reason::NotActive), "it is being released");
    assert_eq!(reason(Some(table.begin(&id(1), Instant::now()))), Some(Reason::DuplicateRequest));
    drop(one);
    assert_eq!((table.stats().entries, table.stats().active_sends), (1, 1));
    assert_eq!(two.rows().map(|rows| **rows), Some(7));
    drop(two);
    assert_eq!((table.stats(), Arc::strong_count(&rows)), (Stats::default(), 1));
}

fn keep(table: &Table<Rows>, n: usize, now: Instant) {
    let guard = table.begin(&id(n), now).expect("begins");
    guard.publish_sizes(Sizes { rows: 1, dim: 1, bytes: 4 }, now);
    guard.stage(Arc::new(n as u64)).expect("stages");
    guard.keep();
}

fn fetch(table: &Table<Rows>, n: usize, to: usize) -> Result<SendGuard<Rows>, Fault> {
    at_once(table.send(&id(n), destination(to), Some(2))).expect("at once")
}

/// P8: what is kept is fetched by as many as there are, in any order and at the same time; a retry counts once.
#[test]
fn kept_rows_go_with_the_last_of_their_destinations() {
    let (table, now) = (table(), Instant::now());
    keep(&table, 1, now);
    drop(fetch(&table, 1, 0).expect("rows"));
    drop(fetch(&table, 1, 0).expect("a retry of one destination counts once"));
    assert_eq!(table.stats().entries, 1);
    let (again, last) = (fetch(&table, 1, 0).expect("rows"), fetch(&table, 1, 1).expect("rows"));
    drop(last);
    assert_eq!(table.stats().entries, 1, "a sibling still fetches");
    drop(again);
    assert_eq!(table.stats(), Stats::default());
    assert_eq!(reason(Some(fetch(&table, 1, 1))), Some(Reason::NotActive));
}

#[test]
fn a_fetch_that_failed_releases_its_request() {
    let table = table();
    keep(&table, 1, Instant::now());
    let (sibling, failing) = (fetch(&table, 1, 0).expect("rows"), fetch(&table, 1, 1).expect("rows"));
    failing.fail();
    assert_eq!(reason(Some(fetch(&table, 1, 1))), Some(Reason::NotActive), "nothing new begins");
    assert_eq!(sibling.rows().map(|rows| **rows), Some(1), "what goes on is not interrupted");
    drop(sibling);
    assert_eq!(table.stats(), Stats::default());
}

/// Weakness 18, of rows: what nobody fetches is swept; what is being fetched goes when that ends.
#[test]
fn what_nobody_came_for_is_swept() {
    let (table, now) = (table(), Instant::now());
    keep(&table, 1, now);
    keep(&table, 2, now);
    let failed = table.begin(&id(3), now).expect("begins");
    failed.fail(Fault::new(Reason::Engine, "broken"), now);
    failed.keep();
    assert_eq!(reason(at_once(table.sizes(&id(3)))), Some(Reason::Engine), "the fault is kept for who asks later");
    let going_on = fetch(&table, 2, 0).expect("rows");
    assert!(table.sweep(now + TTL / 2).is_empty());
    let mut swept = table.sweep(now + TTL);
    swept.sort_by(|a, b| a.id.cmp(&b.id));
    let what: Vec<_> = swept.iter().map(|s| (s.id.as_str(), s.age, s.phase)).collect();
    let right = [("r1", TTL, SweptPhase::Staged), ("r2", TTL, SweptPhase::Staged), ("r3", TTL, SweptPhase::Failed)];
    assert_eq!(what, right);
    assert_eq!(table.stats().entries, 1);
    assert!(table.sweep(now + TTL).is_empty(), "it is said once");
    drop(going_on);
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn no_more_destinations_fetch_than_there_may_be() {
    let table = table();
    keep(&table, 1, Instant::now());
    let fetch = |to: usize| at_once(table.send(&id(1), destination(to), None)).expect("at once");
    let held: Vec<_> = (0..limits().max_destinations).map(|to| fetch(to).expect("rows")).collect();
    assert_eq!(reason(Some(fetch(9))), Some(Reason::BadRequest));
    assert!(fetch(0).is_ok(), "a retry is none more");
    drop(held);
    assert_eq!(table.stats().entries, 1, "without a count it stays for siblings");
}

/// Rows, or a waker, may come back to the table when they are dropped or woken: its lock is free then.
#[test]
fn what_is_dropped_may_use_the_table() {
    struct Looker(Table<Arc<Looker>>);
    impl Drop for Looker {
        fn drop(&mut self) {
            assert_eq!(self.0.stats().entries, 0);
        }
    }
    let (table, now): (Table<Arc<Looker>>, _) = (Table::new(limits()), Instant::now());
    let guard = table.begin(&id(1), now).expect("begins");
    assert!(guard.stage(Arc::new(Looker(table.clone()))).is_ok());
    drop(guard);
    assert_eq!(table.stats(), Stats::default());
}
