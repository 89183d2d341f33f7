//! The weight, laid out as the kernel reads it.
//!
//! A panel is 16 rows of `W` (16 columns of the result), transposed: a line of 16 elements for each `k`.
//! It is two half-panels of 8: neighbours, or, in a pair, the same 8 of the first and of the second matrix.

use half::bf16;
use rayon::prelude::*;
use std::mem::MaybeUninit;
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

    /// As the four above from the rows of a checkpoint, which `widen` makes float32: `row(i)` has `k` elements.
    /// Spread over the rayon pool that it is called in.
    ///
    /// # Panics
    /// `k` is 0, a row has fewer than `k` elements, or `pair` and `n` is odd.
    pub fn pack_rows<'a, T: Copy + Sync + 'a>(
        (n, k, pair): (usize, usize, bool),
        as_bf16: bool,
        row: impl Fn(usize) -> &'a [T] + Sync,
        widen: impl Fn(T) -> f32 + Sync,
    ) -> Self {
        let panels = if as_bf16 {
            let half = |value: f32| u32::from(bf16::from_f32(value).to_bits());
            let word = |line: &[f32; PANEL], j: usize| half(line[j]) | half(line[j + HALF]) << 16;
            Panels::Bf16(pack(n, k, pair, row, widen, |line| Bf16Line(std::array::from_fn(|j| word(&line, j)))))
        } else {
            Panels::F32(pack(n, k, pair, row, widen, F32Line))
        };
        Self { n, k, pair, panels }
    }

    fn f32(w: &[f32], n: usize, k: usize, pair: bool) -> Self {
        assert_length(w.len(), n, k);
        Self::pack_rows((n, k, pair), false, |row| &w[row * k..][..k], |value| value)
    }

    fn bf16(w: &[bf16], n: usize, k: usize, pair: bool) -> Self {
        assert_length(w.len(), n, k);
        Self::pack_rows((n, k, pair), true, |row| &w[row * k..][..k], bf16::to_f32)
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

fn assert_length(elements: usize, n: usize, k: usize) {
    assert!(n.checked_mul(k) == Some(elements), "weight of {elements} elements is not [{n}, {k}]");
}

/// The lines of all panels, one panel after another; columns beyond the edge are 0.
fn pack<'a, T: Copy + Sync + 'a, L: Copy + Send>(
    n: usize,
    k: usize,
    pair: bool,
    row: impl Fn(usize) -> &'a [T] + Sync,
    widen: impl Fn(T) -> f32 + Sync,
    line: impl Fn([f32; PANEL]) -> L + Sync,
) -> Vec<L> {
    assert!(k > 0, "a weight of no columns");
    assert!(!pair || n.is_multiple_of(2), "a pair has an even number of rows, not {n}");
    let total = panel_count(n, pair) * k;
    let mut lines = Vec::with_capacity(total);
    let fill = |(panel, lines): (usize, &mut [MaybeUninit<L>])| {
        let mut rows: [&[T]; PANEL] = [&[]; PANEL];
        for (half, columns) in columns(n, pair, panel).into_iter().enumerate() {
            for (rows, column) in rows[half * HALF..].iter_mut().zip(columns) {
                *rows = &row(column)[..k];
            }
        }
        for (at, to) in lines.iter_mut().enumerate() {
            to.write(line(rows.map(|row| row.get(at).map_or(0.0, |&value| widen(value)))));
        }
    };
    let spare = &mut lines.spare_capacity_mut()[..total];
    if rayon::current_thread_index().is_some() {
        spare.par_chunks_exact_mut(k).enumerate().for_each(fill);
    } else {
        spare.chunks_exact_mut(k).enumerate().for_each(fill);
    }
    // SAFETY: the capacity is at least `total`, and each of these lines was just written: the chunks of
    // `k` cover a multiple of `k` without remainder.
    unsafe { lines.set_len(total) };
    lines
}
