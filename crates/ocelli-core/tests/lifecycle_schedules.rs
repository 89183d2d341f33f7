//! The request table as a state machine: random schedules of everything that can happen, in virtual time,
//! against a model that says what must be true.

use ocelli_core::lifecycle::{EncodeGuard, Limits, SendGuard, Sizes, Table};
use ocelli_core::{Destination, Fault, Reason, ReqId};
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

const SCHEDULES: u64 = 12_000;
const STEPS: usize = 60;
const TTL: Duration = Duration::from_secs(10);

type Rows = Arc<&'static str>;
type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that is polled only when it was woken: a lost wake-up is a future that never ends.
struct Task<T> {
    future: Boxed<T>,
    counter: Arc<Counter>,
    seen: usize,
    fresh: bool,
}

impl<T> Task<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future), counter: Arc::new(Counter(AtomicUsize::new(0))), seen: 0, fresh: true }
    }

    fn poll_if_woken(&mut self) -> Option<T> {
        let woken = self.counter.0.load(Ordering::SeqCst);
        if !self.fresh && woken == self.seen {
            return None;
        }
        (self.fresh, self.seen) = (false, woken);
        self.poll()
    }

    fn poll(&mut self) -> Option<T> {
        let waker = Waker::from(self.counter.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// An encode as the model sees it.
struct Encode {
    id: usize,
    guard: EncodeGuard<Rows>,
    rows: Rows,
    staged: bool,
    failed: bool,
    replaced: bool,
    yielded: Vec<Destination>,
    next: Option<Task<Option<Destination>>>,
}

struct World {
    table: Table<Rows>,
    now: Instant,
    encodes: Vec<Encode>,
    sends: Vec<(usize, SendGuard<Rows>)>,
    registrations: Vec<(usize, Destination, Task<Result<(), Fault>>)>,
    sizes: Vec<(usize, Task<Result<Sizes, Fault>>)>,
    fetches: Vec<(usize, Task<Result<SendGuard<Rows>, Fault>>)>,
    all_rows: Vec<Rows>,
}

fn id(n: usize) -> ReqId {
    ReqId::new(&format!("r{n}")).expect("id")
}

fn destination(n: usize) -> Destination {
    Destination::new("10.0.0.1", 1000 + n as u16).expect("destination")
}

fn limits() -> Limits {
    Limits { max_requests: 3, metadata_ttl: TTL, max_early_waiters: 8, max_destinations: 4 }
}

impl World {
    fn new() -> Self {
        Self {
            table: Table::new(limits()),
            now: Instant::now(),
            encodes: Vec::new(),
            sends: Vec::new(),
            registrations: Vec::new(),
            sizes: Vec::new(),
            fetches: Vec::new(),
            all_rows: Vec::new(),
        }
    }

    fn step(&mut self, random: &mut Random) {
        let which = id(random.below(4));
        let n = random.below(4);
        match random.below(14) {
            0 | 1 => self.begin(n),
            2 => {
                if let Some(e) = pick(&mut self.encodes, random) {
                    e.guard.publish_sizes(Sizes { rows: 1, dim: 2, bytes: 8 }, self.now);
                }
            }
            3 => {
                if let Some(e) = pick(&mut self.encodes, random) {
                    let staged = e.guard.stage(e.rows.clone());
                    assert_eq!(staged.is_ok(), !e.staged && !e.failed && !e.replaced, "stage once, while it is ours");
                    e.staged |= staged.is_ok();
                }
            }
            4 => {
                if let Some(e) = pick(&mut self.encodes, random) {
                    e.guard.fail(Fault::new(Reason::Engine, "broken"), self.now);
                    e.failed |= !e.replaced;
                    e.staged &= e.replaced;
                }
            }
            5 | 6 => {
                let to = destination(random.below(3));
                let task = Task::new(self.table.register(&id(n), to.clone(), 2, self.now));
                self.registrations.push((n, to, task));
            }
            7 => self.sizes.push((n, Task::new(self.table.sizes(&which)))),
            8 => self.fetches.push((n, Task::new(self.table.send(&id(n), destination(random.below(2)), Some(2))))),
            9 => {
                if let Some(e) = pick(&mut self.encodes, random) {
                    let held = e.guard.begin_send(&destination(0));
                    assert_eq!(held.rows().is_some(), e.staged && !e.replaced);
                    self.sends.push((e.id, held));
                }
            }
            10 => self.drop_something(random),
            11 => {
                if !self.encodes.is_empty() {
                    let at = random.below(self.encodes.len());
                    let e = self.encodes.swap_remove(at);
                    drop(e.next);
                    if random.below(2) == 0 { e.guard.keep() } else { e.guard.release() }
                }
            }
            12 => {
                self.now += Duration::from_secs(random.below(8) as u64);
                for swept in self.table.sweep(self.now) {
                    assert!(swept.age >= TTL);
                    let holds = |e: &Encode| !e.replaced && id(e.id) == swept.id;
                    assert!(!self.encodes.iter().any(holds), "what is being encoded is not swept");
                }
            }
            _ => {
                self.table.refuse(&which, Fault::new(Reason::Overloaded, "full"));
            }
        }
        self.poll_all();
        self.check();
    }

    fn begin(&mut self, n: usize) {
        match self.table.begin(&id(n), self.now) {
            Ok(guard) => {
                for e in self.encodes.iter_mut().filter(|e| e.id == n && !e.replaced) {
                    assert!(e.failed, "only a failed encode gives way");
                    e.replaced = true;
                }
                let rows: Rows = Arc::new("rows");
                self.all_rows.push(rows.clone());
                let encode =
                    Encode { id: n, guard, rows, staged: false, failed: false, replaced: false, yielded: vec![], next: None };
                self.encodes.push(encode);
            }
            Err(fault) => assert!(matches!(fault.reason, Reason::DuplicateRequest | Reason::Overloaded)),
        }
    }

    fn drop_something(&mut self, random: &mut Random) {
        match random.below(5) {
            0 if !self.registrations.is_empty() => drop(self.registrations.swap_remove(random.below(self.registrations.len()))),
            1 if !self.sizes.is_empty() => drop(self.sizes.swap_remove(random.below(self.sizes.len()))),
            2 if !self.fetches.is_empty() => drop(self.fetches.swap_remove(random.below(self.fetches.len()))),
            3 if !self.sends.is_empty() => {
                let (_, guard) = self.sends.swap_remove(random.below(self.sends.len()));
                if random.below(3) == 0 { guard.fail() } else { drop(guard) }
            }
            _ => {
                if let Some(e) = pick(&mut self.encodes, random) {
                    e.next = None;
                }
            }
        }
    }

    fn poll_all(&mut self) {
        // twice: what the first round wakes must be woken by then
        for _ in 0..2 {
            self.registrations.retain_mut(|(_, _, task)| match task.poll_if_woken() {
                None => true,
                Some(Ok(())) => false,
                Some(Err(fault)) => {
                    let known = [Reason::InconsistentReceiveCount, Reason::NotActive, Reason::Overloaded];
                    assert!(known.contains(&fault.reason), "{fault:?}");
                    false
                }
            });
            self.sizes.retain_mut(|(_, task)| task.poll_if_woken().is_none());
            let mut held = Vec::new();
            self.fetches.retain_mut(|(n, task)| match task.poll_if_woken() {
                None => true,
                Some(result) => {
                    held.extend(result.ok().map(|guard| (*n, guard)));
                    false
                }
            });
            held.iter().for_each(|(_, guard)| assert!(guard.rows().is_some()));
            self.sends.extend(held);
            for e in &mut self.encodes {
                let task = e.next.get_or_insert_with(|| Task::new(e.guard.next_destination()));
                match task.poll_if_woken() {
                    None => {}
                    Some(None) => e.next = None,
                    Some(Some(to)) => {
                        assert!(!e.replaced, "a replaced encode is told of nobody");
                        assert!(!e.yielded.contains(&to), "{to} was told twice");
                        e.yielded.push(to);
                        e.next = None;
                    }
                }
            }
        }
    }

    /// What must be true at any moment.
    fn check(&mut self) {
        let stats = self.table.stats();
        assert!(stats.entries <= limits().max_requests);
        let live = self.encodes.iter().filter(|e| !e.replaced).count();
        assert!(stats.entries >= live, "an encode that is held has its entry");
        // no future sleeps although it would be content: a lost wake-up
        for (n, to, task) in &mut self.registrations {
            assert!(task.poll().is_none(), "registration of {to} for {n} was not woken");
        }
        for (_, task) in &mut self.sizes {
            assert!(task.poll().is_none(), "a wait for sizes was not woken");
        }
    }

    /// Everything is let go: nothing may be left.
    fn end(mut self) {
        self.encodes.clear();
        self.sends.clear();
        self.registrations.clear();
        self.sizes.clear();
        self.fetches.clear();
        self.table.sweep(self.now + TTL * 2);
        let stats = self.table.stats();
        assert_eq!((stats.entries, stats.staged, stats.active_sends, stats.early_waiters), (0, 0, 0, 0), "{stats:?}");
        for rows in self.all_rows {
            assert_eq!(Arc::strong_count(&rows), 1, "staged rows leak");
        }
    }
}

fn pick<'a, T>(list: &'a mut [T], random: &mut Random) -> Option<&'a mut T> {
    if list.is_empty() { None } else { Some(&mut list[random.below(list.len())]) }
}

