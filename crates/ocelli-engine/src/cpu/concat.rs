//! Tensors below one another, and side by side with the final rounding.

use super::{CpuBuffer, CpuOps, tensor, values};
use crate::tensor::Storage;
use crate::{DType, EngineError, Tensor};
use half::{bf16, f16};
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
            let round = |x: &f32| match dtype {
                DType::F16 => f16::from_f32(*x).to_bits(),
                _ => bf16::from_f32(*x).to_bits(),
            };
            let mut out = vec![0u16; rows * cols];
            ops.workers.for_rows(&mut out, cols, |first, out| {
                for (at, out) in out.chunks_exact_mut(cols).enumerate() {
                    let elements = row(first + at).flatten();
                    out.iter_mut().zip(elements).for_each(|(out, x)| *out = round(x));
                }
            });
            Ok(Tensor::new(rows, cols, dtype, Storage::Cpu(Arc::new(CpuBuffer::Half(out)))))
        }
    }
}
