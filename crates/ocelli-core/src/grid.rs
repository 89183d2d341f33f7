//! The one place with the arithmetic of patch grids.

/// Size of one item in patches: temporal steps, rows, columns. `t` is 1 for a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GridThw {
    /// Temporal steps (groups of `temporal_patch_size` frames).
    pub t: u32,
    /// Patches from top to bottom.
    pub h: u32,
    /// Patches from left to right.
    pub w: u32,
}

impl GridThw {
    /// A grid of `t` × `h` × `w` patches.
    pub fn new(t: u32, h: u32, w: u32) -> Self {
        Self { t, h, w }
    }

    /// Patches in all: `t·h·w`, the input rows of the tower.
    pub fn patches(self) -> usize {
        self.t as usize * self.frame_patches()
    }

    /// Patches of one temporal step: `h·w`, the length of a full-attention segment.
    pub fn frame_patches(self) -> usize {
        self.h as usize * self.w as usize
    }

    /// Output rows for a merger that joins `merge`×`merge` patches: `t·h·w / merge²`
    /// (Qwen-VL family; sglang's `get_num_tokens`).
    pub fn rows(self, merge: u32) -> usize {
        self.patches() / (merge as usize * merge as usize)
    }

    /// Whether every side divides into whole merge groups and nothing is empty.
    pub fn fits_merge(self, merge: u32) -> bool {
        merge > 0 && self.patches() > 0 && self.h.is_multiple_of(merge) && self.w.is_multiple_of(merge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_patches_over_merge_squared() {
        let grid = GridThw::new(3, 4, 6);
        assert_eq!((grid.patches(), grid.frame_patches(), grid.rows(2)), (72, 24, 18));
        assert!(grid.fits_merge(2));
        assert!(!GridThw::new(1, 3, 4).fits_merge(2));
        assert!(!GridThw::new(0, 4, 4).fits_merge(2));
    }
}
