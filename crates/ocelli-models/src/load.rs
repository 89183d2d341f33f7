//! Takes a tower's tensors from a checkpoint to a device, by name and shape.

use crate::ModelError;
use crate::blocks::norm::Norm;
use crate::blocks::patch_embed::PixelInput;
use ocelli_engine::{DType, Linear, Ops, Tensor, WeightView, Weights};
use std::cell::RefCell;

/// Called with bytes taken so far and bytes in all.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// A checkpoint on its way to a device.
pub struct Loader<'a> {
    /// The device.
    pub ops: &'a dyn Ops,
    /// Element type of weights and output.
    pub dtype: DType,
    /// What the processor makes of pixels.
    pub pixels: &'a PixelInput,
    weights: &'a Weights,
    progress: RefCell<Progress<'a>>,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(
        ops: &'a dyn Ops,
        dtype: DType,
        pixels: &'a PixelInput,
        weights: &'a Weights,
        progress: Progress<'a>,
    ) -> Self {
        Self { ops, dtype, pixels, weights, progress: RefCell::new(progress) }
    }

    /// The tensor `name`, which must have these dimensions.
    pub(crate) fn tensor(&self, name: &str, dims: &[usize]) -> Result<WeightView<'_>, ModelError> {
        let view = self.weights.take(name, dims)?;
        let (done, total) = self.weights.progress();
        (self.progress.borrow_mut())(done, total);
        Ok(view)
    }

    /// A projection with a bias.
    pub(crate) fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear, ModelError> {
        let weight = self.tensor(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = self.tensor(&format!("{name}.bias"), &[outputs])?;
        Ok(self.ops.upload_linear(&weight, Some(&bias), self.dtype)?)
    }

    /// Gate and up of a gated MLP, with biases.
    pub(crate) fn swiglu(&self, gate: &str, up: &str, outputs: usize, inputs: usize) -> Result<Linear, ModelError> {
        let weight = |name: &str| self.tensor(&format!("{name}.weight"), &[outputs, inputs]);
        let bias = |name: &str| self.tensor(&format!("{name}.bias"), &[outputs]);
        let (weights, biases) = ([weight(gate)?, weight(up)?], [bias(gate)?, bias(up)?]);
        Ok(self.ops.upload_swiglu(weights, biases, self.dtype)?)
    }

    /// A layer norm.
    pub(crate) fn layer_norm(&self, name: &str, dim: usize) -> Result<Norm, ModelError> {
        let weight = self.row(&format!("{name}.weight"), dim)?;
        Ok(Norm::Layer { weight, bias: self.row(&format!("{name}.bias"), dim)? })
    }

    /// An RMS norm.
    pub(crate) fn rms_norm(&self, name: &str, dim: usize) -> Result<Norm, ModelError> {
        Ok(Norm::Rms { weight: self.row(&format!("{name}.weight"), dim)? })
    }

    /// A table `[rows, cols]` that rows are taken from.
    pub(crate) fn table(&self, name: &str, rows: usize, cols: usize) -> Result<Tensor, ModelError> {
        Ok(self.ops.upload(&self.tensor(name, &[rows, cols])?.to_f32(), rows)?)
    }

    fn row(&self, name: &str, dim: usize) -> Result<Tensor, ModelError> {
        Ok(self.ops.upload(&self.tensor(name, &[dim])?.to_f32(), 1)?)
    }
}