#[test]
fn twelve_thousand_random_schedules_keep_what_must_be_true() {
    for seed in 0..SCHEDULES {
        let run = std::panic::catch_unwind(|| {
            let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
            let mut world = World::new();
            (0..STEPS).for_each(|_| world.step(&mut random));
            world.end();
        });
        assert!(run.is_ok(), "seed {seed}");
    }
}

/// P1 at the table: 200 encodes begin, their destinations register only then.
#[test]
fn two_hundred_registrations_after_two_hundred_encodes_are_all_told() {
    let table: Table<Rows> = Table::new(Limits { max_requests: 200, ..limits() });
    let now = Instant::now();
    let guards: Vec<_> = (0..200).map(|n| table.begin(&id(n), now).expect("begins")).collect();
    assert_eq!(table.begin(&id(200), now).err().map(|f| f.reason), Some(Reason::Overloaded));
    let mut told = HashSet::new();
    for (n, guard) in guards.iter().enumerate() {
        let mut next = Task::new(guard.next_destination());
        assert!(next.poll_if_woken().is_none());
        assert_eq!(Task::new(table.register(&id(n), destination(0), 1, now)).poll_if_woken(), Some(Ok(())));
        told.insert(next.poll_if_woken().expect("woken").map(|to| (n, to)));
        assert_eq!(Task::new(guard.next_destination()).poll_if_woken(), Some(None));
    }
    assert_eq!(told.len(), 200);
    drop(guards);
    assert_eq!(table.stats().entries, 0);
}

