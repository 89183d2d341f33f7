//! Rows in another order.

use super::{CpuOps, tensor, values};
use crate::{EngineError, Tensor};

pub(super) fn run(ops: &CpuOps, x: &Tensor, index: &[u32]) -> Result<Tensor, EngineError> {
    const OP: &str = "gather_rows";
    let (rows, cols) = (index.len(), x.cols());
    if let Some(bad) = index.iter().find(|&&row| row as usize >= x.rows()) {
        return Err(EngineError::shape(OP, format!("row {bad} of {}", x.rows())));
    }
    let x = values(OP, x)?;
    let mut out = ops.buffer(rows, cols);
    ops.workers.for_rows(&mut out, cols, |first, out| {
        for (out, &row) in out.chunks_exact_mut(cols).zip(&index[first..]) {
            out.copy_from_slice(&x[row as usize * cols..][..cols]);
        }
    });
    Ok(tensor(rows, cols, out))
}
