//! Who is owed a part: destinations that registered and are sent to (zmq backends), and destinations that
//! fetch for themselves (one-sided backends).

use super::entry::{Phase, not_active};
use super::guard::SendGuard;
use super::table::{Limits, State, Table};
use super::wait::{Seen, Wait};
use crate::{Destination, Fault, Reason, ReqId};
use std::collections::HashSet;
use std::future::Future;
use std::task::Poll;
use std::time::Instant;

/// Destinations of one request.
#[derive(Default)]
pub(super) struct Owed {
    /// In the order of registration, each once.
    registered: Vec<Destination>,
    /// How many of them the encode has been told of.
    told: usize,
    /// How many there will be; the first to say so fixes it.
    receive_count: Option<u32>,
    /// Those that fetched for themselves.
    fetched: HashSet<Destination>,
}

impl Owed {
    pub fn receive_count(&self) -> Option<u32> {
        self.receive_count
    }

    /// Adds a destination; a repeat is harmless.
    fn register(&mut self, id: &ReqId, to: &Destination, count: u32) -> Result<(), Fault> {
        self.agree(id, count)?;
        if self.registered.contains(to) {
            return Ok(());
        }
        if self.registered.len() >= count as usize {
            let message = format!("Inconsistent receive_count for req_id={id}: registered {count}, {to} is one more");
            return Err(Fault::new(Reason::InconsistentReceiveCount, message));
        }
        self.registered.push(to.clone());
        Ok(())
    }

    /// Notes that a destination fetches; a repeat counts once.
    fn fetch(&mut self, id: &ReqId, to: &Destination, count: Option<u32>, max: usize) -> Result<(), Fault> {
        if let Some(count) = count {
            self.agree(id, count)?;
        }
        if !self.fetched.contains(to) && self.fetched.len() >= max {
            let message = format!("{max} destinations fetched req_id={id}; that is the limit");
            return Err(Fault::new(Reason::BadRequest, message));
        }
        self.fetched.insert(to.clone());
        Ok(())
    }

    fn agree(&mut self, id: &ReqId, count: u32) -> Result<(), Fault> {
        let registered = *self.receive_count.get_or_insert(count);
        if registered == count {
            return Ok(());
        }
        let message = format!("Inconsistent receive_count for req_id={id}: registered {registered}, got {count}");
        Err(Fault::new(Reason::InconsistentReceiveCount, message))
    }

    /// The next destination that the encode has not been told of.
    pub fn next(&mut self) -> Option<Destination> {
        let next = self.registered.get(self.told).cloned();
        self.told += usize::from(next.is_some());
        next
    }

    /// The encode has been told of every destination that there will be.
    pub fn all_told(&self) -> bool {
        self.receive_count.is_some_and(|count| self.told >= count as usize)
    }

    /// As many have fetched as there will be.
    pub fn all_fetched(&self) -> bool {
        self.receive_count.is_some_and(|count| self.fetched.len() >= count as usize)
    }

    /// Those that registered and that nobody was told of: a new encode under the id owes them.
    pub fn hand_over(&mut self) -> Self {
        let registered = self.registered.split_off(self.told);
        let receive_count = self.receive_count.filter(|_| !registered.is_empty());
        Self { registered, receive_count, ..Self::default() }
    }
}

/// None, or more than the limit, cannot be served, whatever else is known.
fn check_count(count: u32, limits: &Limits) -> Result<(), Fault> {
    let max = limits.max_destinations;
    if count > 0 && count as usize <= max {
        return Ok(());
    }
    Err(Fault::new(Reason::BadRequest, format!("receive_count is {count}; it must be from 1 to {max}")))
}

impl<S: Clone + Send> Table<S> {
    /// Registers a destination of a part; waits until the part's encode has begun. The first registration
    /// fixes how many there are; a repeat is harmless. The caller bounds the wait; dropping the future
    /// ends it.
    ///
    /// # Errors
    /// `InconsistentReceiveCount`; `NotActive` for an id that was released or is being released; what the
    /// encode was refused with; `Overloaded` when too many wait; `BadRequest` for a count of none or too many.
    pub fn register(
        &self,
        id: &ReqId,
        to: Destination,
        receive_count: u32,
        now: Instant,
    ) -> impl Future<Output = Result<(), Fault>> + Send + use<S> {
        let limits = self.limits();
        Wait::new(self.clone(), id.clone(), move |state: &mut State<S>, id: &ReqId, seen: Seen| {
            state.it_is(now);
            if let Err(fault) = check_count(receive_count, &limits) {
                return Poll::Ready(Err(fault));
            }
            let Some(entry) = state.entries.get_mut(id) else { return state.early(id, seen, &limits) };
            if entry.release_requested {
                return Poll::Ready(Err(not_active(id)));
            }
            let registered = entry.owed.register(id, &to, receive_count);
            if registered.is_ok() {
                state.wake(id);
            }
            Poll::Ready(registered)
        })
    }

    /// For one-sided backends: waits until the rows of a part are staged and holds them for one
    /// destination. When `receive_count` distinct destinations have fetched, the entry is released;
    /// without a count it stays until the sweep.
    ///
    /// # Errors
    /// What the encode failed or was refused with; `NotActive` when it was released or is being released;
    /// `InconsistentReceiveCount`; `Overloaded` when too many wait; `BadRequest` for a count of none or too
    /// many, and for too many destinations.
    pub fn send(
        &self,
        id: &ReqId,
        to: Destination,
        receive_count: Option<u32>,
    ) -> impl Future<Output = Result<SendGuard<S>, Fault>> + Send + use<S> {
        let (limits, table) = (self.limits(), self.clone());
        Wait::new(self.clone(), id.clone(), move |state: &mut State<S>, id: &ReqId, seen: Seen| {
            if let Err(fault) = receive_count.map_or(Ok(()), |count| check_count(count, &limits)) {
                return Poll::Ready(Err(fault));
            }
            let Some(entry) = state.entries.get_mut(id) else { return state.early(id, seen, &limits) };
            match &entry.phase {
                _ if entry.release_requested => Poll::Ready(Err(not_active(id))),
                Phase::Encoding => Poll::Pending,
                Phase::Failed(fault) => Poll::Ready(Err(fault.clone())),
                Phase::Staged(rows) => {
                    let rows = rows.clone();
                    if let Err(fault) = entry.owed.fetch(id, &to, receive_count, limits.max_destinations) {
                        return Poll::Ready(Err(fault));
                    }
                    entry.sends += 1;
                    Poll::Ready(Ok(SendGuard::one_sided(table.clone(), id.clone(), entry.generation, rows)))
                }
            }
        })
    }
}