/// Weakness 18: ids that never come leave nothing, and they are bounded.
#[test]
fn waits_for_ids_that_never_come_are_bounded_and_leave_nothing() {
    let table: Table<Rows> = Table::new(limits());
    let mut waits: Vec<_> = (0..8).map(|n| Task::new(table.sizes(&id(n)))).collect();
    assert!(waits.iter_mut().all(|wait| wait.poll_if_woken().is_none()));
    assert_eq!(table.stats().early_waiters, 8);
    let refused = Task::new(table.register(&id(99), destination(0), 1, Instant::now())).poll_if_woken();
    assert_eq!(refused.map(|r| r.unwrap_err().reason), Some(Reason::Overloaded));
    drop(waits);
    assert_eq!(table.stats().early_waiters, 0);
}

/// An encode that is refused at the door tells the registrations that wait for it.
#[test]
fn early_waiters_of_a_refused_encode_are_told_why() {
    let table: Table<Rows> = Table::new(limits());
    let mut early = Task::new(table.register(&id(1), destination(0), 1, Instant::now()));
    assert!(early.poll_if_woken().is_none());
    table.refuse(&id(1), Fault::new(Reason::Overloaded, "full"));
    assert_eq!(early.poll_if_woken().map(|r| r.unwrap_err().reason), Some(Reason::Overloaded));
    // and the id can be tried again
    let _guard = table.begin(&id(1), Instant::now()).expect("begins");
    assert_eq!(Task::new(table.register(&id(1), destination(0), 1, Instant::now())).poll_if_woken(), Some(Ok(())));
}

