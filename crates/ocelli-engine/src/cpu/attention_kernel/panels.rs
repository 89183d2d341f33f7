//! Keys and values of one head as panels.

use super::AHEAD;
use crate::cpu::gemm::kernel::{Isa, prefetch};
use crate::cpu::gemm::packed::{F32Line, PANEL};

/// Panels of 16 keys: a line for each of the `dim` elements. `len` rows of `from`, `stride` apart. Keys beyond the end
/// repeat the last one; their scores are not looked at.
pub(super) fn transpose(isa: Isa, from: &[f32], stride: usize, len: usize, panels: &mut [F32Line], dim: usize) {
    for (panel, lines) in panels.chunks_exact_mut(dim).enumerate() {
        let row = |row: usize| &from[row.min(len - 1) * stride..][..dim];
        let rows: [&[f32]; PANEL] = std::array::from_fn(|j| row(panel * PANEL + j));
        (0..PANEL).for_each(|j| prefetch(row((panel + 1) * PANEL + j)));
        let done = match isa {
            Isa::Portable => 0,
            // SAFETY: `Isa::Avx2` exists only where AVX2 was detected.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { avx2::transpose(&rows, lines) },
        };
        for (at, line) in lines.iter_mut().enumerate().skip(done) {
            line.0 = std::array::from_fn(|j| rows[j][at]);
        }
    }
}

/// Panels of 16 elements: a line for each of `len` rows of `from`, which are `stride` apart and `dim` long; zeros beyond.
pub(super) fn split(from: &[f32], stride: usize, dim: usize, len: usize, panels: &mut [F32Line]) {
    for row in 0..len {
        prefetch(&from[(row + AHEAD).min(len - 1) * stride..][..dim]);
        let (chunks, rest) = from[row * stride..][..dim].as_chunks::<PANEL>();
        let mut lines = panels[row..].iter_mut().step_by(len);
        for (chunk, line) in chunks.iter().zip(&mut lines) {
            line.0 = *chunk;
        }
        if let (false, Some(line)) = (rest.is_empty(), lines.next()) {
            line.0 = std::array::from_fn(|j| rest.get(j).copied().unwrap_or(0.0));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{F32Line, PANEL};
    use std::arch::x86_64::*;

    const SIDE: usize = 8;

    /// Fills `lines` by squares of 8 × 8; how many, the rest of less than 8 is left.
    #[target_feature(enable = "avx2")]
    pub(super) fn transpose(rows: &[&[f32]; PANEL], lines: &mut [F32Line]) -> usize {
        let whole = lines.len() - lines.len() % SIDE;
        for at in (0..whole).step_by(SIDE) {
            for half in 0..PANEL / SIDE {
                let square: [__m256; SIDE] = std::array::from_fn(|j| {
                    let row = &rows[half * SIDE + j][at..at + SIDE];
                    // SAFETY: the row has eight values from `at` on.
                    unsafe { _mm256_loadu_ps(row.as_ptr()) }
                });
                for (column, line) in turn(square).into_iter().zip(&mut lines[at..at + SIDE]) {
                    // SAFETY: half a line is eight values.
                    unsafe { _mm256_storeu_ps(line.0[half * SIDE..].as_mut_ptr(), column) }
                }
            }
        }
        whole
    }

    /// Rows to columns: pairs of elements, pairs of pairs, halves of registers.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn turn(r: [__m256; SIDE]) -> [__m256; SIDE] {
        let low = |i: usize| _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        let high = |i: usize| _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        let first = |a, b| _mm256_shuffle_ps::<0x44>(a, b);
        let second = |a, b| _mm256_shuffle_ps::<0xee>(a, b);
        let top = [first(low(0), low(1)), second(low(0), low(1)), first(high(0), high(1)), second(high(0), high(1))];
        let bottom = [first(low(2), low(3)), second(low(2), low(3)), first(high(2), high(3)), second(high(2), high(3))];
        std::array::from_fn(|i| match i {
            0..4 => _mm256_permute2f128_ps::<0x20>(top[i], bottom[i]),
            _ => _mm256_permute2f128_ps::<0x31>(top[i - 4], bottom[i - 4]),
        })
    }
}
