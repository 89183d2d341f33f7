//! Tensors below one another, and side by side with the final rounding.

use super::simd::on_best_simd;
use super::{CpuBuffer, CpuOps, tensor, values};
use crate::tensor::Storage;
use crate::{DType, EngineError, Tensor};
use half::f16;
use std::sync::Arc;

pub(super) fn rows(ops: &CpuOps, parts: &[&Tensor]) -> Result<Tensor, EngineError> {
    const OP: &str = "concat_rows";
    let cols = parts.first().map_or(0, |part| part.cols());
    if let Some(bad) = parts.iter().find(|part| part.cols() != cols) {
        return Err(EngineError::width(OP, "a part", cols, bad.cols()));
    }
    let rows = parts.iter().map(|part| part.rows()).sum();
    let mut out = ops.buffer(rows, cols);
    let mut rest: &mut [f32] = &mut out;
    for part in parts {
        let (here, after) = rest.split_at_mut(part.rows() * cols);
        here.copy_from_slice(values(OP, part)?);
        rest = after;
    }
    Ok(tensor(rows, cols, out))
}

pub(super) fn columns(ops: &CpuOps, parts: &[&Tensor], dtype: DType) -> Result<Tensor, EngineError> {
    const OP: &str = "concat_columns";
    let rows = parts.first().map_or(0, |part| part.rows());
    if let Some(bad) = parts.iter().find(|part| part.rows() != rows) {
        return Err(EngineError::shape(OP, format!("a part has {} rows instead of {rows}", bad.rows())));
    }
    if let ([one], DType::F32) = (parts, dtype) {
        values(OP, one)?;
        return Ok((*one).clone());
    }
    let cols = parts.iter().map(|part| part.cols()).sum();
    let sources = parts.iter().map(|part| Ok((values(OP, part)?, part.cols()))).collect::<Result<Vec<_>, _>>()?;
    let row = |at: usize| sources.iter().map(move |(x, cols)| &x[at * cols..][..*cols]);
    match dtype {
        DType::F32 => {
            let mut out = ops.buffer(rows, cols);
            ops.workers.for_rows(&mut out, cols, |first, out| {
                for (at, mut out) in out.chunks_exact_mut(cols).enumerate() {
                    for part in row(first + at) {
                        let (here, after) = out.split_at_mut(part.len());
                        here.copy_from_slice(part);
                        out = after;
                    }
                }
            });
            Ok(tensor(rows, cols, out))
        }
        DType::BF16 | DType::F16 => {
            let round = if dtype == DType::BF16 { round_bf16 } else { round_f16 };
            let mut out = vec![0u16; rows * cols];
            ops.workers.for_rows(&mut out, cols, |first, out| {
                for (at, mut out) in out.chunks_exact_mut(cols).enumerate() {
                    for part in row(first + at) {
                        let (here, after) = out.split_at_mut(part.len());
                        round(part, here);
                        out = after;
                    }
                }
            });
            Ok(Tensor::new(rows, cols, dtype, Storage::Cpu(Arc::new(CpuBuffer::Half(out)))))
        }
    }
}

/// To nearest, ties to even; a NaN stays one. Without branches, so that it becomes vectors.
#[inline(always)]
fn round_bf16_body(x: &[f32], out: &mut [u16]) {
    for (out, x) in out.iter_mut().zip(x) {
        let bits = x.to_bits();
        let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
        *out = if x.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded };
    }
}

on_best_simd! { fn round_bf16 = round_bf16_body(x: &[f32], out: &mut [u16]) }

fn round_f16(x: &[f32], out: &mut [u16]) {
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = f16::from_f32(x).to_bits());
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn bfloat16_is_rounded_as_the_half_crate_does() {
        let ties =
            [0x3f80_8000, 0x3f81_8000, 0x3f80_8001, 0x7f7f_ffff, 0x7f80_0000, 0xff80_0001, 0x7fc0_0000, 0x8000_0001];
        let spread = (0..10_000u32).map(|i| i.wrapping_mul(0x9e37_79b9));
        let x: Vec<f32> = ties.into_iter().chain(spread).map(f32::from_bits).collect();
        let mut out = vec![0; x.len()];
        round_bf16(&x, &mut out);
        let right: Vec<u16> = x.iter().map(|&x| bf16::from_f32(x).to_bits()).collect();
        assert_eq!(out, right);
    }
}
