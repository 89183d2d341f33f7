//! The tile in plain Rust: what other machines run, and the truth of the others.

use super::ROWS;
use crate::cpu::gemm::packed::{Line, PANEL};

pub(super) fn accumulate<L: Line>(
    rows: usize,
    a: &[f32],
    a_stride: usize,
    b: &[L],
    c: &mut [f32],
    c_stride: usize,
    first: bool,
) {
    let mut sums = [[0.0f32; PANEL]; ROWS];
    for (p, line) in b.iter().enumerate() {
        let line = line.widen();
        for (i, sums) in sums[..rows].iter_mut().enumerate() {
            let x = a[i * a_stride + p];
            for (sum, y) in sums.iter_mut().zip(&line) {
                *sum += x * y;
            }
        }
    }
    for (sums, c) in sums[..rows].iter().zip(c.chunks_mut(c_stride)) {
        for (c, sum) in c.iter_mut().zip(sums) {
            *c = if first { *sum } else { *c + sum };
        }
    }
}
