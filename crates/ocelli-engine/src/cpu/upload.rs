//! From the host's values to tensors; 8-bit pixels are normalised on the way.

use super::{CpuOps, tensor};
use crate::ops::PixelScale;
use crate::{EngineError, Tensor};

pub(super) fn values(ops: &CpuOps, values: &[f32], rows: usize) -> Result<Tensor, EngineError> {
    if rows == 0 || !values.len().is_multiple_of(rows) {
        return Err(EngineError::shape("upload", format!("{} values in {rows} rows", values.len())));
    }
    let mut out = ops.buffer(1, values.len());
    out.copy_from_slice(values);
    Ok(tensor(rows, values.len() / rows, out))
}

pub(super) fn pixels(ops: &CpuOps, items: &[&[u8]], width: usize, scale: &PixelScale) -> Result<Tensor, EngineError> {
    const OP: &str = "upload_pixels";
    let channels = scale.table.len();
    if channels == 0 || !width.is_multiple_of(channels) {
        return Err(EngineError::shape(OP, format!("{width} columns do not divide into {channels} channels")));
    }
    let rows = packed_rows(OP, items, width)?;
    let mut out = ops.buffer(rows, width);
    let mut rest: &mut [f32] = &mut out;
    for item in items {
        let (here, after) = rest.split_at_mut(item.len());
        ops.workers.for_rows(here, width, |first, out| {
            let planes =
                out.chunks_exact_mut(width / channels).zip(item[first * width..].chunks_exact(width / channels));
            for (plane, (out, pixels)) in planes.enumerate() {
                let table = &scale.table[plane % channels];
                out.iter_mut().zip(pixels).for_each(|(out, &pixel)| *out = table[pixel as usize]);
            }
        });
        rest = after;
    }
    Ok(tensor(rows, width, out))
}

pub(super) fn patches(ops: &CpuOps, items: &[&[f32]], width: usize) -> Result<Tensor, EngineError> {
    let rows = packed_rows("upload_patches", items, width)?;
    let mut out = ops.buffer(rows, width);
    let mut rest: &mut [f32] = &mut out;
    for item in items {
        let (here, after) = rest.split_at_mut(item.len());
        here.copy_from_slice(item);
        rest = after;
    }
    Ok(tensor(rows, width, out))
}

fn packed_rows<T>(op: &'static str, items: &[&[T]], width: usize) -> Result<usize, EngineError> {
    if width == 0 {
        return Err(EngineError::shape(op, "patches of no elements"));
    }
    if let Some(bad) = items.iter().find(|item| !item.len().is_multiple_of(width)) {
        return Err(EngineError::shape(op, format!("{} elements are not whole patches of {width}", bad.len())));
    }
    Ok(items.iter().map(|item| item.len() / width).sum())
}
