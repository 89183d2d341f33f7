//! The table of requests and the one lock that guards it.

use super::ended::Ended;
use super::entry::{Entry, Phase, not_active};
use super::guard::EncodeGuard;
use super::wait::{Seen, Waiters};
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::{Fault, Reason, ReqId};
use std::collections::HashMap;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// What bounds a table.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Entries at a time.
    pub max_requests: usize,
    /// What nobody fetched is released this long after it was last published; an id that ended is
    /// remembered as long.
    pub metadata_ttl: Duration,
    /// Waits for encodes that have not begun.
    pub max_early_waiters: usize,
    /// Destinations of one request.
    pub max_destinations: usize,
}

/// What is in a table at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Entries.
    pub entries: usize,
    /// Of those, with rows.
    pub staged: usize,
    /// Sends that are going on.
    pub active_sends: usize,
    /// Waits under ids that have no entry.
    pub early_waiters: usize,
}

/// The requests of a server. Clones are one table.
pub struct Table<S> {
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    limits: Limits,
    state: Mutex<State<S>>,
}

/// What the one lock guards.
pub(super) struct State<S> {
    pub entries: HashMap<ReqId, Entry<S>>,
    pub ended: Ended,
    pub waiters: Waiters,
    pub after: After<S>,
    next_generation: u64,
    /// The latest time that anybody told; guards that drop have none of their own.
    latest: Option<Instant>,
}

/// What is done when the lock is free: wakers and rows are others' code, which may come back here.
pub(super) struct After<S> {
    wake: Vec<Waker>,
    pub forget: Vec<Waker>,
    pub phases: Vec<Phase<S>>,
}

impl<S> Default for After<S> {
    fn default() -> Self {
        Self { wake: Vec::new(), forget: Vec::new(), phases: Vec::new() }
    }
}

impl<S> Clone for Table<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S> Table<S> {
    /// An empty one.
    pub fn new(limits: Limits) -> Self {
        let state = State {
            entries: HashMap::new(),
            ended: Ended::default(),
            waiters: Waiters::default(),
            after: After::default(),
            next_generation: 0,
            latest: None,
        };
        Self { shared: Arc::new(Shared { limits, state: Mutex::new(state) }) }
    }

    pub(super) fn limits(&self) -> Limits {
        self.shared.limits
    }

    /// Looks at or changes the state, then wakes whom that concerns and drops what is gone.
    pub(super) fn change<T>(&self, f: impl FnOnce(&mut State<S>) -> T) -> T {
        let mut state = self.lock();
        let result = f(&mut state);
        let After { wake, forget, phases } = std::mem::take(&mut state.after);
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        drop((forget, phases));
        result
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        // every change is complete before anything that could panic: the state stays whole
        self.shared.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<S: Clone + Send> Table<S> {
    /// Makes the entry of an encode. Only this does. A failed encode of the same id gives way; whoever
    /// registered with it and was not told of its fault yet is owed by the new one.
    ///
    /// # Errors
    /// `DuplicateRequest` while one of this id is active, `Overloaded` when the table is full.
    pub fn begin(&self, id: &ReqId, now: Instant) -> Result<EncodeGuard<S>, Fault> {
        let max = self.shared.limits.max_requests;
        let generation = self.change(|state| {
            state.it_is(now);
            if state.entries.get(id).is_some_and(Entry::blocks_begin) {
                let message = format!("a request with id {id} is being served");
                return Err(Fault::new(Reason::DuplicateRequest, message));
            }
            if state.entries.len() >= max && !state.entries.contains_key(id) {
                let message = format!("{max} requests are being served (--max-pending-requests)");
                return Err(Fault::new(Reason::Overloaded, message));
            }
            state.next_generation += 1;
            let generation = state.next_generation;
            // the guards of one that gives way find another generation and let go
            let owed = state.entries.get_mut(id).map(|failed| failed.owed.hand_over());
            if owed.is_none() {
                state.waiters.entry_made(id);
            }
            state.entries.insert(id.clone(), Entry::new(generation, owed.unwrap_or_default(), now));
            state.ended.forget(id);
            state.wake(id);
            Ok(generation)
        })?;
        Ok(EncodeGuard::new(self.clone(), id.clone(), generation))
    }

    /// Says that no encode of this id will begin: whoever waits for it, or comes soon, is told why. One
    /// that begins all the same takes it back.
    pub fn refuse(&self, id: &ReqId, fault: Fault) {
        self.change(|state| {
            if !state.entries.contains_key(id) {
                state.ended.remember(id, fault, state.latest);
                state.wake(id);
            }
        });
    }

    /// What is in it now.
    pub fn stats(&self) -> Stats {
        self.change(|state| Stats {
            entries: state.entries.len(),
            staged: state.entries.values().filter(|e| matches!(e.phase, Phase::Staged(_))).count(),
            active_sends: state.entries.values().map(|e| e.sends).sum(),
            early_waiters: state.waiters.early(),
        })
    }
}

impl<S> State<S> {
    /// The entry of a guard, if it is still the same one.
    pub fn own(&mut self, id: &ReqId, generation: u64) -> Option<&mut Entry<S>> {
        self.entries.get_mut(id).filter(|entry| entry.generation == generation)
    }

    /// Notes a time.
    pub fn it_is(&mut self, now: Instant) {
        self.latest = self.latest.max(Some(now));
    }

    /// Wakes whoever waits under an id. They look again and wait again if they must.
    pub fn wake(&mut self, id: &ReqId) {
        self.after.wake.extend(self.waiters.under(id).cloned());
    }

    /// Removes an entry if it is over; says so, or that it will be.
    pub fn settle(&mut self, id: &ReqId) {
        let Some(entry) = self.entries.get(id) else { return };
        if entry.release_requested {
            self.wake(id);
        }
        if self.entries.get(id).is_some_and(Entry::is_over)
            && let Some(entry) = self.entries.remove(id)
        {
            self.after.phases.push(entry.phase);
            self.waiters.entry_gone(id);
            self.ended.remember(id, not_active(id), self.latest);
        }
    }

    /// A wait under an id without an entry: over if the id ended, refused if too many wait.
    pub fn early<T>(&self, id: &ReqId, seen: Seen, limits: &Limits) -> Poll<Result<T, Fault>> {
        if let Some(why) = self.ended.why(id) {
            return Poll::Ready(Err(why.clone()));
        }
        if seen.had_entry {
            return Poll::Ready(Err(not_active(id)));
        }
        let max = limits.max_early_waiters;
        if !seen.waited && self.waiters.early() >= max {
            let message = format!("{max} calls wait for encodes that have not begun (--max-pending-requests)");
            return Poll::Ready(Err(Fault::new(Reason::Overloaded, message)));
        }
        Poll::Pending
    }
}
