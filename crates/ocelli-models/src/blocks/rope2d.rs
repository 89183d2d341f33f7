//! Rotary angles from (row, column): the first half of a head's frequencies turn with the row, the
//! second with the column.

use super::geometry::Place;
use ocelli_engine::{EngineError, Ops, Rope};

/// Base of the frequencies: `theta` of the vision rotary embedding in transformers' modelling code.
const THETA: f32 = 10_000.0;

/// Cosines and sines `[places, head_dim/2]`. `head_dim` is a multiple of 4.
pub(crate) fn rope2d(ops: &dyn Ops, places: &[Place], head_dim: usize) -> Result<Rope, EngineError> {
    let quarter = head_dim / 4;
    // inv_freq[i] = θ^(−2i / (head_dim/2)), in float32 as the reference
    let frequencies: Vec<f32> =
        (0..quarter).map(|i| 1.0 / THETA.powf((2 * i) as f32 / (head_dim / 2) as f32)).collect();
    // one row of angles for each position that occurs; places repeat them
    let positions = places.iter().map(|place| place.row.max(place.col) + 1).max().unwrap_or(0);
    let angles: Vec<f32> = (0..positions).flat_map(|p| frequencies.iter().map(move |f| p as f32 * f)).collect();
    let table = |of: fn(f32) -> f32| {
        let values: Vec<f32> = angles.iter().map(|&angle| of(angle)).collect();
        let mut rows = Vec::with_capacity(places.len() * 2 * quarter);
        for place in places {
            for position in [place.row, place.col] {
                rows.extend_from_slice(&values[position as usize * quarter..][..quarter]);
            }
        }
        ops.upload(&rows, places.len())
    };
    Ok(Rope { cos: table(f32::cos)?, sin: table(f32::sin)? })
}
