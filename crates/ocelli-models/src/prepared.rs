//! What a processor makes of an item and a tower eats: patches in the tower's order, and their grid.

use ocelli_core::GridThw;

/// The patches of one item, in the order of the tower: merge groups first, as the Hugging Face processors
/// flatten them (`grid_t, grid_h/merge, grid_w/merge, merge, merge`).
#[derive(Clone, PartialEq)]
pub enum Patches {
    /// A still picture after resizing, not yet normalised: `[patches, channels·patch·patch]` bytes in
    /// channel, row, column order. Its `temporal_patch_size` frames are all equal and stored once; the
    /// device normalises. 1/8 of the bytes of the reference's `pixel_values`.
    Still(Vec<u8>),
    /// `pixel_values` as the reference has them: normalised,
    /// `[patches, channels·temporal_patch·patch·patch]`.
    Normalised(Vec<f32>),
}

/// One item, ready for the tower.
#[derive(Clone, PartialEq)]
pub struct Prepared {
    /// Its size in patches.
    pub grid: GridThw,
    /// `grid.patches()` rows.
    pub patches: Patches,
}

impl Prepared {
    /// Bytes that the patches occupy.
    pub fn bytes(&self) -> usize {
        match &self.patches {
            Patches::Still(bytes) => bytes.len(),
            Patches::Normalised(values) => values.len() * size_of::<f32>(),
        }
    }
}
