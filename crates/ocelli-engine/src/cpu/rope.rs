//! Rotary embedding of queries and keys, in place.

use super::simd::on_best_simd;
use super::workers::Workers;

/// Rotates the queries and keys in `qkv` `[n, 3·heads·head_dim]` by the angles of each row,
/// `cos` and `sin` `[n, head_dim/2]`: `(a, b) → (a·cos − b·sin, b·cos + a·sin)` over the halves of a head.
pub(super) fn rotate(workers: &Workers, qkv: &mut [f32], cos: &[f32], sin: &[f32], heads: usize, head_dim: usize) {
    let half = head_dim / 2;
    workers.for_rows(qkv, 3 * heads * head_dim, |first, rows| {
        rotate_rows(rows, &cos[first * half..], &sin[first * half..], heads, head_dim);
    });
}

#[inline(always)]
fn rotate_rows_body(rows: &mut [f32], cos: &[f32], sin: &[f32], heads: usize, head_dim: usize) {
    let half = head_dim / 2;
    let angles = cos.chunks_exact(half).zip(sin.chunks_exact(half));
    for (row, (cos, sin)) in rows.chunks_exact_mut(3 * heads * head_dim).zip(angles) {
        let (queries_and_keys, _values) = row.split_at_mut(2 * heads * head_dim);
        for head in queries_and_keys.chunks_exact_mut(head_dim) {
            let (a, b) = head.split_at_mut(half);
            for (((a, b), &cos), &sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}

on_best_simd! { fn rotate_rows = rotate_rows_body(rows: &mut [f32], cos: &[f32], sin: &[f32], heads: usize, head_dim: usize) }
