//! Learned positions, resampled to each patch's place and added.

use super::{CpuOps, into_values, tensor, values};
use crate::ops::PositionTaps;
use crate::{EngineError, Tensor};

pub(super) fn run(ops: &CpuOps, x: Tensor, table: &Tensor, taps: &[PositionTaps]) -> Result<Tensor, EngineError> {
    const OP: &str = "add_positions";
    let (rows, cols) = (x.rows(), x.cols());
    if taps.len() != rows {
        return Err(EngineError::shape(OP, format!("{} taps for {rows} rows", taps.len())));
    }
    if table.cols() != cols {
        return Err(EngineError::width(OP, "the table", cols, table.cols()));
    }
    if let Some(bad) = taps.iter().flat_map(|taps| taps.index).find(|&row| row as usize >= table.rows()) {
        return Err(EngineError::shape(OP, format!("row {bad} of a table of {}", table.rows())));
    }
    let table = values(OP, table)?;
    let mut out = into_values(ops, OP, x)?;
    ops.workers.for_rows(&mut out, cols, |first, out| {
        for (out, taps) in out.chunks_exact_mut(cols).zip(&taps[first..]) {
            let [a, b, c, d] = taps.index.map(|row| &table[row as usize * cols..][..cols]);
            let [wa, wb, wc, wd] = taps.weight;
            for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *out += a * wa + b * wb + c * wc + d * wd;
            }
        }
    });
    Ok(tensor(rows, cols, out))
}
