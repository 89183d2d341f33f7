//! Layer norm and RMS norm, a row at a time, in float32.

use super::simd::{on_best_simd, sum_of};
use super::{CpuOps, row_of, tensor, values};
use crate::{EngineError, Tensor};

pub(super) fn layer_norm(
    ops: &CpuOps,
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f32,
) -> Result<Tensor, EngineError> {
    const OP: &str = "layer_norm";
    let (rows, cols) = (x.rows(), x.cols());
    let (weight, bias) = (row_of(OP, "the weight", weight, cols)?, row_of(OP, "the bias", bias, cols)?);
    let x = values(OP, x)?;
    let mut out = ops.buffer(rows, cols);
    ops.workers.for_rows(&mut out, cols, |first, out| {
        layer_rows(&x[first * cols..][..out.len()], weight, bias, eps, out);
    });
    Ok(tensor(rows, cols, out))
}

pub(super) fn rms_norm(ops: &CpuOps, x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor, EngineError> {
    const OP: &str = "rms_norm";
    let (rows, cols) = (x.rows(), x.cols());
    let weight = row_of(OP, "the weight", weight, cols)?;
    let x = values(OP, x)?;
    let mut out = ops.buffer(rows, cols);
    ops.workers.for_rows(&mut out, cols, |first, out| {
        rms_rows(&x[first * cols..][..out.len()], weight, eps, out);
    });
    Ok(tensor(rows, cols, out))
}

#[inline(always)]
fn layer_rows_body(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    let cols = weight.len();
    for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
        let mean = sum_of(x, |x| x) / cols as f32;
        let variance = sum_of(x, |x| (x - mean) * (x - mean)) / cols as f32;
        let inverse = 1.0 / (variance + eps).sqrt();
        for (((out, &x), &weight), &bias) in out.iter_mut().zip(x).zip(weight).zip(bias) {
            *out = (x - mean) * inverse * weight + bias;
        }
    }
}

#[inline(always)]
fn rms_rows_body(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let cols = weight.len();
    for (x, out) in x.chunks_exact(cols).zip(out.chunks_exact_mut(cols)) {
        let inverse = 1.0 / (sum_of(x, |x| x * x) / cols as f32 + eps).sqrt();
        for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * inverse * weight;
        }
    }
}

on_best_simd! { fn layer_rows = layer_rows_body(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) }
on_best_simd! { fn rms_rows = rms_rows_body(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) }
