//! `softmax(q·kᵀ·scale)·v` within segments, the softmax kept running over blocks of keys.
//!
//! One task is one head of one segment. Keys are transposed into panels and values copied into panels
//! once; then both products are tiles of the matrix kernel. A row depends on its segment only: keys are
//! cut at multiples of a constant from the segment's start.

use super::activation::exp;
use super::gemm::kernel::{self, Isa, ROWS};
use super::gemm::packed::PANEL;
use super::gemm::scratch::Scratch;
use super::simd::on_best_simd;
use rayon::prelude::*;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;

/// Keys of a block: a multiple of a panel.
const KEYS: usize = 256;
/// Queries of a block: 48 rows of 256 scores are 48 KiB.
const QUERIES: usize = 8 * ROWS;
/// What rows of scores and queries are apart beyond their length, for the banks of L1.
const ROW_GAP: usize = 4;
/// Multiplications below which everything runs on the calling thread.
const INLINE_PRODUCTS: usize = 2 << 20;

#[derive(Default)]
struct Memory {
    keys: Scratch,
    values: Scratch,
    queries: Scratch,
    scores: Scratch,
    sums: Scratch,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// The result, written by several tasks.
struct Out<'a>(*mut f32, PhantomData<&'a mut [f32]>);

// SAFETY: it stands for a `&mut [f32]`, which may go to other threads; tasks write disjoint parts.
unsafe impl Send for Out<'_> {}
// SAFETY: as above.
unsafe impl Sync for Out<'_> {}

struct Attention<'a> {
    isa: Isa,
    qkv: &'a [f32],
    rows: usize,
    heads: usize,
    head_dim: usize,
    scale: f32,
    out: Out<'a>,
}

/// Attention of `qkv`, `[n, 3·heads·head_dim]`: queries, keys, values, each by head; `segments` are cumulative
/// lengths from 0 to n; `out` is `[n, heads·head_dim]`.
///
/// Runs on the rayon pool that it is called in; little work, or a call from outside any pool, runs on
/// the calling thread.
///
/// # Panics
/// The lengths do not fit each other, or `segments` do not ascend from 0 to n.
pub fn attention(qkv: &[f32], segments: &[usize], heads: usize, head_dim: usize, scale: f32, out: &mut [f32]) {
    run(Isa::detect(), qkv, segments, heads, head_dim, scale, out);
}

fn run(isa: Isa, qkv: &[f32], segments: &[usize], heads: usize, head_dim: usize, scale: f32, out: &mut [f32]) {
    let rows = segments.last().copied().unwrap_or(0);
    assert!(heads > 0 && head_dim > 0, "no heads");
    assert!(segments.first().is_none_or(|&first| first == 0) && segments.is_sorted(), "segments do not ascend from 0");
    assert_eq!(out.len(), rows * heads * head_dim, "out is not [{rows}, {heads}·{head_dim}]");
    assert_eq!(qkv.len(), 3 * out.len(), "qkv is not [{rows}, 3·{heads}·{head_dim}]");
    let out = Out(out.as_mut_ptr(), PhantomData);
    let attention = Attention { isa, qkv, rows, heads, head_dim, scale, out };
    let products: usize = segments.windows(2).map(|s| (s[1] - s[0]).pow(2) * 2 * heads * head_dim).sum();
    let tasks = segments.len().saturating_sub(1) * heads;
    let task = |task: usize| {
        let segment = segments[task / heads]..segments[task / heads + 1];
        MEMORY.with_borrow_mut(|memory| attention.head(memory, segment, task % heads));
    };
    if products < INLINE_PRODUCTS || rayon::current_thread_index().is_none() {
        (0..tasks).for_each(task);
    } else {
        (0..tasks).into_par_iter().for_each(task);
    }
}

