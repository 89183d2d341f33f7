//! The weight, laid out as the kernel reads it.
//!
//! A panel is 16 rows of `W` (16 columns of the result), transposed: a line of 16 elements for each `k`.
//! It is two half-panels of 8: neighbours, or, in a pair, the same 8 of the first and of the second matrix.

use half::bf16;
use std::ops::Range;

/// Columns of a panel.
pub(in crate::cpu) const PANEL: usize = 16;
/// Columns of a half-panel: an AVX2 register of float32.
pub(super) const HALF: usize = PANEL / 2;

/// One line of a panel: a cache line of float32.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(in crate::cpu) struct F32Line(pub(in crate::cpu) [f32; PANEL]);

/// One line of a panel in bfloat16. Word `j` holds column `j` of the first half-panel in its low half and that of the
/// second in its high half, so that a shift and a mask widen both.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(in crate::cpu) struct Bf16Line(pub(in crate::cpu) [u32; HALF]);

/// What a kernel multiplies with.
pub(in crate::cpu) trait Line: Copy + Send + Sync + 'static {
    /// Whether it is a [`Bf16Line`], else an [`F32Line`].
    const BF16: bool;
    /// Its elements as float32, exactly.
    fn widen(&self) -> [f32; PANEL];
}

impl Line for F32Line {
    const BF16: bool = false;

    #[inline(always)]
    fn widen(&self) -> [f32; PANEL] {
        self.0
    }
}

impl Line for Bf16Line {
    const BF16: bool = true;

    #[inline(always)]
    fn widen(&self) -> [f32; PANEL] {
        let mut wide = [0.0; PANEL];
        for (j, &word) in self.0.iter().enumerate() {
            wide[j] = f32::from_bits(word << 16);
            wide[j + HALF] = f32::from_bits(word & 0xffff_0000);
        }
        wide
    }
}

pub(super) enum Panels {
    F32(Vec<F32Line>),
    Bf16(Vec<Bf16Line>),
}

/// A weight `[n, k]` in panels, float32 or bfloat16.
pub struct PackedMatrix {
    n: usize,
    k: usize,
    pair: bool,
    panels: Panels,
}

impl PackedMatrix {
    /// Packs `w`, `[n, k]` row-major.
    ///
    /// # Panics
    /// `k` is 0, or `w` has another length than `n·k`.
    pub fn pack_f32(w: &[f32], n: usize, k: usize) -> Self {
        Self::f32(w, n, k, false)
    }

    /// Packs `w`, `[n, k]` row-major; it stays bfloat16 in memory and is widened in registers.
    ///
    /// # Panics
    /// `k` is 0, or `w` has another length than `n·k`.
    pub fn pack_bf16(w: &[bf16], n: usize, k: usize) -> Self {
        Self::bf16(w, n, k, false)
    }

    /// Packs two matrices of `[n/2, k]` below one another, columns of equal index side by side, as
    /// [`super::gemm_swiglu`] needs them. [`super::gemm`] takes a pair too.
    ///
    /// # Panics
    /// `n` is odd, `k` is 0, or `w` has another length than `n·k`.
    pub fn pack_f32_pair(w: &[f32], n: usize, k: usize) -> Self {
        Self::f32(w, n, k, true)
    }

    /// [`Self::pack_f32_pair`] in bfloat16.
    ///
    /// # Panics
    /// `n` is odd, `k` is 0, or `w` has another length than `n·k`.
    pub fn pack_bf16_pair(w: &[bf16], n: usize, k: usize) -> Self {
        Self::bf16(w, n, k, true)
    }

    fn f32(w: &[f32], n: usize, k: usize, pair: bool) -> Self {
        let mut lines = Vec::new();
        pack(w, n, k, pair, 0.0, |line| lines.push(F32Line(line)));
        Self { n, k, pair, panels: Panels::F32(lines) }
    }

    fn bf16(w: &[bf16], n: usize, k: usize, pair: bool) -> Self {
        let mut lines = Vec::new();
        pack(w, n, k, pair, bf16::ZERO, |line| {
            let word = |j: usize| u32::from(line[j].to_bits()) | u32::from(line[j + HALF].to_bits()) << 16;
            lines.push(Bf16Line(std::array::from_fn(word)));
        });
        Self { n, k, pair, panels: Panels::Bf16(lines) }
    }

    /// Rows of the weight: columns of the result.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Columns of the weight.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Whether it is a pair.
    pub fn is_pair(&self) -> bool {
        self.pair
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        match &self.panels {
            Panels::F32(lines) => size_of_val(lines.as_slice()),
            Panels::Bf16(lines) => size_of_val(lines.as_slice()),
        }
    }

    pub(super) fn panels(&self) -> &Panels {
        &self.panels
    }

    pub(super) fn panel_count(&self) -> usize {
        panel_count(self.n, self.pair)
    }

    /// The columns of the result that the half-panels of `panel` hold; fewer than 8, even none, at the edge.
    #[inline]
    pub(super) fn columns(&self, panel: usize) -> [Range<usize>; 2] {
        columns(self.n, self.pair, panel)
    }
}

fn panel_count(n: usize, pair: bool) -> usize {
    if pair { (n / 2).div_ceil(HALF) } else { n.div_ceil(PANEL) }
}

#[inline]
fn columns(n: usize, pair: bool, panel: usize) -> [Range<usize>; 2] {
    let (starts, ends) = match pair {
        false => ([panel * PANEL, panel * PANEL + HALF], [n, n]),
        true => ([panel * HALF, n / 2 + panel * HALF], [n / 2, n]),
    };
    [0, 1].map(|half| starts[half].min(ends[half])..(starts[half] + HALF).min(ends[half]))
}

/// Calls `push` with each line of each panel; columns beyond the edge are `zero`.
fn pack<T: Copy>(w: &[T], n: usize, k: usize, pair: bool, zero: T, mut push: impl FnMut([T; PANEL])) {
    assert!(k > 0 && n.checked_mul(k) == Some(w.len()), "weight of {} elements is not [{n}, {k}]", w.len());
    assert!(!pair || n.is_multiple_of(2), "a pair has an even number of rows, not {n}");
    for panel in 0..panel_count(n, pair) {
        let halves = columns(n, pair, panel);
        for at in 0..k {
            let mut line = [zero; PANEL];
            for (half, columns) in halves.iter().enumerate() {
                for (j, column) in columns.clone().enumerate() {
                    line[half * HALF + j] = w[column * k + at];
                }
            }
            push(line);
        }
    }
}
