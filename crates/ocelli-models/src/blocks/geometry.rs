//! Where each patch of a batch is.

use crate::Prepared;
use ocelli_core::GridThw;
use ocelli_engine::{EngineError, Segments};

/// Row and column of a patch in its picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub row: u32,
    pub col: u32,
}

/// The grids of a batch, each divisible into merge groups of `merge`×`merge`.
pub(crate) fn grids(batch: &[&Prepared], merge: u32) -> Result<Vec<GridThw>, EngineError> {
    let grids: Vec<GridThw> = batch.iter().map(|item| item.grid).collect();
    match grids.iter().position(|grid| !grid.fits_merge(merge)) {
        Some(item) => Err(EngineError::shape("forward", format!("item {item}: {:?} has no whole groups", grids[item]))),
        None if grids.is_empty() => Err(EngineError::shape("forward", "the batch is empty")),
        None => Ok(grids),
    }
}

/// The places of all patches in the order of the processor: merge group by merge group, row by row
/// within it; the same for each frame (`get_vision_position_ids`).
pub(crate) fn places(grids: &[GridThw], merge: u32) -> Vec<Place> {
    let mut places = Vec::with_capacity(grids.iter().map(|grid| grid.patches()).sum());
    for grid in grids {
        let first = places.len();
        for group_row in (0..grid.h).step_by(merge as usize) {
            for group_col in (0..grid.w).step_by(merge as usize) {
                for row in group_row..group_row + merge {
                    places.extend((group_col..group_col + merge).map(|col| Place { row, col }));
                }
            }
        }
        let frame = first..places.len();
        (1..grid.t).for_each(|_| places.extend_from_within(frame.clone()));
    }
    places
}

/// A segment for each frame: what full attention looks over.
pub(crate) fn frames(grids: &[GridThw]) -> Segments {
    Segments::from_lengths(grids.iter().flat_map(|grid| (0..grid.t).map(|_| grid.frame_patches())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_go_group_by_group() {
        let places = places(&[GridThw::new(2, 2, 4)], 2);
        let frame = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)];
        let expected: Vec<Place> = [frame, frame].concat().iter().map(|&(row, col)| Place { row, col }).collect();
        assert_eq!(places, expected);
    }
}
