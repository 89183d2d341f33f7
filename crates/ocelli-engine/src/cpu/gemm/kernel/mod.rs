//! The innermost loop: a tile of sums in registers.
//!
//! `c[i, j] (+)= Σₚ a[i, p]·b[p, j]` for up to 6 rows and 16 columns. Six rows of two AVX2 registers and
//! what they are multiplied with fill the 16 registers; 12 products a line hide the latency of a
//! product (4 cycles, 2 a cycle) with room, and take 8 loads where 12 would be possible.
//! Each sum is one chain from 0 in the order of `p`, whatever the number of rows.
//!
//! Bounded by the two multipliers: on a Zen 3 core that reaches 95 GFLOP/s in a loop of nothing but FMA, the tile
//! reaches 95 from L2, a whole product of a tower's layer 78–86, its missing part spent on panels that come from
//! beyond L2 and on copying rows. bfloat16 costs a shift and a blend a line, which other ports do: as fast as float32.
//! Tried without gain: rows interleaved by six instead of copied as they are; blocks of 192, 320 and 384 in depth,
//! of 72 to 288 rows. Rows at distances that are no multiple of a cache line made it worse.
//! An AVX-512 tile is missing: its intrinsics are stable from Rust 1.89 on, and we support 1.88.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;

use super::packed::{Line, PANEL};

/// Most rows of a tile.
pub(in crate::cpu) const ROWS: usize = 6;

/// Which of the two loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cpu) enum Isa {
    /// Multiplies, rounds, adds.
    Portable,
    /// Fused. Made only by [`Isa::detect`].
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// The faster that this machine has.
    pub(in crate::cpu) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if crate::cpu::simd::has_avx2() {
            return Self::Avx2;
        }
        Self::Portable
    }
}

/// `rows` rows of `a`, `a_stride` apart, times the lines `b`: stored in `c`, whose rows are `c_stride` apart, or,
/// unless it is the `first` product there, added to it.
#[allow(clippy::too_many_arguments)] // two matrices and their strides; called in two places
#[inline]
pub(in crate::cpu) fn accumulate<L: Line>(
    isa: Isa,
    rows: usize,
    a: &[f32],
    a_stride: usize,
    b: &[L],
    c: &mut [f32],
    c_stride: usize,
    first: bool,
) {
    assert!((1..=ROWS).contains(&rows));
    assert!((rows - 1) * a_stride + b.len() <= a.len() && (rows - 1) * c_stride + PANEL <= c.len());
    match isa {
        Isa::Portable => portable::accumulate(rows, a, a_stride, b, c, c_stride, first),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            let (a, depth, b, c) = (a.as_ptr(), b.len(), b.as_ptr(), c.as_mut_ptr());
            // SAFETY: `Isa::Avx2` exists only where AVX2 and FMA were detected; the rows of `a` and `c` lie
            // within their slices, as asserted.
            unsafe {
                match rows {
                    1 => avx2::accumulate::<L, 1>(a, a_stride, b, depth, c, c_stride, first),
                    2 => avx2::accumulate::<L, 2>(a, a_stride, b, depth, c, c_stride, first),
                    3 => avx2::accumulate::<L, 3>(a, a_stride, b, depth, c, c_stride, first),
                    4 => avx2::accumulate::<L, 4>(a, a_stride, b, depth, c, c_stride, first),
                    5 => avx2::accumulate::<L, 5>(a, a_stride, b, depth, c, c_stride, first),
                    _ => avx2::accumulate::<L, 6>(a, a_stride, b, depth, c, c_stride, first),
                }
            }
        }
    }
}

/// Asks for values that will be needed soon: rows far apart are beyond what the hardware foresees.
#[inline]
pub(in crate::cpu) fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for value in values.iter().step_by(64 / size_of::<T>()) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, on an address within a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(value).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}
