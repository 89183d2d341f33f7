//! A future that looks at the table until it is content. Dropping it leaves nothing behind.

use super::table::{State, Table};
use crate::ReqId;
use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Who waits, by id; one lock with the entries, so that no change is missed.
#[derive(Default)]
pub(super) struct Waiters {
    /// Under an id in the order of arrival, and woken in it: a schedule can be repeated.
    by_id: HashMap<ReqId, BTreeMap<u64, Waker>>,
    /// Of them, those whose id has no entry.
    early: usize,
    next_key: u64,
}

impl Waiters {
    pub fn early(&self) -> usize {
        self.early
    }

    pub fn under(&self, id: &ReqId) -> impl Iterator<Item = &Waker> {
        self.by_id.get(id).into_iter().flat_map(BTreeMap::values)
    }

    /// An entry of this id was made: who waits for it is early no longer.
    pub fn entry_made(&mut self, id: &ReqId) {
        self.early -= self.by_id.get(id).map_or(0, BTreeMap::len);
    }

    /// The entry is gone. Who waits is woken, told, and early only until then.
    pub fn entry_gone(&mut self, id: &ReqId) {
        self.early += self.by_id.get(id).map_or(0, BTreeMap::len);
    }

    /// Keeps the waker of a wait; returns its key and the waker that it replaces.
    fn keep(&mut self, id: &ReqId, key: Option<u64>, waker: &Waker, early: bool) -> (u64, Option<Waker>) {
        let key = key.unwrap_or_else(|| {
            self.next_key += 1;
            self.next_key
        });
        let replaced = match self.by_id.get_mut(id).and_then(|wakers| wakers.get_mut(&key)) {
            Some(kept) if kept.will_wake(waker) => None,
            Some(kept) => Some(std::mem::replace(kept, waker.clone())),
            None => {
                self.early += usize::from(early);
                self.by_id.entry(id.clone()).or_default().insert(key, waker.clone())
            }
        };
        (key, replaced)
    }

    fn forget(&mut self, id: &ReqId, key: u64, early: bool) -> Option<Waker> {
        let wakers = self.by_id.get_mut(id)?;
        let forgotten = wakers.remove(&key);
        if wakers.is_empty() {
            self.by_id.remove(id);
        }
        self.early -= usize::from(early && forgotten.is_some());
        forgotten
    }
}

/// What a wait has been through.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// It has been let in to wait.
    pub waited: bool,
    /// Its id had an entry while it waited.
    pub had_entry: bool,
}

/// Waits under an id, whether or not there is an entry of it.
pub(super) struct Wait<S, F> {
    table: Table<S>,
    id: ReqId,
    /// Under which its waker is kept, once it has waited.
    key: Option<u64>,
    had_entry: bool,
    look: F,
}

impl<S, F> Wait<S, F> {
    pub fn new(table: Table<S>, id: ReqId, look: F) -> Self {
        Self { table, id, key: None, had_entry: false, look }
    }
}

impl<S, T, F> Future for Wait<S, F>
where
    F: FnMut(&mut State<S>, &ReqId, Seen) -> Poll<T> + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Self { table, id, key, had_entry, look } = self.get_mut();
        table.change(|state| {
            let result = look(state, id, Seen { waited: key.is_some(), had_entry: *had_entry });
            if result.is_ready() {
                if let Some(key) = key.take() {
                    state.forget_waker(id, key);
                }
            } else {
                *had_entry |= state.entries.contains_key(id);
                *key = Some(state.keep_waker(id, *key, context.waker()));
            }
            result
        })
    }
}

impl<S, F> Drop for Wait<S, F> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.table.change(|state| state.forget_waker(&self.id, key));
        }
    }
}

impl<S> State<S> {
    fn keep_waker(&mut self, id: &ReqId, key: Option<u64>, waker: &Waker) -> u64 {
        let early = !self.entries.contains_key(id);
        let (key, replaced) = self.waiters.keep(id, key, waker, early);
        self.after.forget.extend(replaced);
        key
    }

    fn forget_waker(&mut self, id: &ReqId, key: u64) {
        let early = !self.entries.contains_key(id);
        let forgotten = self.waiters.forget(id, key, early);
        self.after.forget.extend(forgotten);
    }
}
