//! `silu(gate)·up`, gate and up computed as one projection.

use super::activation::swish;
use super::simd::on_best_simd;
use super::{CpuOps, tensor, values};
use crate::ops::{Epilogue, Linear};
use crate::{EngineError, Tensor};

pub(super) fn run(ops: &CpuOps, x: &Tensor, gate_up: &Linear) -> Result<Tensor, EngineError> {
    const OP: &str = "swiglu";
    if !gate_up.outputs().is_multiple_of(2) {
        return Err(EngineError::shape(OP, format!("{} outputs are not two halves", gate_up.outputs())));
    }
    let both = super::linear::run(ops, x, gate_up, Epilogue::None)?;
    let (rows, cols) = (both.rows(), gate_up.outputs() / 2);
    let both = values(OP, &both)?;
    let mut out = ops.buffer(rows, cols);
    ops.workers.for_rows(&mut out, cols, |first, out| gate_rows(&both[first * 2 * cols..], cols, out));
    Ok(tensor(rows, cols, out))
}

#[inline(always)]
fn gate_rows_body(both: &[f32], cols: usize, out: &mut [f32]) {
    for (both, out) in both.chunks_exact(2 * cols).zip(out.chunks_exact_mut(cols)) {
        let (gate, up) = both.split_at(cols);
        for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
            *out = swish(gate, 1.0) * up;
        }
    }
}

on_best_simd! { fn gate_rows = gate_rows_body(both: &[f32], cols: usize, out: &mut [f32]) }
