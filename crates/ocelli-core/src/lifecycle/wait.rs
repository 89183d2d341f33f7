//! A future that looks at the table until it is content. Dropping it leaves nothing behind.

use super::table::{State, Table};
use crate::ReqId;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Waits under an id, whether or not there is an entry of it.
pub(super) struct Wait<S, F> {
    table: Table<S>,
    id: ReqId,
    /// Under which its waker is kept, once it has waited.
    key: Option<u64>,
    look: F,
}

impl<S, F> Wait<S, F> {
    pub fn new(table: Table<S>, id: ReqId, look: F) -> Self {
        Self { table, id, key: None, look }
    }
}

impl<S, T, F> Future for Wait<S, F>
where
    F: FnMut(&mut State<S>, &ReqId, bool) -> Poll<T> + Unpin,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let Self { table, id, key, look } = this;
        table.change(|state| match look(state, id, key.is_some()) {
            Poll::Ready(value) => {
                if let Some(key) = key.take() {
                    state.forget_waker(id, key);
                }
                Poll::Ready(value)
            }
            Poll::Pending => {
                *key = Some(state.keep_waker(id, *key, context.waker()));
                Poll::Pending
            }
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
        let key = key.unwrap_or_else(|| {
            self.next_waiter += 1;
            self.next_waiter
        });
        let wakers = self.waiters.entry(id.clone()).or_default();
        match wakers.get_mut(&key) {
            Some(kept) => kept.clone_from(waker),
            None => {
                wakers.insert(key, waker.clone());
                self.waiting += 1;
            }
        }
        key
    }

    fn forget_waker(&mut self, id: &ReqId, key: u64) {
        let Some(wakers) = self.waiters.get_mut(id) else { return };
        if wakers.remove(&key).is_some() {
            self.waiting -= 1;
        }
        if wakers.is_empty() {
            self.waiters.remove(id);
        }
    }
}
