//! Windows of Qwen2.5-VL: merge groups in another order, so that those of a window are neighbours.

use super::geometry::Place;
use ocelli_core::GridThw;
use ocelli_engine::Segments;

/// The order that makes windows contiguous, and back.
pub(crate) struct Windows {
    /// Merge group `order[i]` of the processor's order comes `i`-th.
    pub order: Vec<u32>,
    /// The inverse permutation.
    pub back: Vec<u32>,
    /// A segment for each window, in patches.
    pub segments: Segments,
}

impl Windows {
    /// Windows of `side`×`side` merge groups of `group` patches, those at the right and bottom edges smaller, frame by frame
    /// (`get_vision_window_index`).
    pub(crate) fn new(grids: &[GridThw], merge: u32, side: u32) -> Self {
        let group = (merge * merge) as usize;
        let groups = grids.iter().map(|grid| grid.rows(merge)).sum();
        let (mut order, mut lengths) = (Vec::with_capacity(groups), Vec::new());
        let mut first = 0u32;
        for grid in grids {
            let (rows, cols) = (grid.h / merge, grid.w / merge);
            for _frame in 0..grid.t {
                for top in (0..rows).step_by(side as usize) {
                    for left in (0..cols).step_by(side as usize) {
                        let before = order.len();
                        for row in top..rows.min(top + side) {
                            order.extend((left..cols.min(left + side)).map(|col| first + row * cols + col));
                        }
                        lengths.push((order.len() - before) * group);
                    }
                }
                first += rows * cols;
            }
        }
        let mut back = vec![0; order.len()];
        for (at, &from) in (0u32..).zip(&order) {
            back[from as usize] = at;
        }
        Self { order, back, segments: Segments::from_lengths(lengths) }
    }

    /// Places of patches in the order of the windows; `group` patches stay together.
    pub(crate) fn reorder(&self, places: &[Place], group: usize) -> Vec<Place> {
        let patches = self.order.iter().flat_map(|&from| &places[from as usize * group..][..group]);
        patches.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_at_the_edges_are_smaller() {
        // 3×5 groups in windows of 2×2
        let windows = Windows::new(&[GridThw::new(1, 6, 10)], 2, 2);
        assert_eq!(windows.order, [0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14]);
        assert_eq!(windows.segments.bounds(), [0, 16, 32, 40, 48, 56, 60]);
        assert!(windows.order.iter().zip(0..).all(|(&from, at)| windows.back[from as usize] == at));
    }
}
