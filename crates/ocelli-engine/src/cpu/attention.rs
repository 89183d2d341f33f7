//! Attention over packed segments, queries and keys rotated first.

use super::{CpuOps, into_values, rope, tensor, values};
use crate::ops::Rope;
use crate::{EngineError, Segments, Tensor};

pub(super) fn run(
    ops: &CpuOps,
    qkv: Tensor,
    rope: &Rope,
    segments: &Segments,
    heads: usize,
) -> Result<Tensor, EngineError> {
    const OP: &str = "attention";
    let (rows, cols) = (qkv.rows(), qkv.cols());
    if heads == 0 || !cols.is_multiple_of(6 * heads) {
        return Err(EngineError::shape(OP, format!("{cols} columns are not q, k, v of {heads} heads of an even size")));
    }
    if segments.rows() != rows {
        return Err(EngineError::shape(OP, format!("segments of {} rows for {rows}", segments.rows())));
    }
    let (dim, head_dim) = (cols / 3, cols / 3 / heads);
    for (what, angles) in [("cos", &rope.cos), ("sin", &rope.sin)] {
        if angles.dims() != [rows, head_dim / 2] {
            let why = format!("{what} is {:?} instead of [{rows}, {}]", angles.dims(), head_dim / 2);
            return Err(EngineError::shape(OP, why));
        }
    }
    let mut qkv = into_values(ops, OP, qkv)?;
    rope::rotate(&ops.workers, &mut qkv, values(OP, &rope.cos)?, values(OP, &rope.sin)?, heads, head_dim);
    let mut out = ops.buffer(rows, dim);
    naive(&qkv, segments, heads, head_dim, (head_dim as f32).sqrt().recip(), &mut out);
    Ok(tensor(rows, dim, out))
}

fn naive(qkv: &[f32], segments: &Segments, heads: usize, head_dim: usize, scale: f32, out: &mut [f32]) {
    let dim = heads * head_dim;
    for segment in segments.iter() {
        for head in 0..heads {
            for q in segment.clone() {
                let query = &qkv[q * 3 * dim + head * head_dim..][..head_dim];
                let mut scores: Vec<f32> = segment
                    .clone()
                    .map(|k| {
                        let key = &qkv[k * 3 * dim + dim + head * head_dim..][..head_dim];
                        query.iter().zip(key).map(|(q, k)| q * k).sum::<f32>() * scale
                    })
                    .collect();
                let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                scores.iter_mut().for_each(|s| *s = (*s - most).exp());
                let sum: f32 = scores.iter().sum();
                let out = &mut out[q * dim + head * head_dim..][..head_dim];
                out.fill(0.0);
                for (score, k) in scores.iter().zip(segment.clone()) {
                    let value = &qkv[k * 3 * dim + 2 * dim + head * head_dim..][..head_dim];
                    out.iter_mut().zip(value).for_each(|(out, v)| *out += score / sum * v);
                }
            }
        }
    }
}
