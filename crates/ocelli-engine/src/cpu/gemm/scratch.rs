//! Memory that a thread keeps for its tasks: fresh pages would cost more than a small task.

use super::packed::{F32Line, PANEL};

/// Float32 values on a cache-line boundary, grown to the largest use so far. Holds old values.
#[derive(Default)]
pub(in crate::cpu) struct Scratch(Vec<F32Line>);

impl Scratch {
    /// At least `lines` lines.
    pub(in crate::cpu) fn lines(&mut self, lines: usize) -> &mut [F32Line] {
        if self.0.len() < lines {
            self.0.resize(lines, F32Line([0.0; PANEL]));
        }
        &mut self.0[..lines]
    }

    /// At least `len` values, rounded up to whole lines.
    pub(in crate::cpu) fn values(&mut self, len: usize) -> &mut [f32] {
        flat(self.lines(len.div_ceil(PANEL)))
    }
}

/// Lines as their values.
pub(in crate::cpu) fn flat(lines: &mut [F32Line]) -> &mut [f32] {
    // SAFETY: a line is 16 float32 without padding (64 bytes, aligned to 64), so the slice covers the
    // same memory, borrowed for as long.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * PANEL) }
}