impl Attention<'_> {
    /// The values of a head in one row of `part`: 0 queries, 1 keys, 2 values.
    #[inline(always)]
    fn row(&self, part: usize, row: usize, head: usize) -> &[f32] {
        debug_assert!(row < self.rows);
        &self.qkv[((row * 3 + part) * self.heads + head) * self.head_dim..][..self.head_dim]
    }

    fn head(&self, memory: &mut Memory, segment: Range<usize>, head: usize) {
        let (len, dim, dim_panels) = (segment.len(), self.head_dim, self.head_dim.div_ceil(PANEL));
        let keys = memory.keys.lines(len.div_ceil(PANEL) * dim);
        for (panel, lines) in keys.chunks_exact_mut(dim).enumerate() {
            let first = segment.start + panel * PANEL;
            for j in 0..PANEL {
                // keys beyond the end repeat the last one: their scores are never read
                let key = self.row(1, (first + j).min(segment.end - 1), head);
                for (line, &value) in lines.iter_mut().zip(key) {
                    line.0[j] = value;
                }
            }
        }
        let values = memory.values.lines(dim_panels * len);
        for (panel, lines) in values.chunks_exact_mut(len.max(1)).enumerate() {
            for (line, row) in lines.iter_mut().zip(segment.clone()) {
                let value = &self.row(2, row, head)[panel * PANEL..];
                let width = value.len().min(PANEL);
                line.0[..width].copy_from_slice(&value[..width]);
                line.0[width..].fill(0.0);
            }
        }
        let (q_stride, s_stride, o_stride) =
            (dim.next_multiple_of(PANEL) + ROW_GAP, KEYS + ROW_GAP, dim_panels * PANEL);
        let queries = memory.queries.values(QUERIES * q_stride);
        let scores = memory.scores.values(QUERIES * s_stride);
        let sums = memory.sums.values(QUERIES * o_stride);
        for first in segment.clone().step_by(QUERIES) {
            let rows = first..(first + QUERIES).min(segment.end);
            for (to, row) in queries.chunks_exact_mut(q_stride).zip(rows.clone()) {
                for (to, &value) in to.iter_mut().zip(self.row(0, row, head)) {
                    *to = value * self.scale;
                }
            }
            let (mut most, mut total) = ([f32::NEG_INFINITY; QUERIES], [0.0f32; QUERIES]);
            for from in (0..len).step_by(KEYS) {
                let width = KEYS.min(len - from);
                for (panel, keys) in keys.chunks_exact(dim).skip(from / PANEL).take(width.div_ceil(PANEL)).enumerate() {
                    for at in (0..rows.len()).step_by(ROWS) {
                        let (height, q) = (ROWS.min(rows.len() - at), &queries[at * q_stride..]);
                        let scores = &mut scores[at * s_stride + panel * PANEL..];
                        kernel::accumulate(self.isa, height, q, q_stride, keys, scores, s_stride, true);
                    }
                }
                for (row, most, total) in zip3(rows.len(), &mut most, &mut total) {
                    let scores = &mut scores[row * s_stride..][..width];
                    let sums = &mut sums[row * o_stride..][..o_stride];
                    soften(scores, most, total, sums);
                }
                for panel in 0..dim_panels {
                    let values = &values[panel * len + from..][..width];
                    for at in (0..rows.len()).step_by(ROWS) {
                        let (height, s) = (ROWS.min(rows.len() - at), &scores[at * s_stride..]);
                        let sums = &mut sums[at * o_stride + panel * PANEL..];
                        kernel::accumulate(self.isa, height, s, s_stride, values, sums, o_stride, from == 0);
                    }
                }
            }
            for (i, row) in rows.enumerate() {
                let at = (row * self.heads + head) * dim;
                // SAFETY: `at + dim ≤ rows·heads·dim`, the length checked; this row of this head is written by this task only.
                let out = unsafe { std::slice::from_raw_parts_mut(self.out.0.add(at), dim) };
                let share = total[i].recip();
                for (out, &sum) in out.iter_mut().zip(&sums[i * o_stride..]) {
                    *out = sum * share;
                }
            }
        }
    }
}

fn zip3<'a>(
    len: usize,
    most: &'a mut [f32],
    total: &'a mut [f32],
) -> impl Iterator<Item = (usize, &'a mut f32, &'a mut f32)> {
    most.iter_mut().zip(total).take(len).enumerate().map(|(i, (most, total))| (i, most, total))
}

const LANES: usize = 32;

/// Scores of further keys become `eˢ⁻ᵐ`, m the largest score so far; `total` and `sums`, which count in
/// units of the former largest, are rescaled.
#[inline(always)]
fn soften_body(scores: &mut [f32], most: &mut f32, total: &mut f32, sums: &mut [f32]) {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = scores.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &score) in lanes.iter_mut().zip(chunk) {
            *lane = if score > *lane { score } else { *lane };
        }
    }
    let new = lanes.iter().chain(rest).fold(*most, |most, &score| if score > most { score } else { most });
    let keep = exp(*most - new);
    *most = new;
    if keep != 1.0 {
        sums.iter_mut().for_each(|sum| *sum *= keep);
    }
    let mut lanes = [0.0f32; LANES];
    let (chunks, rest) = scores.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for (lane, score) in lanes.iter_mut().zip(chunk) {
            *score = exp(*score - new);
            *lane += *score;
        }
    }
    let mut sum = 0.0;
    for score in rest {
        *score = exp(*score - new);
        sum += *score;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    *total = *total * keep + (lanes[0] + sum);
}

