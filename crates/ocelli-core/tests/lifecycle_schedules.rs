//! The request table as a state machine: random schedules of everything that can happen, in virtual time,
//! each step asked of the table and of a model of it. Futures are polled when they were woken, at times
//! when they were not, at times by another waker; at every step all that sleep must be right to sleep.
#![allow(clippy::expect_used, clippy::panic)] // helpers of tests are tests

mod lifecycle_support;
#[path = "lifecycle_support/model.rs"]
mod model;

use lifecycle_support::{Random, Rows, TTL, Task, destination, id, limits, table};
use model::{Model, Past, Phase};
use ocelli_core::lifecycle::{EncodeGuard, SendGuard, Sizes, Stats, Table};
use ocelli_core::{Destination, Fault, Reason};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

const SCHEDULES: u64 = 12_000;
const STEPS: usize = 60;
const IDS: usize = 4;

struct Encode {
    id: usize,
    number: usize,
    guard: EncodeGuard<Rows>,
    /// Whom it was told of, over its life.
    told: Vec<Destination>,
    next: Option<Task<Option<Destination>>>,
}

/// A send guard, and the encode whose entry it holds, if it holds one.
struct Send {
    id: usize,
    encode: Option<usize>,
    guard: SendGuard<Rows>,
    one_sided: bool,
}

enum What {
    Register(usize, u32, Task<Result<(), Fault>>),
    Sizes(Task<Result<Sizes, Fault>>),
    Send(usize, Option<u32>, Task<Result<SendGuard<Rows>, Fault>>),
}

struct Waiting {
    id: usize,
    past: Past,
    what: What,
}

struct World {
    table: Table<Rows>,
    model: Model,
    encodes: Vec<Encode>,
    sends: Vec<Send>,
    waiting: Vec<Waiting>,
    /// All rows that ever were, by the number of their encode.
    rows: Vec<Rows>,
    /// How often each kind of thing happened, over all schedules: a schedule that does nothing proves nothing.
    seen: BTreeMap<&'static str, usize>,
}

