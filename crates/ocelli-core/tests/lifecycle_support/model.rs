//! What the table should do, without guards, wakers or locks: counts, flags and lists that are searched.
//! Every step of a schedule is asked of both.

use super::{TTL, limits};
use ocelli_core::Reason;
use ocelli_core::lifecycle::{Sizes, SweptPhase};
use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;
use std::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Encoding,
    /// Which rows.
    Staged(u64),
    Failed,
}

pub struct Entry {
    /// Number of the encode that made it.
    pub encode: usize,
    pub encoding: bool,
    pub phase: Phase,
    pub sizes: Option<Sizes>,
    pub published: Instant,
    pub count: Option<u32>,
    pub registered: Vec<usize>,
    pub told: usize,
    pub fetched: BTreeSet<usize>,
    pub sends: usize,
    pub leaving: bool,
}

/// A wait, as far as the answer depends on its past.
#[derive(Clone, Copy, Default)]
pub struct Past {
    pub waited: bool,
    pub had_entry: bool,
}

pub struct Model {
    pub now: Instant,
    pub entries: BTreeMap<usize, Entry>,
    /// Ids that ended, why and when.
    pub ended: BTreeMap<usize, (Reason, Instant)>,
}

pub type Answer<T> = Poll<Result<T, Reason>>;

impl Model {
    pub fn begin(&mut self, id: usize, encode: usize) -> Result<(), Reason> {
        let before = self.entries.get(&id);
        if before.is_some_and(|e| e.phase != Phase::Failed) {
            return Err(Reason::DuplicateRequest);
        }
        if before.is_none() && self.entries.len() >= limits().max_requests {
            return Err(Reason::Overloaded);
        }
        let registered = before.map(|e| e.registered[e.told..].to_vec()).unwrap_or_default();
        let count = before.and_then(|e| e.count).filter(|_| !registered.is_empty());
        let entry = Entry {
            encode,
            encoding: true,
            phase: Phase::Encoding,
            sizes: None,
            published: self.now,
            count,
            registered,
            told: 0,
            fetched: BTreeSet::new(),
            sends: 0,
            leaving: false,
        };
        self.entries.insert(id, entry);
        self.ended.remove(&id);
        Ok(())
    }

    /// The entry of an encode, unless it is gone or gave way.
    pub fn of(&mut self, id: usize, encode: usize) -> Option<&mut Entry> {
        self.entries.get_mut(&id).filter(|e| e.encode == encode)
    }

    pub fn refuse(&mut self, id: usize) {
        if !self.entries.contains_key(&id) {
            self.ended.insert(id, (Reason::Draining, self.now));
        }
    }

    /// What ends a guard: `f` says what it changes.
    pub fn end(&mut self, id: usize, encode: usize, f: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.of(id, encode) {
            f(entry);
        }
        self.settle(id);
    }

    fn settle(&mut self, id: usize) {
        if self.entries.get(&id).is_some_and(|e| e.leaving && !e.encoding && e.sends == 0) {
            self.entries.remove(&id);
            self.ended.insert(id, (Reason::NotActive, self.now));
        }
    }

    pub fn sweep(&mut self) -> Vec<(usize, SweptPhase)> {
        let mut swept = Vec::new();
        for (id, e) in &mut self.entries {
            if !e.encoding && !e.leaving && self.now.duration_since(e.published) >= TTL {
                e.leaving = true;
                swept.push((*id, if e.phase == Phase::Failed { SweptPhase::Failed } else { SweptPhase::Staged }));
            }
        }
        swept.iter().for_each(|(id, _)| self.settle(*id));
        self.ended.retain(|_, (_, since)| self.now.duration_since(*since) < TTL);
        swept
    }

    /// `early`: waits that go on under ids without an entry.
    fn no_entry<T>(&self, id: usize, past: Past, early: usize) -> Answer<T> {
        match self.ended.get(&id) {
            Some((why, _)) => Poll::Ready(Err(*why)),
            None if past.had_entry => Poll::Ready(Err(Reason::NotActive)),
            None if !past.waited && early >= limits().max_early_waiters => Poll::Ready(Err(Reason::Overloaded)),
            None => Poll::Pending,
        }
    }

    pub fn register(&mut self, id: usize, to: usize, count: u32, past: Past, early: usize) -> Answer<()> {
        if count == 0 || count as usize > limits().max_destinations {
            return Poll::Ready(Err(Reason::BadRequest));
        }
        let Some(e) = self.entries.get_mut(&id) else { return self.no_entry(id, past, early) };
        if e.leaving {
            return Poll::Ready(Err(Reason::NotActive));
        }
        let agreed = *e.count.get_or_insert(count);
        let known = e.registered.contains(&to);
        if agreed != count || (!known && e.registered.len() == count as usize) {
            return Poll::Ready(Err(Reason::InconsistentReceiveCount));
        }
        if !known {
            e.registered.push(to);
        }
        Poll::Ready(Ok(()))
    }

    pub fn sizes(&self, id: usize, past: Past, early: usize) -> Answer<Sizes> {
        let Some(e) = self.entries.get(&id) else { return self.no_entry(id, past, early) };
        match e.sizes {
            _ if e.phase == Phase::Failed => Poll::Ready(Err(Reason::Engine)),
            _ if e.leaving => Poll::Ready(Err(Reason::NotActive)),
            Some(sizes) => Poll::Ready(Ok(sizes)),
            None => Poll::Pending,
        }
    }

    /// The encode whose entry it holds, and which rows.
    pub fn send(&mut self, id: usize, to: usize, count: Option<u32>, past: Past, early: usize) -> Answer<(usize, u64)> {
        let max = limits().max_destinations;
        if count.is_some_and(|c| c == 0 || c as usize > max) {
            return Poll::Ready(Err(Reason::BadRequest));
        }
        let Some(e) = self.entries.get_mut(&id) else { return self.no_entry(id, past, early) };
        match e.phase {
            _ if e.leaving => Poll::Ready(Err(Reason::NotActive)),
            Phase::Encoding => Poll::Pending,
            Phase::Failed => Poll::Ready(Err(Reason::Engine)),
            Phase::Staged(rows) => {
                if let Some(count) = count
                    && *e.count.get_or_insert(count) != count
                {
                    return Poll::Ready(Err(Reason::InconsistentReceiveCount));
                }
                if !e.fetched.contains(&to) && e.fetched.len() == max {
                    return Poll::Ready(Err(Reason::BadRequest));
                }
                e.fetched.insert(to);
                e.sends += 1;
                Poll::Ready(Ok((e.encode, rows)))
            }
        }
    }

    pub fn next(&mut self, id: usize, encode: usize) -> Poll<Option<usize>> {
        let Some(e) = self.of(id, encode).filter(|e| !e.leaving && e.encoding) else { return Poll::Ready(None) };
        if let Some(next) = e.registered.get(e.told) {
            e.told += 1;
            return Poll::Ready(Some(*next));
        }
        if e.is_all_told() { Poll::Ready(None) } else { Poll::Pending }
    }
}

impl Entry {
    pub fn is_all_told(&self) -> bool {
        self.count.is_some_and(|count| self.told >= count as usize)
    }

    pub fn is_served(&self) -> bool {
        self.sends == 0 && self.count.is_some_and(|count| self.fetched.len() >= count as usize)
    }
}
