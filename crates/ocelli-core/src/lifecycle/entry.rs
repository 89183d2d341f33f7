//! One request: its phase, whom it is owed to, who holds it.

use super::Sizes;
use super::sends::Owed;
use crate::{Fault, Reason, ReqId};
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
    pub owed: Owed,
    /// The encode's guard is held.
    pub encoding: bool,
    /// Send guards that are held.
    pub sends: usize,
    /// Nothing new may begin; it is gone when the last guard is.
    pub release_requested: bool,
}

impl<S> Entry<S> {
    pub fn new(generation: u64, owed: Owed, now: Instant) -> Self {
        Self {
            generation,
            phase: Phase::Encoding,
            sizes: None,
            published: now,
            owed,
            encoding: true,
            sends: 0,
            release_requested: false,
        }
    }

    /// A second encode under this id must not begin. A failed one only lingers to tell its destinations,
    /// and gives way.
    pub fn blocks_begin(&self) -> bool {
        !matches!(self.phase, Phase::Failed(_))
    }

    /// Nobody holds it and it is to go.
    pub fn is_over(&self) -> bool {
        self.release_requested && !self.encoding && self.sends == 0
    }

    /// Every destination has fetched, and none still does.
    pub fn is_served(&self) -> bool {
        self.sends == 0 && self.owed.all_fetched()
    }
}

/// The original's message.
pub(super) fn not_active(id: &ReqId) -> Fault {
    Fault::new(Reason::NotActive, format!("Encoder request is not active: {id}"))
}
