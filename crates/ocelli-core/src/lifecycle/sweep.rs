//! The backstop: what nobody came for is released, and said.

use super::entry::{Entry, Phase};
use super::table::Table;
use crate::ReqId;
use std::time::{Duration, Instant};

/// Something that the sweep released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Whose.
    pub id: ReqId,
    /// Since something was last published.
    pub age: Duration,
    /// What it held.
    pub phase: SweptPhase,
}

/// What an entry that nobody came for held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweptPhase {
    /// Rows that not everybody fetched.
    Staged,
    /// The fault of its encode, kept for those who ask.
    Failed,
}

impl<S: Clone + Send> Table<S> {
    /// Releases what was kept, and published longer ago than the limit: at once, or when the sends that
    /// go on have ended. An encode that is held is its holder's to end. Ids that ended as long ago are
    /// forgotten.
    pub fn sweep(&self, now: Instant) -> Vec<Swept> {
        let ttl = self.limits().metadata_ttl;
        self.change(|state| {
            state.it_is(now);
            let age = |entry: &Entry<S>| now.saturating_duration_since(entry.published);
            let stale = |entry: &Entry<S>| !entry.encoding && !entry.release_requested && age(entry) >= ttl;
            let swept: Vec<Swept> = (state.entries.iter_mut())
                .filter(|(_, entry)| stale(entry))
                .map(|(id, entry)| {
                    entry.release_requested = true;
                    let failed = matches!(entry.phase, Phase::Failed(_));
                    let phase = if failed { SweptPhase::Failed } else { SweptPhase::Staged };
                    Swept { id: id.clone(), age: age(entry), phase }
                })
                .collect();
            swept.iter().for_each(|gone| state.settle(&gone.id));
            state.ended.expire(now, ttl);
            swept
        })
    }
}