impl World {
    fn new() -> Self {
        let (table, now) = (table(), Instant::now());
        table.sweep(now); // from now on it knows the time
        Self {
            table,
            model: Model { now, entries: BTreeMap::new(), ended: BTreeMap::new() },
            encodes: Vec::new(),
            sends: Vec::new(),
            waiting: Vec::new(),
            rows: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn step(&mut self, random: &mut Random) {
        let n = random.below(IDS);
        match random.below(16) {
            0 | 1 => self.begin(n),
            2 => self.publish(random),
            3 | 4 => self.stage(random),
            5 => self.fail(random),
            6..=8 => self.wait(n, random),
            9 => self.begin_send(random),
            10 | 11 => self.end_send(random),
            12 => self.end_encode(random),
            13 => self.forget_a_future(random),
            14 => self.sweep(random),
            _ => {
                self.table.refuse(&id(n), Fault::new(Reason::Draining, "the server is shutting down"));
                self.model.refuse(n);
            }
        }
        self.poll(random);
        self.check();
    }

    fn begin(&mut self, n: usize) {
        let number = self.rows.len();
        let begun = self.table.begin(&id(n), self.model.now);
        let expected = self.model.begin(n, number);
        assert_eq!(begun.as_ref().map(|_| ()).map_err(|f| f.reason), expected);
        match begun {
            Ok(guard) => {
                self.rows.push(Arc::new(number as u64));
                self.encodes.push(Encode { id: n, number, guard, told: Vec::new(), next: None });
                self.saw("begun");
            }
            Err(fault) => self.saw(fault.reason.as_str()),
        }
    }

    fn an_encode(&self, random: &mut Random) -> Option<usize> {
        (!self.encodes.is_empty()).then(|| random.below(self.encodes.len()))
    }

    fn publish(&mut self, random: &mut Random) {
        let Some(at) = self.an_encode(random) else { return };
        let sizes = Sizes { rows: 1 + random.below(5), dim: 2, bytes: 8 };
        let (e, now) = (&self.encodes[at], self.model.now);
        e.guard.publish_sizes(sizes, now);
        if let Some(entry) = self.model.of(e.id, e.number) {
            (entry.sizes, entry.published) = (Some(sizes), now);
        }
    }

    fn stage(&mut self, random: &mut Random) {
        let Some(at) = self.an_encode(random) else { return };
        let e = &self.encodes[at];
        let staged = e.guard.stage(self.rows[e.number].clone()).map_err(|f| f.reason);
        let expected = match self.model.of(e.id, e.number) {
            None => Err(Reason::NotActive),
            Some(entry) if entry.phase == Phase::Encoding => {
                entry.phase = Phase::Staged(e.number as u64);
                Ok(())
            }
            Some(_) => Err(Reason::Internal),
        };
        assert_eq!(staged, expected);
    }

    fn fail(&mut self, random: &mut Random) {
        let Some(at) = self.an_encode(random) else { return };
        let (e, now) = (&self.encodes[at], self.model.now);
        e.guard.fail(Fault::new(Reason::Engine, "broken"), now);
        if let Some(entry) = self.model.of(e.id, e.number) {
            (entry.phase, entry.published) = (Phase::Failed, now);
        }
    }

    fn wait(&mut self, n: usize, random: &mut Random) {
        let (table, to) = (&self.table, random.below(4));
        let count = if random.one_in(8) { random.below(5) as u32 } else { 2 };
        let what = match random.below(4) {
            0 | 1 => {
                What::Register(to, count, Task::new(table.register(&id(n), destination(to), count, self.model.now)))
            }
            2 => What::Sizes(Task::new(table.sizes(&id(n)))),
            _ => {
                let count = (!random.one_in(4)).then_some(count);
                What::Send(to, count, Task::new(table.send(&id(n), destination(to), count)))
            }
        };
        self.waiting.push(Waiting { id: n, past: Past::default(), what });
    }

    fn begin_send(&mut self, random: &mut Random) {
        let Some(at) = self.an_encode(random) else { return };
        let e = &self.encodes[at];
        let guard = e.guard.begin_send(&destination(0));
        let entry = self.model.of(e.id, e.number);
        let rows = entry.as_ref().and_then(|entry| if let Phase::Staged(n) = entry.phase { Some(n) } else { None });
        assert_eq!(guard.rows().map(|rows| **rows), rows);
        let encode = entry.map(|entry| {
            entry.sends += 1;
            e.number
        });
        self.sends.push(Send { id: e.id, encode, guard, one_sided: false });
    }

    fn end_send(&mut self, random: &mut Random) {
        if self.sends.is_empty() {
            return;
        }
        let send = self.sends.swap_remove(random.below(self.sends.len()));
        let fails = random.one_in(4);
        if fails {
            send.guard.fail()
        } else {
            drop(send.guard)
        }
        let Some(encode) = send.encode else { return };
        self.model.end(send.id, encode, |entry| {
            entry.sends -= 1;
            entry.leaving |= send.one_sided && (fails || (!entry.encoding && entry.is_served()));
        });
    }

    fn end_encode(&mut self, random: &mut Random) {
        let Some(at) = self.an_encode(random) else { return };
        let e = self.encodes.swap_remove(at);
        let keeps = random.one_in(2);
        match random.below(2) {
            _ if keeps => e.guard.keep(),
            0 => e.guard.release(),
            _ => drop(e.guard),
        }
        self.model.end(e.id, e.number, |entry| {
            entry.encoding = false;
            entry.leaving |= !keeps || entry.phase == Phase::Encoding || entry.is_served();
        });
        // a future of it that outlives its guard is told of nobody
        if let Some(mut next) = e.next {
            assert_eq!(next.poll_if_due(), Some(None), "was not woken by the end of its encode");
        }
    }

    fn forget_a_future(&mut self, random: &mut Random) {
        if random.one_in(3) {
            if let Some(at) = self.an_encode(random) {
                self.encodes[at].next = None;
            }
        } else if !self.waiting.is_empty() {
            drop(self.waiting.swap_remove(random.below(self.waiting.len())));
        }
    }

    fn sweep(&mut self, random: &mut Random) {
        self.model.now += Duration::from_secs(random.below(8) as u64);
        let mut swept: Vec<_> = self.table.sweep(self.model.now);
        swept.sort_by(|a, b| a.id.cmp(&b.id));
        let expected = self.model.sweep();
        assert!(swept.iter().all(|s| s.age >= TTL));
        assert_eq!(swept.iter().map(|s| s.phase).collect::<Vec<_>>(), expected.iter().map(|s| s.1).collect::<Vec<_>>());
        assert!(swept.iter().zip(&expected).all(|(s, (n, _))| s.id == id(*n)));
        swept.iter().for_each(|_| self.saw("swept"));
    }

    /// Polls all that are due, and some that are not, until nobody is.
    fn poll(&mut self, random: &mut Random) {
        let mut again = true;
        while again {
            again = self.poll_waiting(random);
            again |= self.poll_encodes(random);
        }
    }

    fn poll_waiting(&mut self, random: &mut Random) -> bool {
        let mut progress = false;
        let mut at = 0;
        while at < self.waiting.len() {
            let early = self.early();
            let Waiting { id: n, past, what } = &mut self.waiting[at];
            let (n, model) = (*n, &mut self.model);
            let how = random.below(12);
            let mut held = None;
            // what the table says, and what it should; who is not due and is left alone should have to wait
            let (said, should) = match what {
                What::Register(to, count, task) => {
                    let Some(said) = ask(task, how) else {
                        at += 1;
                        continue;
                    };
                    (said.map(|r| r.map_err(|f| f.reason)), model.register(n, *to, *count, *past, early))
                }
                What::Sizes(task) => {
                    let Some(said) = ask(task, how) else {
                        at += 1;
                        continue;
                    };
                    let should = model.sizes(n, *past, early);
                    assert_eq!(said.clone().map(|r| r.map_err(|f| f.reason)), should);
                    (said.map(|r| r.map(|_| ()).map_err(|f| f.reason)), should.map(|r| r.map(|_| ())))
                }
                What::Send(to, count, task) => {
                    let Some(said) = ask(task, how) else {
                        at += 1;
                        continue;
                    };
                    let should = model.send(n, *to, *count, *past, early);
                    let said =
                        said.map(|r| r.map_err(|f| f.reason).map(|guard| held.insert(guard).rows().map(|rows| **rows)));
                    assert_eq!(said, should.map(|r| r.map(|(_, rows)| Some(rows))));
                    if let (Some(guard), Poll::Ready(Ok((encode, _)))) = (held.take(), should) {
                        self.sends.push(Send { id: n, encode: Some(encode), guard, one_sided: true });
                    }
                    (said.map(|r| r.map(|_| ())), should.map(|r| r.map(|_| ())))
                }
            };
            assert_eq!(said, should);
            match said {
                Poll::Pending => {
                    *past = Past { waited: true, had_entry: past.had_entry | self.model.entries.contains_key(&n) };
                    at += 1;
                }
                Poll::Ready(answer) => {
                    self.waiting.swap_remove(at);
                    self.saw(answer.map_or_else(Reason::as_str, |()| "answered"));
                    progress = true;
                }
            }
        }
        progress
    }

    fn poll_encodes(&mut self, random: &mut Random) -> bool {
        let (mut progress, mut told) = (false, 0);
        for e in &mut self.encodes {
            let task = e.next.get_or_insert_with(|| Task::new(e.guard.next_destination()));
            let Some(said) = ask(task, random.below(12)) else { continue };
            let should = self.model.next(e.id, e.number);
            assert_eq!(said, should.map(|to| to.map(destination)));
            if let Poll::Ready(next) = said {
                e.next = None;
                if let Some(to) = next {
                    assert!(!e.told.contains(&to), "{to} was told twice");
                    e.told.push(to);
                    told += 1;
                    progress = true;
                }
            }
        }
        (0..told).for_each(|_| self.saw("told"));
        progress
    }

    /// Waits that go on under ids without an entry.
    fn early(&self) -> usize {
        self.waiting.iter().filter(|w| w.past.waited && !self.model.entries.contains_key(&w.id)).count()
    }

    /// What must be true when nobody is due.
    fn check(&mut self) {
        let early = self.early();
        for Waiting { id: n, past, what } in &self.waiting {
            // a clone of the question: the answer must be to wait, or its wake-up was lost
            let waits = match what {
                What::Register(..) => !self.model.entries.contains_key(n) && !self.model.ended.contains_key(n),
                What::Sizes(_) => self.model.sizes(*n, *past, early).is_pending(),
                What::Send(..) => match self.model.entries.get(n) {
                    Some(entry) => entry.phase == Phase::Encoding && !entry.leaving,
                    None => !past.had_entry && !self.model.ended.contains_key(n),
                },
            };
            assert!(waits, "a wait for r{n} was not woken");
        }
        for Encode { id: n, number, next, .. } in &self.encodes {
            let entry = self.model.of(*n, *number);
            let waits = entry.is_some_and(|e| !e.leaving && e.told == e.registered.len() && !e.is_all_told());
            assert!(next.is_none() || waits, "the encode of r{n} was not woken");
        }
        let entries = &self.model.entries;
        let stats = Stats {
            entries: entries.len(),
            staged: entries.values().filter(|e| matches!(e.phase, Phase::Staged(_))).count(),
            active_sends: entries.values().map(|e| e.sends).sum(),
            early_waiters: early,
        };
        assert_eq!(self.table.stats(), stats);
        assert!(stats.entries <= limits().max_requests && stats.early_waiters <= limits().max_early_waiters);
        for (number, rows) in self.rows.iter().enumerate() {
            let staged = entries.values().filter(|e| e.phase == Phase::Staged(number as u64)).count();
            let borrowed = self.sends.iter().filter(|s| s.guard.rows().is_some_and(|r| **r == number as u64)).count();
            assert_eq!(Arc::strong_count(rows), 1 + staged + borrowed, "rows of encode {number}");
        }
    }

    /// Everything is let go, in any order: nothing may be left.
    fn end(mut self, random: &mut Random) -> BTreeMap<&'static str, usize> {
        while self.encodes.len() + self.sends.len() > 0 {
            if random.one_in(2) {
                self.end_send(random)
            } else {
                self.end_encode(random)
            }
            self.poll(random);
            self.check();
        }
        self.waiting.clear();
        self.table.sweep(self.model.now + TTL);
        assert_eq!(self.table.stats(), Stats::default());
        assert!(self.rows.iter().all(|rows| Arc::strong_count(rows) == 1), "staged rows leak");
        self.seen
    }
}

/// What a future says; `None` when it is not due and is left alone. At times it is polled all the same.
fn ask<T>(task: &mut Task<T>, how: usize) -> Option<Poll<T>> {
    let said = match how {
        0 => task.poll(),
        1 => task.poll_with_a_new_waker(),
        _ if task.is_due() => task.poll(),
        _ => return None,
    };
    Some(said.map_or(Poll::Pending, Poll::Ready))
}

#[test]
fn twelve_thousand_random_schedules_do_what_the_model_does_and_leave_nothing() {
    let mut seen: BTreeMap<&'static str, usize> = BTreeMap::new();
    for seed in 0..SCHEDULES {
        let run = catch_unwind(AssertUnwindSafe(|| {
            let mut random = Random::new(seed);
            let mut world = World::new();
            (0..STEPS).for_each(|_| world.step(&mut random));
            world.end(&mut random)
        }));
        let Ok(of_run) = run else { panic!("seed {seed}") };
        of_run.into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times);
    }
    println!("{seen:?}");
    let rare = ["begun", "answered", "told", "swept", "not_active", "engine", "draining", "overloaded"];
    let rarer = ["duplicate_request", "inconsistent_receive_count", "bad_request"];
    for what in rare.iter().chain(&rarer) {
        assert!(seen.get(what).is_some_and(|times| *times > 1000), "the schedules hardly reach {what}: {seen:?}");
    }
}
