//! Learned positions on a square grid, resampled bilinearly to a picture's grid, corners on corners.

use super::geometry::Place;
use ocelli_core::GridThw;
use ocelli_engine::PositionTaps;

/// Four rows of a `side`×`side` table and their weights for each patch, in the order of `places`
/// (`get_vision_interpolation_indices_and_weights`, bilinear, `align_corners`).
pub(crate) fn position_taps(grids: &[GridThw], places: &[Place], side: u32) -> Vec<PositionTaps> {
    let grid_of_patch = grids.iter().flat_map(|grid| std::iter::repeat_n(grid, grid.patches()));
    let taps = places.iter().zip(grid_of_patch).map(|(place, grid)| {
        let (rows, row_weights) = axis(place.row, grid.h, side);
        let (cols, col_weights) = axis(place.col, grid.w, side);
        PositionTaps {
            index: std::array::from_fn(|tap| rows[tap / 2] * side + cols[tap % 2]),
            weight: std::array::from_fn(|tap| row_weights[tap / 2] * col_weights[tap % 2]),
        }
    });
    taps.collect()
}

/// The two neighbours of position `at` of `size` on an axis of `side` entries, and their weights, in float32.
fn axis(at: u32, size: u32, side: u32) -> ([u32; 2], [f32; 2]) {
    let last = side - 1;
    let source = at as f32 * last as f32 / size.saturating_sub(1).max(1) as f32;
    let floor = source.floor();
    let low = (floor as u32).min(last);
    let part = source - floor;
    ([low, (low + 1).min(last)], [1.0 - part, part])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_fall_on_corners_and_the_middle_between() {
        assert_eq!(axis(0, 3, 16), ([0, 1], [1.0, 0.0]));
        assert_eq!(axis(1, 3, 16), ([7, 8], [0.5, 0.5]));
        assert_eq!(axis(2, 3, 16), ([15, 15], [1.0, 0.0]));
        assert_eq!(axis(0, 1, 16), ([0, 1], [1.0, 0.0]));
    }
}
