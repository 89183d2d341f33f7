//! The queue under random pushes, cancellations and batches, against a list that is searched from the front.

use ocelli_core::scheduler::{BatchLimits, Queue, Work};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};

const MAX_ITEMS: usize = 12;

#[derive(Debug, Clone)]
enum Step {
    /// An item of a request, with its patches.
    Push(u64, usize),
    /// The n-th that waits, from the front, is waited for no longer.
    Cancel(usize),
    DropDead,
    Batch,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..6u64, 0..60usize).prop_map(|(request, patches)| Step::Push(request, patches)),
        2 => (0..MAX_ITEMS).prop_map(Step::Cancel),
        1 => Just(Step::DropDead),
        2 => Just(Step::Batch),
    ]
}

/// What waits as the model sees it: (item, request, patches), oldest first.
type Waiting = VecDeque<(usize, u64, usize)>;

/// The batch by its definition: the longest run of live items from the front that keeps the limits, or
/// the first alone.
fn expected(waiting: &Waiting, dead: &HashSet<usize>, limits: BatchLimits) -> Vec<usize> {
    let live: Vec<_> = waiting.iter().filter(|(item, ..)| !dead.contains(item)).collect();
    let keeps_limits = |n: &usize| {
        let requests: HashSet<u64> = live[..*n].iter().map(|(_, request, _)| *request).collect();
        let patches: usize = live[..*n].iter().map(|(.., patches)| patches).sum();
        requests.len() <= limits.max_requests && patches <= limits.max_patches
    };
    let longest = (0..=live.len()).filter(keeps_limits).max().unwrap_or(0).max(live.len().min(1));
    live[..longest].iter().map(|(item, ..)| *item).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        rng_seed: RngSeed::Fixed(20_260_101),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_batch_is_the_longest_run_from_the_front_and_nothing_is_lost_or_overtaken(
        steps in prop::collection::vec(step(), 1..80),
        max_requests in 1..5usize,
        max_patches in 1..120usize,
    ) {
        let limits = BatchLimits { max_requests, max_patches };
        let (mut queue, mut waiting, dead) = (Queue::new(MAX_ITEMS), Waiting::new(), RefCell::new(HashSet::new()));
        let live = |item: &usize| !dead.borrow().contains(item);
        for (item, step) in steps.into_iter().chain(std::iter::repeat_n(Step::Batch, MAX_ITEMS)).enumerate() {
            match step {
                Step::Push(request, patches) => {
                    let full = waiting.len() == MAX_ITEMS;
                    prop_assert_eq!(queue.push(item, request, Work { patches, bytes: patches * 3 }).is_err(), full);
                    if !full {
                        waiting.push_back((item, request, patches));
                    }
                }
                Step::Cancel(n) => dead.borrow_mut().extend(waiting.get(n).map(|(item, ..)| *item)),
                Step::DropDead => {
                    queue.drop_dead(live);
                    waiting.retain(|(item, ..)| live(item));
                }
                Step::Batch => {
                    let right = expected(&waiting, &dead.borrow(), limits);
                    prop_assert_eq!(&queue.next_batch(limits, live), &right);
                    // with the batch go the dead between and directly behind its items
                    while waiting.front().is_some_and(|(item, ..)| right.contains(item) || !live(item)) {
                        waiting.pop_front();
                    }
                }
            }
            prop_assert_eq!(queue.len(), waiting.len());
            prop_assert_eq!(queue.bytes(), waiting.iter().map(|(.., patches)| patches * 3).sum::<usize>());
        }
        prop_assert!(queue.is_empty(), "as many batches as there is room empty it: nothing starves");
    }
}
