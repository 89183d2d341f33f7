//! Projections: the weight packed once, then one matrix product with its epilogue.

use super::activation;
use super::{CpuOps, tensor, values};
use crate::ops::{Epilogue, Linear, LinearStorage};
use crate::{DType, EngineError, Tensor, WeightView};
use half::bf16;
use std::sync::Arc;

/// A weight `[outputs, inputs]` in the layout of the kernel, and its bias.
pub(crate) struct CpuLinear {
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

/// Stacks weights below one another. float16 is kept as float32, which holds it exactly: no CPU here
/// multiplies it faster.
pub(super) fn upload(
    weights: &[WeightView<'_>],
    biases: &[WeightView<'_>],
    dtype: DType,
) -> Result<Linear, EngineError> {
    const OP: &str = "upload_linear";
    let inputs = weights.first().map_or(0, inputs_of);
    if inputs == 0 || weights.iter().any(|weight| inputs_of(weight) != inputs) {
        return Err(EngineError::shape(OP, "weights of different or no inputs"));
    }
    let outputs = weights.iter().map(|weight| weight.elements() / inputs).sum();
    let mut bias = Vec::new();
    biases.iter().for_each(|part| part.extend_f32(&mut bias));
    let bias = if biases.is_empty() { None } else { Some(bias) };
    check_bias(OP, bias.as_deref(), outputs)?;
    let mut values = Vec::new();
    match dtype {
        DType::BF16 => {
            let mut halves: Vec<bf16> = Vec::new();
            weights.iter().for_each(|weight| weight.extend_bf16(&mut halves));
            values.extend(halves.iter().map(|value| value.to_f32()));
        }
        DType::F32 | DType::F16 => weights.iter().for_each(|weight| weight.extend_f32(&mut values)),
    }
    Ok(linear(values, bias, outputs, inputs))
}

pub(super) fn upload_f32(
    weight: &[f32],
    bias: Option<&[f32]>,
    outputs: usize,
    inputs: usize,
) -> Result<Linear, EngineError> {
    const OP: &str = "upload_linear_f32";
    if inputs == 0 || weight.len() != outputs * inputs {
        return Err(EngineError::shape(OP, format!("{} values for [{outputs}, {inputs}]", weight.len())));
    }
    check_bias(OP, bias, outputs)?;
    Ok(linear(weight.to_vec(), bias.map(<[f32]>::to_vec), outputs, inputs))
}

pub(super) fn run(ops: &CpuOps, x: &Tensor, linear: &Linear, epilogue: Epilogue<'_>) -> Result<Tensor, EngineError> {
    const OP: &str = "linear";
    let (rows, k, n) = (x.rows(), linear.inputs(), linear.outputs());
    if x.cols() != k {
        return Err(EngineError::width(OP, "the operand", k, x.cols()));
    }
    let LinearStorage::Cpu(weight) = linear.storage();
    let x = values(OP, x)?;
    let residual = match epilogue {
        Epilogue::Residual(residual) if residual.dims() != [rows, n] => {
            return Err(EngineError::shape(OP, format!("residual {:?} for [{rows}, {n}]", residual.dims())));
        }
        Epilogue::Residual(residual) => Some(values(OP, residual)?),
        Epilogue::None | Epilogue::Activation(_) => None,
    };
    let mut out = ops.buffer(rows, n);
    ops.workers.for_rows(&mut out, n, |first, out| {
        for (at, out) in out.chunks_exact_mut(n).enumerate() {
            let x = &x[(first + at) * k..][..k];
            for (j, out) in out.iter_mut().enumerate() {
                let dot: f32 = x.iter().zip(&weight.weight[j * k..][..k]).map(|(x, w)| x * w).sum();
                *out = dot + weight.bias.as_ref().map_or(0.0, |bias| bias[j]);
            }
            if let Some(residual) = residual {
                out.iter_mut().zip(&residual[(first + at) * n..]).for_each(|(out, add)| *out += add);
            }
            if let Epilogue::Activation(activation) = epilogue {
                activation::apply(out, activation);
            }
        }
    });
    Ok(tensor(rows, n, out))
}

fn linear(weight: Vec<f32>, bias: Option<Vec<f32>>, outputs: usize, inputs: usize) -> Linear {
    Linear::new(outputs, inputs, LinearStorage::Cpu(Arc::new(CpuLinear { weight, bias })))
}

/// Elements of one output row: all dimensions after the first.
fn inputs_of(weight: &WeightView<'_>) -> usize {
    weight.dims.iter().skip(1).product()
}

fn check_bias(op: &'static str, bias: Option<&[f32]>, outputs: usize) -> Result<(), EngineError> {
    match bias {
        Some(bias) if bias.len() != outputs => Err(EngineError::width(op, "the bias", outputs, bias.len())),
        _ => Ok(()),
    }
}
