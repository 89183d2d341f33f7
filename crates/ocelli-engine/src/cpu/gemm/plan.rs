//! How a product is cut into blocks and tasks.

use super::kernel::ROWS;
use super::packed::PANEL;
use std::ops::Range;

/// Most `k` of a block: 16 KiB of a float32 panel and 6 KiB of rows fit a 32 KiB L1 together.
const MAX_DEPTH: usize = 256;
/// Most rows of a block: 144 KiB of `x`, well within a 512 KiB L2.
const MAX_ROWS: usize = 24 * ROWS;
/// Most panels of a task; with [`MAX_ROWS`], it bounds a thread's scratch memory to 0.7 MiB.
const MAX_PANELS: usize = 80;
/// Tasks for each thread, so that a thread that the system delays does not hold up the others.
const TASKS_PER_THREAD: usize = 8;
/// Fewest panels of a task when there are other ways: a task copies its rows once, whatever its width.
const MIN_PANELS: usize = 4;
/// Products of fewer multiplications than this take one core some 40 µs, a few times what waking another costs.
const INLINE_PRODUCTS: usize = 2 << 20;

/// The cut of `k`: it depends on nothing else, so that rows do not depend on their batch.
pub(super) fn depth(k: usize) -> usize {
    even_share(k, MAX_DEPTH, 8)
}

/// Rows and panels of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    rows: usize,
    panels: usize,
    all_rows: usize,
    all_panels: usize,
}

impl Plan {
    pub(super) fn new(rows: usize, panels: usize, k: usize, threads: usize) -> Self {
        let small = rows.saturating_mul(panels * PANEL).saturating_mul(k) < INLINE_PRODUCTS;
        let wanted = if threads <= 1 || small { 1 } else { threads * TASKS_PER_THREAD };
        let task_rows = even_share(rows, MAX_ROWS, ROWS);
        let across = wanted.div_ceil(rows.div_ceil(task_rows));
        let most = panels.div_ceil(across).clamp(MIN_PANELS, MAX_PANELS);
        Self { rows: task_rows, panels: even_share(panels, most, 1), all_rows: rows, all_panels: panels }
    }

    pub(super) fn tasks(&self) -> usize {
        self.all_rows.div_ceil(self.rows) * self.across()
    }

    /// Rows and panels of one task; those of the same rows follow one another.
    pub(super) fn task(&self, task: usize) -> (Range<usize>, Range<usize>) {
        let (row, panel) = (task / self.across() * self.rows, task % self.across() * self.panels);
        (row..(row + self.rows).min(self.all_rows), panel..(panel + self.panels).min(self.all_panels))
    }

    fn across(&self) -> usize {
        self.all_panels.div_ceil(self.panels)
    }
}

/// The share of `total` when it is cut into as few equal parts of at most `most` as possible, rounded up to `multiple`.
fn even_share(total: usize, most: usize, multiple: usize) -> usize {
    let parts = total.div_ceil(most).max(1);
    total.div_ceil(parts).next_multiple_of(multiple).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_cover_each_tile_once() {
        for (rows, panels, k, threads) in [(1, 1, 1, 1), (1024, 240, 1280, 2), (7, 428, 1280, 2), (5000, 3, 64, 16)] {
            let plan = Plan::new(rows, panels, k, threads);
            let mut seen = vec![0u8; rows * panels];
            for task in 0..plan.tasks() {
                let (r, p) = plan.task(task);
                assert!(r.len() <= MAX_ROWS && p.len() <= MAX_PANELS);
                r.for_each(|row| p.clone().for_each(|panel| seen[row * panels + panel] += 1));
            }
            assert!(seen.iter().all(|&times| times == 1), "{rows} {panels} {threads}");
        }
    }

    #[test]
    fn two_threads_get_equal_shares_of_a_tower_layer() {
        assert_eq!(Plan::new(1024, 80, 1280, 2).tasks(), 16);
        assert_eq!((depth(1280), depth(3420), depth(5)), (256, 248, 8));
    }
}
