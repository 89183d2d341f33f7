//! Items that wait for a device, oldest first.
//!
//! First in, first out: nothing is overtaken, so nothing starves. A batch is the longest run from the
//! front that fits the limits. Items that nobody waits for any more cost no room in it.

use super::batch::{BatchLimits, Filling, Work};
use crate::{Fault, Reason};
use std::collections::VecDeque;

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

    /// Whether one more would be refused.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= self.max_items
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
        if self.is_full() {
            let message = format!("{} items wait for the device already (--max-pending-requests)", self.max_items);
            return Err(Fault::new(Reason::Overloaded, message));
        }
        self.bytes = self.bytes.saturating_add(work.bytes);
        self.waiting.push_back(Waiting { item, request, work });
        Ok(())
    }

    /// Takes the next batch. Items that nobody waits for any more are dropped on the way.
    pub fn next_batch(&mut self, limits: BatchLimits, is_live: impl Fn(&T) -> bool) -> Vec<T> {
        let (mut batch, mut filling) = (Vec::new(), Filling::new(limits));
        while let Some(first) = self.waiting.pop_front() {
            // asked once: who waits may leave between two looks
            let live = is_live(&first.item);
            if live && !filling.try_add(first.request, first.work) {
                self.waiting.push_front(first);
                break;
            }
            self.bytes = self.bytes.saturating_sub(first.work.bytes);
            if live {
                batch.push(first.item);
            }
        }
        batch
    }

    /// Drops what nobody waits for any more: a burst of cancelled items must not keep out new ones.
    pub fn drop_dead(&mut self, is_live: impl Fn(&T) -> bool) {
        let mut bytes = 0usize;
        self.waiting.retain(|one| {
            let live = is_live(&one.item);
            bytes = bytes.saturating_add(if live { one.work.bytes } else { 0 });
            live
        });
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(work: &[(u64, usize)]) -> Queue<usize> {
        let mut queue = Queue::new(100);
        for (i, (request, patches)) in work.iter().enumerate() {
            queue.push(i, *request, Work { patches: *patches, bytes: 1 }).unwrap();
        }
        queue
    }

    /// Weakness 3, Q56: a batch is bounded by work, and by distinct requests.
    #[test]
    fn a_batch_is_bounded_by_patches_and_by_distinct_requests() {
        let limits = BatchLimits { max_requests: 2, max_patches: 100 };
        let mut queue = filled(&[(1, 40), (1, 40), (1, 40), (2, 10), (3, 10), (4, 10)]);
        assert_eq!(queue.next_batch(limits, |_| true), [0, 1]);
        assert_eq!(queue.next_batch(limits, |_| true), [2, 3]);
        assert_eq!(queue.next_batch(limits, |_| true), [4, 5]);
        assert!(queue.is_empty() && queue.bytes() == 0);
    }

    /// Q56: 8 pictures of 16k patches with a budget of 32k are 4 forwards.
    #[test]
    fn eight_large_pictures_are_four_forwards() {
        let limits = BatchLimits { max_requests: 8, max_patches: 32 * 1024 };
        let mut queue = filled(&[(0, 16 * 1024); 8]);
        let forwards = std::iter::from_fn(|| Some(queue.next_batch(limits, |_| true)).filter(|b| !b.is_empty()));
        assert_eq!(forwards.map(|batch| batch.len()).collect::<Vec<_>>(), [2, 2, 2, 2]);
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

    /// Q9, Q10: a full queue of cancelled items has room again at once.
    #[test]
    fn a_full_queue_is_overload_until_the_cancelled_are_dropped() {
        let mut queue = Queue::new(2);
        let work = Work { patches: 10, bytes: 100 };
        queue.push(0, 0, work).unwrap();
        queue.push(1, 1, work).unwrap();
        let refused = queue.push(2, 2, work).unwrap_err();
        assert_eq!((refused.reason, queue.len(), queue.bytes()), (Reason::Overloaded, 2, 200));
        queue.drop_dead(|i| *i == 1);
        assert_eq!((queue.is_full(), queue.bytes()), (false, 100));
        queue.push(2, 2, work).unwrap();
        assert_eq!(queue.next_batch(BatchLimits { max_requests: 8, max_patches: 100 }, |_| true), [1, 2]);
    }
}
