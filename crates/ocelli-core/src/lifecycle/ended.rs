//! Why an id has no entry any more, for a bounded number of ids and a bounded time: who comes late is
//! told at once instead of waiting for an encode that was here already.

use crate::{Fault, ReqId};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// So many ids are remembered: about a MiB with ids and messages of the usual length.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(super) struct Ended {
    notes: HashMap<ReqId, Note>,
    /// Oldest first. An id that ended, began and ended again is here twice; its older stamp means nothing.
    in_order: VecDeque<(ReqId, u64)>,
    next_stamp: u64,
}

struct Note {
    why: Fault,
    stamp: u64,
    /// `None` until a time is known.
    since: Option<Instant>,
}

impl Ended {
    pub fn why(&self, id: &ReqId) -> Option<&Fault> {
        self.notes.get(id).map(|note| &note.why)
    }

    pub fn remember(&mut self, id: &ReqId, why: Fault, since: Option<Instant>) {
        self.next_stamp += 1;
        let stamp = self.next_stamp;
        self.notes.insert(id.clone(), Note { why, stamp, since });
        self.in_order.push_back((id.clone(), stamp));
        while self.in_order.len() > REMEMBERED {
            self.forget_oldest();
        }
    }

    /// The id is in use again.
    pub fn forget(&mut self, id: &ReqId) {
        self.notes.remove(id);
    }

    /// Forgets what ended longer ago than `ttl`.
    pub fn expire(&mut self, now: Instant, ttl: Duration) {
        while let Some((id, stamp)) = self.in_order.front() {
            if let Some(note) = self.notes.get_mut(id).filter(|note| note.stamp == *stamp) {
                let since = *note.since.get_or_insert(now);
                if now.saturating_duration_since(since) < ttl {
                    break;
                }
            }
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((id, stamp)) = self.in_order.pop_front()
            && self.notes.get(&id).is_some_and(|note| note.stamp == stamp)
        {
            self.notes.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn id(n: usize) -> ReqId {
        ReqId::new(&format!("r{n}")).expect("id")
    }

    fn fault() -> Fault {
        Fault::new(Reason::NotActive, "gone")
    }

    #[test]
    fn the_oldest_are_forgotten_first_and_an_id_that_ended_again_counts_as_new() {
        let mut ended = Ended::default();
        (0..REMEMBERED).for_each(|n| ended.remember(&id(n), fault(), None));
        ended.forget(&id(0));
        ended.remember(&id(0), fault(), None);
        assert!(ended.why(&id(0)).is_some(), "its older stamp does not take it along");
        ended.remember(&id(REMEMBERED), fault(), None);
        assert!(ended.why(&id(1)).is_none());
        assert!(ended.why(&id(2)).is_some());
        assert_eq!(ended.in_order.len(), REMEMBERED);
    }

    #[test]
    fn nothing_is_remembered_for_longer_than_the_limit() {
        let (mut ended, start, ttl) = (Ended::default(), Instant::now(), Duration::from_secs(10));
        ended.remember(&id(0), fault(), None);
        ended.expire(start, ttl); // from now on its age is known
        ended.remember(&id(1), fault(), Some(start + ttl / 2));
        ended.expire(start + ttl, ttl);
        assert!(ended.why(&id(0)).is_none());
        assert!(ended.why(&id(1)).is_some());
        ended.expire(start + ttl * 2, ttl);
        assert!(ended.why(&id(1)).is_none() && ended.in_order.is_empty());
    }
}
