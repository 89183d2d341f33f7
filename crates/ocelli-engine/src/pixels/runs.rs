//! Where the bytes of an output row belong among the patches.

use super::patches::PatchLayout;

/// Where the runs of one output row go: patch column `i`'s to `places[i]`, counted from the row and channel
/// in the first patch.
pub(super) struct Runs {
    layout: PatchLayout,
    places: Vec<usize>,
    furthest: usize,
}

impl Runs {
    /// For rows of this many patch columns.
    pub(super) fn new(columns: usize, layout: PatchLayout) -> Self {
        Self { layout, places: vec![0; columns], furthest: 0 }
    }

    /// Moves to another row of patches.
    pub(super) fn of_band(&mut self, band: usize) {
        let PatchLayout { patch, merge } = self.layout;
        let groups = self.places.len() / merge;
        for (column, place) in self.places.iter_mut().enumerate() {
            let group = (band / merge) * groups + column / merge;
            *place = ((group * merge + band % merge) * merge + column % merge) * 3 * patch * patch;
        }
        self.furthest = self.places.iter().copied().max().unwrap_or(0);
    }

    /// Offsets in bytes.
    pub(super) fn places(&self) -> &[usize] {
        &self.places
    }

    /// The largest of them.
    pub(super) fn furthest(&self) -> usize {
        self.furthest
    }
}