/// Q12: the id of a request that ended is free; a late registration of it is told at once.
#[test]
fn an_ended_id_is_known_and_free() {
    let table: Table<Rows> = Table::new(limits());
    let now = Instant::now();
    let guard = table.begin(&id(1), now).expect("begins");
    assert_eq!(table.begin(&id(1), now).err().map(|f| f.reason), Some(Reason::DuplicateRequest));
    drop(guard);
    let late = Task::new(table.register(&id(1), destination(0), 1, now)).poll_if_woken();
    let late = late.expect("at once").unwrap_err();
    assert_eq!((late.reason, late.message.as_str()), (Reason::NotActive, "Encoder request is not active: r1"));
    assert!(table.begin(&id(1), now).is_ok());
}

#[test]
fn ranks_that_disagree_about_their_number_are_told_with_both_numbers() {
    let table: Table<Rows> = Table::new(limits());
    let now = Instant::now();
    let _guard = table.begin(&id(1), now).expect("begins");
    let register = |to: usize, count: u32| Task::new(table.register(&id(1), destination(to), count, now)).poll_if_woken().expect("at once");
    assert_eq!(register(0, 2), Ok(()));
    assert_eq!(register(0, 2), Ok(()), "a repeat is harmless");
    let message = register(1, 3).unwrap_err().message;
    assert_eq!(message, "Inconsistent receive_count for req_id=r1: registered 2, got 3");
    assert_eq!(register(1, 2), Ok(()));
    assert_eq!(register(2, 2).unwrap_err().reason, Reason::InconsistentReceiveCount);
    assert_eq!(register(0, 5).unwrap_err().reason, Reason::BadRequest);
}

/// One-sided backends: what is kept is fetched by as many as there are, then gone; a failed fetch ends it.
#[test]
fn kept_rows_are_released_by_the_last_fetch_or_the_sweep() {
    let table: Table<Rows> = Table::new(limits());
    let now = Instant::now();
    let staged = |n: usize| {
        let guard = table.begin(&id(n), now).expect("begins");
        guard.publish_sizes(Sizes { rows: 1, dim: 1, bytes: 4 }, now);
        guard.stage(Arc::new("rows")).expect("stages");
        guard.keep();
    };
    let fetch = |n: usize, to: usize| Task::new(table.send(&id(n), destination(to), Some(2))).poll_if_woken().expect("at once");
    staged(1);
    drop(fetch(1, 0).expect("rows"));
    drop(fetch(1, 0).expect("a retry of one destination counts once"));
    assert_eq!(table.stats().entries, 1);
    drop(fetch(1, 1).expect("rows"));
    assert_eq!(table.stats().entries, 0);
    staged(2);
    fetch(2, 0).expect("rows").fail();
    assert_eq!(table.stats().entries, 0);
    staged(3);
    assert!(table.sweep(now + TTL / 2).is_empty());
    let swept = table.sweep(now + TTL);
    assert_eq!((swept.len(), swept[0].staged, table.stats().entries), (1, true, 0));
}
