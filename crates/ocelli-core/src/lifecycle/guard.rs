//! What holds an entry alive. Dropping is releasing.

use super::Sizes;
use super::entry::{Phase, not_active};
use super::table::{State, Table};
use super::wait::{Seen, Wait};
use crate::{Destination, Fault, Reason, ReqId};
use std::future::Future;
use std::task::Poll;
use std::time::Instant;

/// An encode that is going on. Dropping it releases the entry: at once, or when the last send ends.
pub struct EncodeGuard<S: Clone + Send> {
    table: Table<S>,
    id: ReqId,
    generation: u64,
    kept: bool,
}

impl<S: Clone + Send> EncodeGuard<S> {
    pub(super) fn new(table: Table<S>, id: ReqId, generation: u64) -> Self {
        Self { table, id, generation, kept: false }
    }

    /// The part's id.
    pub fn id(&self) -> &ReqId {
        &self.id
    }

    /// Tells whoever waits for sizes.
    pub fn publish_sizes(&self, sizes: Sizes, now: Instant) {
        self.table.change(|state| {
            if let Some(entry) = state.own(&self.id, self.generation) {
                (entry.sizes, entry.published) = (Some(sizes), now);
                state.it_is(now);
                state.wake(&self.id);
            }
        });
    }

    /// Puts the rows where sends find them.
    ///
    /// # Errors
    /// `NotActive` when the entry was released or replaced, `Internal` when it was staged or failed before.
    pub fn stage(&self, rows: S) -> Result<(), Fault> {
        self.table.change(|state| {
            let entry = match state.own(&self.id, self.generation) {
                Some(entry) if matches!(entry.phase, Phase::Encoding) => entry,
                other => {
                    let why = match other {
                        Some(_) => Fault::new(Reason::Internal, "a request is staged once"),
                        None => not_active(&self.id),
                    };
                    state.after.phases.push(Phase::Staged(rows));
                    return Err(why);
                }
            };
            entry.phase = Phase::Staged(rows);
            state.wake(&self.id);
            Ok(())
        })
    }

    /// There will be no rows: waiters are told why, destinations can still be asked for and told.
    pub fn fail(&self, fault: Fault, now: Instant) {
        self.table.change(|state| {
            if let Some(entry) = state.own(&self.id, self.generation) {
                entry.published = now;
                let before = std::mem::replace(&mut entry.phase, Phase::Failed(fault));
                state.after.phases.push(before);
                state.it_is(now);
                state.wake(&self.id);
            }
        });
    }

    /// Each destination once, as it registers, those that are there first. `None`: there will be no more,
    /// or the encode has ended. A destination belongs to the call that returns it; a dropped future takes none along.
    pub fn next_destination(&self) -> impl Future<Output = Option<Destination>> + Send + use<S> {
        let generation = self.generation;
        Wait::new(self.table.clone(), self.id.clone(), move |state: &mut State<S>, id: &ReqId, _: Seen| {
            let Some(entry) = state.own(id, generation) else { return Poll::Ready(None) };
            if entry.release_requested || !entry.encoding {
                return Poll::Ready(None);
            }
            if let Some(next) = entry.owed.next() {
                if entry.owed.all_told() {
                    state.wake(id); // whoever else waits for a destination: there will be none
                }
                return Poll::Ready(Some(next));
            }
            if entry.owed.all_told() { Poll::Ready(None) } else { Poll::Pending }
        })
    }

    /// How many destinations there will be, once one has registered.
    pub fn expected_destinations(&self) -> Option<u32> {
        self.table.change(|state| state.own(&self.id, self.generation).and_then(|entry| entry.owed.receive_count()))
    }

    /// Holds the entry and its rows for one send.
    pub fn begin_send(&self, _to: &Destination) -> SendGuard<S> {
        let rows = self.table.change(|state| {
            let entry = state.own(&self.id, self.generation)?;
            entry.sends += 1;
            match &entry.phase {
                Phase::Staged(rows) => Some(rows.clone()),
                Phase::Encoding | Phase::Failed(_) => None,
            }
        });
        let (table, id) = (self.table.clone(), self.id.clone());
        SendGuard { table, id, generation: self.generation, rows, one_sided: false, failed: false }
    }

    /// Ends the encode and leaves what is staged, or why there is nothing, for one-sided receivers: until
    /// all have fetched, or the sweep. An encode that neither staged nor failed leaves nothing.
    pub fn keep(mut self) {
        self.kept = true;
    }

    /// Ends the request; the same as dropping.
    pub fn release(self) {}
}

impl<S: Clone + Send> Drop for EncodeGuard<S> {
    fn drop(&mut self) {
        self.table.change(|state| {
            let Some(entry) = state.own(&self.id, self.generation) else { return };
            entry.encoding = false;
            let leaves_something = self.kept && !matches!(entry.phase, Phase::Encoding);
            entry.release_requested |= !leaves_something || entry.is_served();
            if !entry.release_requested {
                state.wake(&self.id); // nobody will be told of destinations any more
            }
            state.settle(&self.id);
        });
    }
}

/// One send that is going on. Dropping it ends it; a transfer that was cancelled is drained first, by
/// whoever holds the guard.
pub struct SendGuard<S: Clone + Send> {
    table: Table<S>,
    id: ReqId,
    generation: u64,
    rows: Option<S>,
    /// The destination fetched for itself: the last of them releases the entry.
    one_sided: bool,
    failed: bool,
}

impl<S: Clone + Send> SendGuard<S> {
    pub(super) fn one_sided(table: Table<S>, id: ReqId, generation: u64, rows: S) -> Self {
        Self { table, id, generation, rows: Some(rows), one_sided: true, failed: false }
    }

    /// The rows; `None` when what is sent is an error.
    pub fn rows(&self) -> Option<&S> {
        self.rows.as_ref()
    }

    /// Ends a one-sided send that failed: its request is released, as the original does.
    pub fn fail(mut self) {
        self.failed = true;
    }
}

impl<S: Clone + Send> Drop for SendGuard<S> {
    fn drop(&mut self) {
        self.table.change(|state| {
            let Some(entry) = state.own(&self.id, self.generation) else { return };
            entry.sends = entry.sends.saturating_sub(1);
            let served = !entry.encoding && entry.is_served();
            entry.release_requested |= self.one_sided && (self.failed || served);
            state.settle(&self.id);
        });
    }
}
