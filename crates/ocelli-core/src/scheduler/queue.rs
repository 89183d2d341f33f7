//! Items that wait for a device, and which of them share the next forward.
//!
//! First in, first out: nothing is overtaken, so nothing starves. A batch is the longest run from the
//! front that fits the limits; an item that alone exceeds them goes alone.

use crate::{Fault, Reason};
use std::collections::{HashSet, VecDeque};

/// What one item costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Input rows of the tower.
    pub patches: usize,
    /// Host memory of its patches.
    pub bytes: usize,
}

/// What one forward may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Distinct requests.
    pub max_requests: usize,
    /// Patches; bounds its memory.
    pub max_patches: usize,
}

struct Waiting<T> {
    item: T,
    request: u64,
    work: Work,
}

/// A bounded queue.
pub struct Queue<T> {
    waiting: VecDeque<Waiting<T>>,
    max_items: usize,
    bytes: usize,
}

impl<T> Queue<T> {
    /// An empty one for at most `max_items`.
    pub fn new(max_items: usize) -> Self {
        Self { waiting: VecDeque::new(), max_items, bytes: 0 }
    }

    /// Items that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Host memory of what waits.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an item of a request.
    ///
    /// # Errors
    /// `Overloaded` when it is full.
    pub fn push(&mut self, item: T, request: u64, work: Work) -> Result<(), Fault> {
        if self.waiting.len() >= self.max_items {
            let message = format!("{} items wait for the device already", self.max_items);
            return Err(Fault::new(Reason::Overloaded, message));
        }
        self.bytes += work.bytes;
        self.waiting.push_back(Waiting { item, request, work });
        Ok(())
    }

    /// Takes the next batch. Items that nobody waits for any more are dropped on the way.
    pub fn next_batch(&mut self, limits: BatchLimits, is_live: impl Fn(&T) -> bool) -> Vec<T> {
        let (mut batch, mut requests, mut patches) = (Vec::new(), HashSet::new(), 0usize);
        while let Some(first) = self.waiting.front() {
            if is_live(&first.item) {
                let more_requests = requests.len() + usize::from(!requests.contains(&first.request));
                let more_patches = patches.saturating_add(first.work.patches);
                let fits = more_requests <= limits.max_requests && more_patches <= limits.max_patches;
                if !fits && !batch.is_empty() {
                    break;
                }
                (patches, _) = (more_patches, requests.insert(first.request));
            }
            let Some(taken) = self.waiting.pop_front() else { break };
            self.bytes -= taken.work.bytes;
            if is_live(&taken.item) {
                batch.push(taken.item);
            }
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const WORK: Work = Work { patches: 10, bytes: 100 };

    fn filled(work: &[(u64, usize)]) -> Queue<usize> {
        let mut queue = Queue::new(100);
        for (i, (request, patches)) in work.iter().enumerate() {
            queue.push(i, *request, Work { patches: *patches, bytes: 1 }).unwrap();
        }
        queue
    }

    #[test]
    fn a_batch_is_bounded_by_patches_and_by_distinct_requests() {
        let limits = BatchLimits { max_requests: 2, max_patches: 100 };
        let mut queue = filled(&[(1, 40), (1, 40), (1, 40), (2, 10), (3, 10), (4, 10)]);
        assert_eq!(queue.next_batch(limits, |_| true), [0, 1]);
        assert_eq!(queue.next_batch(limits, |_| true), [2, 3]);
        assert_eq!(queue.next_batch(limits, |_| true), [4, 5]);
        assert!(queue.is_empty() && queue.bytes() == 0);
    }

    #[test]
    fn an_item_beyond_the_budget_goes_alone() {
        let limits = BatchLimits { max_requests: 8, max_patches: 100 };
        let mut queue = filled(&[(1, 10), (2, 500), (3, 10)]);
        assert_eq!(queue.next_batch(limits, |_| true), [0]);
        assert_eq!(queue.next_batch(limits, |_| true), [1]);
        assert_eq!(queue.next_batch(limits, |_| true), [2]);
    }

    #[test]
    fn what_nobody_waits_for_is_dropped_and_costs_no_room_in_the_batch() {
        let limits = BatchLimits { max_requests: 1, max_patches: 10 };
        let mut queue = filled(&[(1, 10), (2, 10), (3, 10)]);
        assert_eq!(queue.next_batch(limits, |i| *i == 2), [2]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_full_queue_is_overload() {
        let mut queue = Queue::new(1);
        queue.push(0, 0, WORK).unwrap();
        assert_eq!(queue.push(1, 1, WORK).unwrap_err().reason, Reason::Overloaded);
        assert_eq!(queue.len(), 1);
    }

    /// 2,000 seeded schedules: conserved, in order, bounded, and the queue always moves.
    #[test]
    fn random_schedules_conserve_order_and_bounds() {
        for seed in 0..2000u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let limits = BatchLimits { max_requests: 1 + random(4) as usize, max_patches: 1 + random(60) as usize };
            let mut queue = Queue::new(16);
            let dead = RefCell::new(HashSet::new());
            let (mut pushed, mut next) = (0u64, 0u64);
            let work = |i: u64| (i / 2, 1 + (i * 7 % 40) as usize);
            for _ in 0..60 {
                match random(3) {
                    0 => {
                        let (request, patches) = work(pushed);
                        if queue.push(pushed, request, Work { patches, bytes: 3 }).is_ok() {
                            pushed += 1;
                        } else {
                            assert_eq!(queue.len(), 16, "seed {seed}");
                        }
                    }
                    1 if pushed > next => drop(dead.borrow_mut().insert(next + random(pushed - next))),
                    _ => {
                        let before = queue.len();
                        let batch = queue.next_batch(limits, |i| !dead.borrow().contains(i));
                        assert!(before == 0 || queue.len() < before, "seed {seed}: the queue does not move");
                        let patches: usize = batch.iter().map(|i| work(*i).1).sum();
                        let requests: HashSet<u64> = batch.iter().map(|i| work(*i).0).collect();
                        assert!(batch.len() <= 1 || patches <= limits.max_patches, "seed {seed}");
                        assert!(requests.len() <= limits.max_requests, "seed {seed}");
                        for i in batch {
                            assert!((next..i).all(|skipped| dead.borrow().contains(&skipped)), "seed {seed}: order");
                            next = i + 1;
                        }
                        next = next.max(pushed - queue.len() as u64);
                    }
                }
            }
        }
    }
}
