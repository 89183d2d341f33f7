//! What fits into one forward. The unit is work, not the item: eight requests of fifty large pictures are
//! not "8".

use std::collections::HashSet;

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
    /// Distinct requests (`SGLANG_ENCODER_MAX_BATCH_SIZE`, 8 by default there).
    pub max_requests: usize,
    /// Patches; bounds its memory and its time.
    pub max_patches: usize,
}

/// A batch while it is gathered.
pub(super) struct Filling {
    limits: BatchLimits,
    requests: HashSet<u64>,
    patches: usize,
}

impl Filling {
    pub fn new(limits: BatchLimits) -> Self {
        Self { limits, requests: HashSet::new(), patches: 0 }
    }

    /// Takes an item in, if it fits beside the others. The first always does: what alone exceeds the
    /// limits goes alone, it would never fit better.
    pub fn try_add(&mut self, request: u64, work: Work) -> bool {
        let BatchLimits { max_requests, max_patches } = self.limits;
        let requests = self.requests.len() + usize::from(!self.requests.contains(&request));
        let patches = self.patches.saturating_add(work.patches);
        let fits = self.requests.is_empty() || (requests <= max_requests && patches <= max_patches);
        if fits {
            self.requests.insert(request);
            self.patches = patches;
        }
        fits
    }
}
