//! `softmax(q·kᵀ·scale)·v` within segments, the softmax kept running over blocks of keys.
//!
//! One task is one head of one segment. Keys are transposed into panels and values copied into panels
//! once; then both products are tiles of the matrix kernel. A row depends on its segment only: keys are
//! cut at multiples of a constant from the segment's start.

mod panels;
mod soften;

#[cfg(test)]
mod tests;

use super::gemm::kernel::{self, Isa, ROWS};
use super::gemm::packed::PANEL;
use super::gemm::scratch::Scratch;
use rayon::prelude::*;
use soften::Seen;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;

/// Keys of a block: a multiple of a panel.
const KEYS: usize = 256;
/// Queries of a block: 72 KiB of scores; a window of 64 is one block.
const QUERIES: usize = 12 * ROWS;
/// How many rows ahead memory is asked for.
const AHEAD: usize = 16;
/// Longest segment whose next head is asked for while this one is computed: queries, keys and values of 256
/// rows of 80 are 240 KiB, half an L2.
const NEXT_HEAD_ROWS: usize = 256;
/// Rows of the next head that are asked for in the time of a tile.
const ROWS_A_TILE: usize = 2;
/// Tasks for each thread, where there are more heads and segments.
const TASKS_PER_THREAD: usize = 16;
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
    let attention = Attention { isa, qkv, heads, head_dim, scale, out };
    let products: usize = segments.windows(2).map(|s| (s[1] - s[0]).pow(2) * 2 * heads * head_dim).sum();
    let tasks = segments.len().saturating_sub(1) * heads;
    let task = |task: usize| {
        let segment = segments[task / heads]..segments[task / heads + 1];
        MEMORY.with_borrow_mut(|memory| attention.head(memory, segment, task % heads));
    };
    if products < INLINE_PRODUCTS || rayon::current_thread_index().is_none() {
        (0..tasks).for_each(task);
    } else {
        let most = tasks.div_ceil(rayon::current_num_threads() * TASKS_PER_THREAD);
        (0..tasks).into_par_iter().with_max_len(most).for_each(task);
    }
}

impl Attention<'_> {
    /// The result's elements of one head of one row, which belong to the one task of its head and segment.
    #[allow(clippy::mut_from_ref)] // as `Out` says
    fn out(&self, row: usize, head: usize) -> &mut [f32] {
        let dim = self.head_dim;
        // SAFETY: `rows·heads·dim` elements, as checked; `row` is in the task's segment, and no other task has that segment
        // and head. The task holds one such slice at a time.
        unsafe { std::slice::from_raw_parts_mut(self.out.0.add((row * self.heads + head) * dim), dim) }
    }

    fn head(&self, memory: &mut Memory, segment: Range<usize>, head: usize) {
        let (len, dim, dim_panels) = (segment.len(), self.head_dim, self.head_dim.div_ceil(PANEL));
        let stride = 3 * self.heads * dim;
        let of = |part: usize, row: usize, head: usize| &self.qkv[((row * 3 + part) * self.heads + head) * dim..];
        let part = |part: usize, row: usize| of(part, row, head);
        let keys = memory.keys.lines(len.div_ceil(PANEL) * dim);
        let values = memory.values.lines(dim_panels * len);
        if len == 0 {
            return;
        }
        panels::transpose(self.isa, part(1, segment.start), stride, len, keys, dim);
        panels::split(part(2, segment.start), stride, dim, len, values);
        let (q_stride, o_stride) = (dim.next_multiple_of(PANEL), dim_panels * PANEL);
        let queries = memory.queries.values(QUERIES * q_stride);
        let scores = memory.scores.values(QUERIES * KEYS);
        let sums = memory.sums.values(QUERIES * o_stride);
        for first in segment.clone().step_by(QUERIES) {
            let rows = first..(first + QUERIES).min(segment.end);
            for (to, row) in queries.chunks_exact_mut(q_stride).zip(rows.clone()) {
                kernel::prefetch(&part(0, (row + AHEAD).min(segment.end - 1))[..dim]);
                kernel::prefetch(self.out(row, head));
                for (to, &value) in to.iter_mut().zip(&part(0, row)[..dim]) {
                    *to = value * self.scale;
                }
            }
            let ask = first == segment.start && len <= NEXT_HEAD_ROWS && head + 1 < self.heads;
            let next_head = if ask { segment.clone() } else { 0..0 };
            let mut seen = [Seen::default(); QUERIES];
            for from in (0..len).step_by(KEYS) {
                let width = KEYS.min(len - from);
                for (panel, keys) in keys.chunks_exact(dim).skip(from / PANEL).take(width.div_ceil(PANEL)).enumerate() {
                    let mut next = next_head.clone().skip(from + panel * PANEL).take(PANEL);
                    for at in (0..rows.len()).step_by(ROWS) {
                        for row in next.by_ref().take(ROWS_A_TILE) {
                            (0..3).for_each(|part| kernel::prefetch(&of(part, row, head + 1)[..dim]));
                        }
                        let (height, q) = (ROWS.min(rows.len() - at), &queries[at * q_stride..]);
                        let scores = &mut scores[at * KEYS + panel * PANEL..];
                        kernel::accumulate(self.isa, height, q, q_stride, keys, scores, KEYS, true);
                    }
                }
                soften::soften(self.isa, &mut scores[..rows.len() * KEYS], width, &mut seen, sums, o_stride, from == 0);
                for panel in 0..dim_panels {
                    let values = &values[panel * len + from..][..width];
                    for at in (0..rows.len()).step_by(ROWS) {
                        let (height, s) = (ROWS.min(rows.len() - at), &scores[at * KEYS..]);
                        let sums = &mut sums[at * o_stride + panel * PANEL..];
                        kernel::accumulate(self.isa, height, s, KEYS, values, sums, o_stride, from == 0);
                    }
                }
            }
            for (i, row) in rows.enumerate() {
                let share = seen[i].total.recip();
                for (out, &sum) in self.out(row, head).iter_mut().zip(&sums[i * o_stride..]) {
                    *out = sum * share;
                }
            }
        }
    }
}
