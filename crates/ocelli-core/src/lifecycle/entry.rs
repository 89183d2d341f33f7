//! One request: its phase, its destinations, who holds it.

use super::Sizes;
use crate::{Destination, Fault, Reason, ReqId};
use std::collections::HashSet;
use std::time::Instant;

/// How far an encode has come.
pub(super) enum Phase<S> {
    /// Items are being prepared or encoded.
    Encoding,
    /// The rows are there.
    Staged(S),
    /// There will be none.
    Failed(Fault),
}

pub(super) struct Entry<S> {
    /// Tells apart entries that had the same id one after another.
    pub generation: u64,
    pub phase: Phase<S>,
    pub sizes: Option<Sizes>,
    /// When something was last published; what the sweep goes by.
    pub published: Instant,
    /// In the order of registration, each once.
    pub destinations: Vec<Destination>,
    /// How many of them the encode has been told of.
    pub yielded: usize,
    /// Fixed by the first registration.
    pub receive_count: Option<u32>,
    /// The encode's guard is held.
    pub encoding: bool,
    /// Send guards that are held.
    pub sends: usize,
    /// Destinations that fetched for themselves (one-sided backends).
    pub fetched: HashSet<Destination>,
    /// Nothing new may begin; it is gone when the last guard is.
    pub release_requested: bool,
}

impl<S> Entry<S> {
    pub fn new(generation: u64, now: Instant) -> Self {
        Self {
            generation,
            phase: Phase::Encoding,
            sizes: None,
            published: now,
            destinations: Vec::new(),
            yielded: 0,
            receive_count: None,
            encoding: true,
            sends: 0,
            fetched: HashSet::new(),
            release_requested: false,
        }
    }

    /// A second encode under this id must not begin. A failed one only lingers to tell its destinations.
    pub fn blocks_begin(&self) -> bool {
        !matches!(self.phase, Phase::Failed(_))
    }

    /// Nobody holds it and it is to go.
    pub fn is_over(&self) -> bool {
        self.release_requested && !self.encoding && self.sends == 0
    }

    /// Adds a destination; a repeat is harmless.
    pub fn register(&mut self, id: &ReqId, to: Destination, count: u32) -> Result<(), Fault> {
        if self.release_requested {
            return Err(not_active(id));
        }
        let registered = *self.receive_count.get_or_insert(count);
        if registered != count {
            let message = format!("Inconsistent receive_count for req_id={id}: registered {registered}, got {count}");
            return Err(Fault::new(Reason::InconsistentReceiveCount, message));
        }
        if self.destinations.contains(&to) {
            return Ok(());
        }
        if self.destinations.len() >= count as usize {
            let message = format!("Inconsistent receive_count for req_id={id}: registered {count}, {to} is one more");
            return Err(Fault::new(Reason::InconsistentReceiveCount, message));
        }
        self.destinations.push(to);
        Ok(())
    }

    /// Every destination that there will be has been told to the encode.
    pub fn all_yielded(&self) -> bool {
        self.receive_count.is_some_and(|count| self.yielded >= count as usize)
    }

    /// Every destination fetched, and none still does.
    pub fn all_fetched(&self) -> bool {
        self.sends == 0 && self.receive_count.is_some_and(|count| self.fetched.len() >= count as usize)
    }
}

/// The original's message.
pub(super) fn not_active(id: &ReqId) -> Fault {
    Fault::new(Reason::NotActive, format!("Encoder request is not active: {id}"))
}
