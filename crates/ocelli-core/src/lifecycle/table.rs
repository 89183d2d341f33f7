//! The table of requests.

use super::entry::{Entry, Phase, not_active};
use super::guard::{EncodeGuard, SendGuard};
use super::wait::Wait;
use super::Sizes;
use crate::sync::{Arc, Mutex, MutexGuard};
use crate::{Destination, Fault, Reason, ReqId};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// Ids that ended are remembered, so that a late registration is told at once. This many.
const REMEMBERED: usize = 4096;

/// What bounds a table.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Entries at a time.
    pub max_requests: usize,
    /// What nobody fetched is released this long after it was last published.
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

/// Something that the sweep released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Whose.
    pub id: ReqId,
    /// Since it was last published.
    pub age: Duration,
    /// Whether rows were there that nobody fetched.
    pub staged: bool,
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
    /// Why an id has no entry any more.
    ended: HashMap<ReqId, Fault>,
    ended_in_order: VecDeque<ReqId>,
    pub waiters: HashMap<ReqId, HashMap<u64, Waker>>,
    pub waiting: usize,
    pub next_waiter: u64,
    next_generation: u64,
    /// To be called when the lock is free.
    to_wake: Vec<Waker>,
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
            ended: HashMap::new(),
            ended_in_order: VecDeque::new(),
            waiters: HashMap::new(),
            waiting: 0,
            next_waiter: 0,
            next_generation: 0,
            to_wake: Vec::new(),
        };
        Self { shared: Arc::new(Shared { limits, state: Mutex::new(state) }) }
    }

    /// Looks at or changes the state, then wakes whom that concerns.
    pub(super) fn change<T>(&self, f: impl FnOnce(&mut State<S>) -> T) -> T {
        let mut state = self.lock();
        let result = f(&mut state);
        let to_wake = std::mem::take(&mut state.to_wake);
        drop(state);
        to_wake.into_iter().for_each(Waker::wake);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        // every change is complete before anything that could panic: the state stays whole
        self.shared.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<S: Clone + Send> Table<S> {
    /// Makes the entry of an encode. Only this does.
    ///
    /// # Errors
    /// `DuplicateRequest` while one of this id is active, `Overloaded` when the table is full.
    pub fn begin(&self, id: &ReqId, now: Instant) -> Result<EncodeGuard<S>, Fault> {
        let max = self.shared.limits.max_requests;
        let generation = self.change(|state| {
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
            // an entry that failed gives way; its guards find another generation and let go
            state.entries.insert(id.clone(), Entry::new(generation, now));
            state.ended.remove(id);
            state.wake(id);
            Ok(generation)
        })?;
        Ok(EncodeGuard::new(self.clone(), id.clone(), generation))
    }

    /// Says that no encode of this id will begin: whoever waits for it is told why.
    pub fn refuse(&self, id: &ReqId, fault: Fault) {
        self.change(|state| {
            if !state.entries.contains_key(id) && state.waiters.contains_key(id) {
                state.remember(id, fault);
                state.wake(id);
            }
        });
    }

    /// Registers a destination of a part; waits until the part's encode has begun. The first registration
    /// fixes how many there are; a repeat is harmless. The caller bounds the wait; dropping the future
    /// ends it.
    ///
    /// # Errors
    /// `InconsistentReceiveCount`, `NotActive` for an id that was released, what the encode was refused
    /// with, `Overloaded` when too many wait.
    pub fn register(
        &self,
        id: &ReqId,
        to: Destination,
        receive_count: u32,
        _now: Instant,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<S> {
        let limits = self.shared.limits;
        Wait::new(self.clone(), id.clone(), move |state: &mut State<S>, id: &ReqId, waited: bool| {
            if receive_count as usize > limits.max_destinations {
                let message = format!("receive_count is {receive_count}; the limit is {}", limits.max_destinations);
                return Poll::Ready(Err(Fault::new(Reason::BadRequest, message)));
            }
            match state.entries.get_mut(id) {
                Some(entry) => {
                    let registered = entry.register(id, to.clone(), receive_count);
                    if registered.is_ok() {
                        state.wake(id);
                    }
                    Poll::Ready(registered)
                }
                None => state.early(id, waited, &limits),
            }
        })
    }

    /// Waits until the sizes of a part are known.
    ///
    /// # Errors
    /// What the encode failed or was refused with; `NotActive` when its entry is gone; `Overloaded`.
    pub fn sizes(&self, id: &ReqId) -> impl Future<Output = Result<Sizes, Fault>> + Send + use<S> {
        let limits = self.shared.limits;
        Wait::new(self.clone(), id.clone(), move |state: &mut State<S>, id: &ReqId, waited: bool| {
            match state.entries.get(id) {
                Some(Entry { phase: Phase::Failed(fault), .. }) => Poll::Ready(Err(fault.clone())),
                Some(entry) => entry.sizes.map_or(Poll::Pending, |sizes| Poll::Ready(Ok(sizes))),
                None => state.early(id, waited, &limits),
            }
        })
    }

    /// For one-sided backends: waits until the rows of a part are staged and holds them for one
    /// destination. When `receive_count` distinct destinations have fetched, the entry is released.
    ///
    /// # Errors
    /// As [`Table::sizes`].
    pub fn send(
        &self,
        id: &ReqId,
        to: Destination,
        receive_count: Option<u32>,
    ) -> impl Future<Output = Result<SendGuard<S>, Fault>> + Send + use<S> {
        let (limits, table) = (self.shared.limits, self.clone());
        Wait::new(self.clone(), id.clone(), move |state: &mut State<S>, id: &ReqId, waited: bool| {
            let Some(entry) = state.entries.get_mut(id) else { return state.early(id, waited, &limits) };
            match &entry.phase {
                _ if entry.release_requested => Poll::Ready(Err(not_active(id))),
                Phase::Encoding => Poll::Pending,
                Phase::Failed(fault) => Poll::Ready(Err(fault.clone())),
                Phase::Staged(rows) => {
                    let rows = Some(rows.clone());
                    entry.receive_count = entry.receive_count.or(receive_count);
                    entry.fetched.insert(to.clone());
                    entry.sends += 1;
                    Poll::Ready(Ok(SendGuard::new(table.clone(), id.clone(), entry.generation, rows, true)))
                }
            }
        })
    }

    /// Releases what was published longer ago than the limit and that nobody holds.
    pub fn sweep(&self, now: Instant) -> Vec<Swept> {
        let ttl = self.shared.limits.metadata_ttl;
        self.change(|state| {
            let age = |entry: &Entry<S>| now.saturating_duration_since(entry.published);
            let stale = |entry: &&Entry<S>| !entry.encoding && entry.sends == 0 && age(entry) >= ttl;
            let swept: Vec<Swept> = (state.entries.iter())
                .filter(|(_, entry)| stale(entry))
                .map(|(id, entry)| Swept {
                    id: id.clone(),
                    age: age(entry),
                    staged: matches!(entry.phase, Phase::Staged(_)),
                })
                .collect();
            swept.iter().for_each(|gone| state.remove(&gone.id));
            swept
        })
    }

    /// What is in it now.
    pub fn stats(&self) -> Stats {
        self.change(|state| {
            let early = state.waiters.iter().filter(|(id, _)| !state.entries.contains_key(*id));
            Stats {
                entries: state.entries.len(),
                staged: state.entries.values().filter(|e| matches!(e.phase, Phase::Staged(_))).count(),
                active_sends: state.entries.values().map(|e| e.sends).sum(),
                early_waiters: early.map(|(_, wakers)| wakers.len()).sum(),
            }
        })
    }
}

impl<S> State<S> {
    /// The entry of a guard, if it is still the same one.
    pub fn own(&mut self, id: &ReqId, generation: u64) -> Option<&mut Entry<S>> {
        self.entries.get_mut(id).filter(|entry| entry.generation == generation)
    }

    /// Wakes whoever waits under an id. They look again and wait again if they must.
    pub fn wake(&mut self, id: &ReqId) {
        if let Some(wakers) = self.waiters.get(id) {
            self.to_wake.extend(wakers.values().cloned());
        }
    }

    /// Removes an entry if it is over, and says so.
    pub fn settle(&mut self, id: &ReqId) {
        if self.entries.get(id).is_some_and(Entry::is_over) {
            self.remove(id);
        } else {
            self.wake(id);
        }
    }

    fn remove(&mut self, id: &ReqId) {
        if self.entries.remove(id).is_some() {
            self.remember(id, not_active(id));
            self.wake(id);
        }
    }

    fn remember(&mut self, id: &ReqId, why: Fault) {
        if self.ended.insert(id.clone(), why).is_none() {
            self.ended_in_order.push_back(id.clone());
        }
        while self.ended_in_order.len() > REMEMBERED {
            if let Some(oldest) = self.ended_in_order.pop_front() {
                self.ended.remove(&oldest);
            }
        }
    }

    /// A wait under an id without an entry: over if the id ended, refused if too many wait.
    fn early<T>(&self, id: &ReqId, waited: bool, limits: &Limits) -> Poll<Result<T, Fault>> {
        if let Some(why) = self.ended.get(id) {
            return Poll::Ready(Err(why.clone()));
        }
        if !waited && self.waiting >= limits.max_early_waiters {
            let message = format!("{} calls wait for encodes that have not begun", limits.max_early_waiters);
            return Poll::Ready(Err(Fault::new(Reason::Overloaded, message)));
        }
        Poll::Pending
    }
}
