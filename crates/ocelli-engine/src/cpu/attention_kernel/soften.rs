//! The running softmax: scores become weights in units of the largest score so far.

use super::KEYS;
use crate::cpu::activation::exp;
use crate::cpu::gemm::kernel::Isa;

/// Scores that are looked at together: four AVX2 registers hide the latency of `exp`.
const LANES: usize = 32;

/// What a query has seen of its keys.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// The largest score.
    pub(super) most: f32,
    /// `Σ eˢ⁻ᵐ`.
    pub(super) total: f32,
}

/// Each row of `scores` (`KEYS` apart, of which `width` count) becomes `eˢ⁻ᵐ`. What was seen before, and `sums`
/// (rows `stride` apart), are rescaled to the new largest score; nothing was seen before the `first`.
pub(super) fn soften(
    isa: Isa,
    scores: &mut [f32],
    width: usize,
    seen: &mut [Seen],
    sums: &mut [f32],
    stride: usize,
    first: bool,
) {
    match isa {
        Isa::Portable => body::<false>(scores, width, seen, sums, stride, first),
        // SAFETY: `Isa::Avx2` exists only where AVX2 and FMA were detected.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2(scores, width, seen, sums, stride, first) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(scores: &mut [f32], width: usize, seen: &mut [Seen], sums: &mut [f32], stride: usize, first: bool) {
    body::<true>(scores, width, seen, sums, stride, first);
}

#[inline(always)]
fn body<const FUSED: bool>(
    scores: &mut [f32],
    width: usize,
    seen: &mut [Seen],
    sums: &mut [f32],
    stride: usize,
    first: bool,
) {
    for ((scores, seen), sums) in scores.chunks_exact_mut(KEYS).zip(seen).zip(sums.chunks_exact_mut(stride)) {
        // scores that do not count weigh some 1e-38 in a total of at least 1
        let padded = width.next_multiple_of(LANES);
        scores[width..padded].fill(f32::NEG_INFINITY);
        let chunks = scores[..padded].as_chunks_mut::<LANES>().0;
        let mut lanes = [f32::NEG_INFINITY; LANES];
        for chunk in chunks.iter() {
            for (lane, &score) in lanes.iter_mut().zip(chunk) {
                *lane = larger(score, *lane);
            }
        }
        let block_most = reduce(lanes, larger);
        let most = if first { block_most } else { larger(block_most, seen.most) };
        let mut lanes = [0.0f32; LANES];
        for chunk in chunks {
            for (lane, score) in lanes.iter_mut().zip(chunk) {
                *score = exp::<FUSED>(*score - most);
                *lane += *score;
            }
        }
        let total = reduce(lanes, |a, b| a + b);
        if first {
            *seen = Seen { most, total };
        } else {
            let keep = exp::<FUSED>(seen.most - most);
            *seen = Seen { most, total: seen.total * keep + total };
            if keep != 1.0 {
                sums.iter_mut().for_each(|sum| *sum *= keep);
            }
        }
    }
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Halves against halves, so that whole registers are combined.
#[inline(always)]
fn reduce(lanes: [f32; LANES], combine: impl Fn(f32, f32) -> f32) -> f32 {
    let half: [f32; 16] = std::array::from_fn(|i| combine(lanes[i], lanes[i + 16]));
    let half: [f32; 8] = std::array::from_fn(|i| combine(half[i], half[i + 8]));
    let half: [f32; 4] = std::array::from_fn(|i| combine(half[i], half[i + 4]));
    combine(combine(half[0], half[2]), combine(half[1], half[3]))
}
