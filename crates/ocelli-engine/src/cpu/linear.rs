//! Projections: the weight packed once, then one matrix product with its epilogue.

use super::gemm::{self, PackedMatrix};
use super::{CpuOps, tensor, values};
use crate::ops::{Epilogue, Linear, LinearStorage};
use crate::{DType, EngineError, Tensor, WeightView};
use half::{bf16, f16};
use std::sync::Arc;

/// A weight `[outputs, inputs]` in the layout of the kernel, and its bias.
pub(crate) struct CpuLinear {
    pub(super) weight: PackedMatrix,
    pub(super) bias: Option<Vec<f32>>,
}

pub(super) fn upload(
    ops: &CpuOps,
    weight: &WeightView<'_>,
    bias: Option<&WeightView<'_>>,
    dtype: DType,
) -> Result<Linear, EngineError> {
    const OP: &str = "upload_linear";
    let &[outputs, inputs] = weight.dims else {
        return Err(EngineError::shape(OP, format!("the weight is {:?}, not a matrix", weight.dims)));
    };
    check(OP, weight.elements(), bias.map(WeightView::elements), outputs, inputs)?;
    let packed = pack(ops, &[weight.bytes], weight.dtype, (outputs, inputs, false), dtype);
    Ok(linear(packed, bias.map(WeightView::to_f32)))
}

/// Packs the rows of `parts`, each as many, straight from the checkpoint. float16 is kept as float32,
/// which holds it exactly: no kernel here multiplies it faster.
pub(super) fn pack(
    ops: &CpuOps,
    parts: &[&[u8]],
    stored: DType,
    (outputs, inputs, pair): (usize, usize, bool),
    kept: DType,
) -> PackedMatrix {
    fn rows<const SIZE: usize>(
        parts: &[&[u8]],
        shape: (usize, usize, bool),
        kept: DType,
        widen: impl Fn([u8; SIZE]) -> f32 + Sync,
    ) -> PackedMatrix {
        let rows_of_part = shape.0 / parts.len();
        let row = |row: usize| &parts[row / rows_of_part].as_chunks().0[row % rows_of_part * shape.1..][..shape.1];
        PackedMatrix::pack_rows(shape, kept == DType::BF16, row, widen)
    }
    let shape = (outputs, inputs, pair);
    ops.workers.run(outputs * inputs, || match stored {
        DType::F32 => rows(parts, shape, kept, f32::from_le_bytes),
        DType::BF16 => rows(parts, shape, kept, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        DType::F16 => rows(parts, shape, kept, |bytes| f16::from_le_bytes(bytes).to_f32()),
    })
}

pub(super) fn upload_f32(
    weight: &[f32],
    bias: Option<&[f32]>,
    outputs: usize,
    inputs: usize,
) -> Result<Linear, EngineError> {
    check("upload_linear_f32", weight.len(), bias.map(<[f32]>::len), outputs, inputs)?;
    Ok(linear(PackedMatrix::pack_f32(weight, outputs, inputs), bias.map(<[f32]>::to_vec)))
}

/// What the packing asserts, as an error.
pub(super) fn check(
    op: &'static str,
    elements: usize,
    bias: Option<usize>,
    outputs: usize,
    inputs: usize,
) -> Result<(), EngineError> {
    if inputs == 0 || outputs == 0 || outputs.checked_mul(inputs) != Some(elements) {
        return Err(EngineError::shape(op, format!("{elements} elements are not [{outputs}, {inputs}]")));
    }
    match bias {
        Some(bias) if bias != outputs => Err(EngineError::width(op, "the bias", outputs, bias)),
        _ => Ok(()),
    }
}

pub(super) fn linear(weight: PackedMatrix, bias: Option<Vec<f32>>) -> Linear {
    let (outputs, inputs) = (weight.n(), weight.k());
    Linear::new(outputs, inputs, LinearStorage::Cpu(Arc::new(CpuLinear { weight, bias })))
}

/// Operand and weight, once they fit.
pub(super) fn operands<'a>(
    op: &'static str,
    x: &'a Tensor,
    linear: &'a Linear,
) -> Result<(&'a [f32], &'a CpuLinear), EngineError> {
    if x.cols() != linear.inputs() {
        return Err(EngineError::width(op, "the operand", linear.inputs(), x.cols()));
    }
    let LinearStorage::Cpu(linear) = linear.storage();
    Ok((values(op, x)?, linear))
}

pub(super) fn run(ops: &CpuOps, x: &Tensor, linear: &Linear, epilogue: Epilogue<'_>) -> Result<Tensor, EngineError> {
    const OP: &str = "linear";
    let (rows, cols) = (x.rows(), linear.outputs());
    let products = rows * cols * linear.inputs();
    let (x, linear) = operands(OP, x, linear)?;
    let epilogue = match epilogue {
        Epilogue::None => gemm::Epilogue::None,
        Epilogue::Activation(activation) => gemm::Epilogue::Activation(activation),
        Epilogue::Residual(residual) if residual.dims() == [rows, cols] => {
            gemm::Epilogue::Residual(values(OP, residual)?)
        }
        Epilogue::Residual(residual) => {
            return Err(EngineError::shape(OP, format!("residual {:?} for [{rows}, {cols}]", residual.dims())));
        }
    };
    let mut out = ops.buffer(rows, cols);
    ops.workers.run(products, || gemm::gemm(x, &linear.weight, linear.bias.as_deref(), epilogue, &mut out));
    Ok(tensor(rows, cols, out))
}
