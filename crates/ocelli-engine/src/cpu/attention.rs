//! Attention over packed segments, queries and keys rotated first.

use super::{CpuOps, attention_kernel, into_values, rope, tensor, values};
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
    let scale = (head_dim as f32).sqrt().recip();
    let products = segments.iter().map(|segment| segment.len() * segment.len() * 2 * dim).sum();
    ops.workers.run(products, || {
        attention_kernel::attention(&qkv, segments.bounds(), heads, head_dim, scale, &mut out);
    });
    Ok(tensor(rows, dim, out))
}