on_best_simd! {
    fn soften = soften_body(scores: &mut [f32], most: &mut f32, total: &mut f32, sums: &mut [f32])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproducible values in −2..2.
    fn noise(len: usize) -> Vec<f32> {
        let mut state = 88_172_645_u32;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 8) as f32 / (1 << 22) as f32 - 2.0
        };
        (0..len).map(|_| next()).collect()
    }

    fn isas() -> Vec<Isa> {
        let mut isas = vec![Isa::Portable, Isa::detect()];
        isas.dedup();
        isas
    }

    fn reference(qkv: &[f32], segments: &[usize], heads: usize, dim: usize, scale: f64) -> Vec<f64> {
        let at = |part: usize, row: usize, head: usize| {
            qkv[((row * 3 + part) * heads + head) * dim..][..dim].iter().map(|&value| f64::from(value))
        };
        let mut out = vec![0.0; qkv.len() / 3];
        for segment in segments.windows(2) {
            for (row, head) in (segment[0]..segment[1]).flat_map(|row| (0..heads).map(move |head| (row, head))) {
                let score = |key| at(0, row, head).zip(at(1, key, head)).map(|(q, k)| q * k).sum::<f64>() * scale;
                let scores: Vec<f64> = (segment[0]..segment[1]).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (key, weight) in (segment[0]..segment[1]).zip(weights) {
                    let out = &mut out[(row * heads + head) * dim..][..dim];
                    out.iter_mut().zip(at(2, key, head)).for_each(|(out, value)| *out += weight / total * value);
                }
            }
        }
        out
    }

    #[test]
    fn attention_is_that_of_float64() {
        let cases: [(&[usize], usize, usize, f32); 7] = [
            (&[0, 1], 1, 1, 1.0),
            (&[0, 64, 128, 192], 2, 80, 0.1118),
            (&[0, 0, 7, 7, 24, 100], 3, 72, 0.118),
            (&[0, 255, 511], 1, 16, 0.25),
            (&[0, 257, 600], 2, 20, 0.7),
            // scores far beyond what exp can hold
            (&[0, 530], 1, 40, 30.0),
            (&[0, 17], 2, 3, -1.0),
        ];
        for (segments, heads, dim, scale) in cases {
            let rows = segments[segments.len() - 1];
            let qkv = noise(rows * 3 * heads * dim);
            let right = reference(&qkv, segments, heads, dim, f64::from(scale));
            for isa in isas() {
                let mut out = vec![f32::NAN; rows * heads * dim];
                run(isa, &qkv, segments, heads, dim, scale, &mut out);
                let wrong = out.iter().zip(&right).map(|(&out, right)| (f64::from(out) - right).powi(2)).sum::<f64>();
                let wrong = (wrong / right.iter().map(|right| right * right).sum::<f64>()).sqrt();
                // scores of ±1000 are off by some 1e-4 in float32, and so are their exponentials
                let tolerance = if scale > 1.0 { 1e-4 } else { 1e-6 };
                assert!(wrong < tolerance, "{isa:?} {segments:?} {dim}: {wrong:e}");
            }
        }
    }

    #[test]
    fn a_segment_has_the_same_bits_alone_and_in_a_batch_on_any_number_of_threads() {
        let (heads, dim, segments) = (3, 40, [0, 30, 331, 700, 701]);
        let width = heads * dim;
        let qkv = noise(701 * 3 * width);
        for isa in isas() {
            for threads in [1, 3] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let mut batch = vec![0.0; 701 * width];
                pool.install(|| run(isa, &qkv, &segments, heads, dim, 0.15, &mut batch));
                for segment in segments.windows(2) {
                    let (from, to) = (segment[0], segment[1]);
                    let mut alone = vec![0.0; (to - from) * width];
                    let own = &qkv[from * 3 * width..to * 3 * width];
                    run(isa, own, &[0, to - from], heads, dim, 0.15, &mut alone);
                    assert!(alone == batch[from * width..to * width], "{isa:?} {threads} {segment:?}");
                }
            }
        }
    }
}
