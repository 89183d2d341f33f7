//! `silu(gate(x))·up(x)`, gate and up computed as one projection.

use super::gemm;
use super::linear::{check, linear, operands, pack};
use super::{CpuOps, tensor};
use crate::ops::Linear;
use crate::{DType, EngineError, Tensor, WeightView};

pub(super) fn upload(
    ops: &CpuOps,
    weights: [WeightView<'_>; 2],
    biases: [WeightView<'_>; 2],
    dtype: DType,
) -> Result<Linear, EngineError> {
    const OP: &str = "upload_swiglu";
    let [gate, up] = &weights;
    let &[outputs, inputs] = gate.dims else {
        return Err(EngineError::shape(OP, format!("the gate is {:?}, not a matrix", gate.dims)));
    };
    for (weight, bias) in weights.iter().zip(&biases) {
        check(OP, weight.elements(), Some(bias.elements()), outputs, inputs)?;
    }
    if gate.dtype != up.dtype {
        return Err(EngineError::dtype(OP, gate.dtype, up.dtype));
    }
    let mut bias = Vec::new();
    biases.iter().for_each(|part| part.extend_f32(&mut bias));
    let packed = pack(ops, &[gate.bytes, up.bytes], gate.dtype, (2 * outputs, inputs, true), dtype);
    Ok(linear(packed, Some(bias)))
}

pub(super) fn run(ops: &CpuOps, x: &Tensor, gate_up: &Linear) -> Result<Tensor, EngineError> {
    const OP: &str = "swiglu";
    let (rows, cols) = (x.rows(), gate_up.outputs() / 2);
    let products = rows * gate_up.outputs() * gate_up.inputs();
    let (x, gate_up) = operands(OP, x, gate_up)?;
    if !gate_up.weight.is_pair() {
        return Err(EngineError::shape(OP, "the projection is not a pair of gate and up"));
    }
    let mut out = ops.buffer(rows, cols);
    ops.workers.run(products, || gemm::gemm_swiglu(x, &gate_up.weight, gate_up.bias.as_deref(), &mut out));
    Ok(tensor(rows, cols, out))
}
