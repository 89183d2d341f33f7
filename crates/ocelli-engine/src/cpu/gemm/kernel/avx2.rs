//! The tile with AVX2 and FMA.

use crate::cpu::gemm::packed::{HALF, Line};
use std::arch::x86_64::*;

/// Lines of one turn of the loop: the end of a short loop is then foreseen, and addresses are computed rarely.
const UNROLL: usize = 4;

/// # Safety
/// The machine has AVX2 and FMA. `ROWS` rows of `depth` values, `a_stride` apart, can be read from `a`, `depth` lines
/// from `b`; `ROWS` rows of 16 values, `c_stride` apart, can be read and written at `c`.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn accumulate<L: Line, const ROWS: usize>(
    a: *const f32,
    a_stride: usize,
    b: *const L,
    depth: usize,
    c: *mut f32,
    c_stride: usize,
    first: bool,
) {
    let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
    // SAFETY: `p` is within the lines of `b` and the rows of `a`.
    unsafe {
        let whole = depth - depth % UNROLL;
        for p in (0..whole).step_by(UNROLL) {
            for p in p..p + UNROLL {
                multiply(&mut sums, a.add(p), a_stride, b.add(p));
            }
        }
        for p in whole..depth {
            multiply(&mut sums, a.add(p), a_stride, b.add(p));
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        for (half, &sum) in sums.iter().enumerate() {
            // SAFETY: row `i` of `c` has 16 values, two halves.
            unsafe {
                let c = c.add(i * c_stride + half * HALF);
                let sum = if first { sum } else { _mm256_add_ps(_mm256_loadu_ps(c), sum) };
                _mm256_storeu_ps(c, sum);
            }
        }
    }
}

/// One line times a column of `ROWS` values, `a_stride` apart.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply<L: Line, const ROWS: usize>(
    sums: &mut [[__m256; 2]; ROWS],
    a: *const f32,
    a_stride: usize,
    b: *const L,
) {
    // SAFETY: by contract.
    unsafe {
        let (left, right) = load(b);
        for (i, sums) in sums.iter_mut().enumerate() {
            let x = _mm256_set1_ps(*a.add(i * a_stride));
            sums[0] = _mm256_fmadd_ps(x, left, sums[0]);
            sums[1] = _mm256_fmadd_ps(x, right, sums[1]);
        }
    }
}

/// Both half-panels of a line.
///
/// # Safety
/// A line can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load<L: Line>(line: *const L) -> (__m256, __m256) {
    // SAFETY: by contract; lines are aligned to 32 bytes at least, and have 64, those of bfloat16 32.
    unsafe {
        if L::BF16 {
            let words = _mm256_load_si256(line.cast());
            let high = _mm256_and_si256(words, _mm256_set1_epi32(0xffff_0000_u32.cast_signed()));
            (_mm256_castsi256_ps(_mm256_slli_epi32::<16>(words)), _mm256_castsi256_ps(high))
        } else {
            (_mm256_load_ps(line.cast()), _mm256_load_ps(line.cast::<f32>().add(HALF)))
        }
    }
}
