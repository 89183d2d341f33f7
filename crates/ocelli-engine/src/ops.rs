//! The coarse operations: all that a model may call. Two backends implement them.
//!
//! Activations are `[rows, columns]`, packed; their element type is the backend's choice (the CPU
//! computes in float32). Coarse on purpose: a backend may fuse, reorder and cache inside one.

use crate::cpu::CpuLinear;
use crate::{DType, EngineError, Segments, Tensor, WeightView};
use std::sync::Arc;

/// What is done to a projection's result before it is stored.
#[derive(Clone, Copy)]
pub enum Epilogue<'a> {
    /// Nothing.
    None,
    /// An activation function.
    Activation(Activation),
    /// The sum with a tensor of the result's shape.
    Residual(&'a Tensor),
}

/// Activation functions, as PyTorch and transformers define them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `x·Φ(x)`: `nn.GELU()`, transformers' `gelu`.
    GeluErf,
    /// `gelu_pytorch_tanh`: `x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`.
    GeluTanh,
    /// `quick_gelu`: `x·σ(1.702·x)`.
    QuickGelu,
}

/// A projection `y = x·Wᵀ + b`, its weight laid out for the device once, when it is loaded.
#[derive(Clone)]
pub struct Linear {
    outputs: usize,
    inputs: usize,
    storage: LinearStorage,
}

/// One variant a backend.
#[derive(Clone)]
pub(crate) enum LinearStorage {
    /// Host memory.
    Cpu(Arc<CpuLinear>),
}

impl Linear {
    pub(crate) fn new(outputs: usize, inputs: usize, storage: LinearStorage) -> Self {
        Self { outputs, inputs, storage }
    }

    /// Columns of its result.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Columns of its operand.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    pub(crate) fn storage(&self) -> &LinearStorage {
        &self.storage
    }
}

/// Rotary angles of each row: cosines and sines, `[rows, head_dim/2]`; the second half of a head turns
/// by the same angles as the first.
#[derive(Clone)]
pub struct Rope {
    /// Cosines.
    pub cos: Tensor,
    /// Sines.
    pub sin: Tensor,
}

/// Four rows of a position table and what each weighs, for one patch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PositionTaps {
    /// Rows of the table.
    pub index: [u32; 4],
    /// Their weights.
    pub weight: [f32; 4],
}

/// What an 8-bit pixel value becomes, by channel: the processor's rescaling and normalising.
#[derive(Clone, PartialEq)]
pub struct PixelScale {
    /// `[channel][value]`.
    pub table: Vec<[f32; 256]>,
}

/// Operations of one device. Used by the one thread that owns it.
///
/// Every method fails with [`EngineError::Shape`] when its operands do not fit each other, and with a
/// device error where the device has errors.
#[allow(clippy::missing_errors_doc)] // said once, above
pub trait Ops: Send {
    /// A projection from `weight` `[outputs, inputs]` and `bias` `[outputs]`. The weight is kept in
    /// `dtype` where the device computes with it.
    fn upload_linear(
        &self,
        weight: &WeightView<'_>,
        bias: Option<&WeightView<'_>>,
        dtype: DType,
    ) -> Result<Linear, EngineError>;

    /// Two projections of the same shape, gate and up, with their biases, as one for [`Ops::swiglu`]: its outputs
    /// are those of both.
    fn upload_swiglu(
        &self,
        weights: [WeightView<'_>; 2],
        biases: [WeightView<'_>; 2],
        dtype: DType,
    ) -> Result<Linear, EngineError>;

    /// A projection from values computed at load, `[outputs, inputs]`; kept in float32.
    fn upload_linear_f32(
        &self,
        weight: &[f32],
        bias: Option<&[f32]>,
        outputs: usize,
        inputs: usize,
    ) -> Result<Linear, EngineError>;

    /// Values from the host as `[rows, values.len()/rows]`: norm weights, position tables, angles.
    fn upload(&self, values: &[f32], rows: usize) -> Result<Tensor, EngineError>;

    /// Patches of 8-bit pixels, packed and normalised: each of `items` is `[patches, channels·pixels]`;
    /// the result `[Σ patches, width]`, `width` a multiple of the scale's channels.
    fn upload_pixels(&self, items: &[&[u8]], width: usize, scale: &PixelScale) -> Result<Tensor, EngineError>;

    /// Patches that are normalised already, packed: each of `items` is `[patches, width]`.
    fn upload_patches(&self, items: &[&[f32]], width: usize) -> Result<Tensor, EngineError>;

    /// `epilogue(x·Wᵀ + b)`: `[n, inputs]` → `[n, outputs]`.
    fn linear(&self, x: &Tensor, linear: &Linear, epilogue: Epilogue<'_>) -> Result<Tensor, EngineError>;

    /// `silu(gate(x))·up(x)`, both made by [`Ops::upload_swiglu`]: `[n, inputs]` → `[n, d]`.
    fn swiglu(&self, x: &Tensor, gate_up: &Linear) -> Result<Tensor, EngineError>;

    /// `(x − mean)/√(variance + eps)·weight + bias` of each row.
    fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor, EngineError>;

    /// `x/√(mean(x²) + eps)·weight` of each row.
    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor, EngineError>;

    /// Rotates queries and keys, then `softmax(q·kᵀ/√head_dim)·v` within each segment.
    /// `qkv` is `[n, 3·heads·head_dim]`: queries, keys, values, each by head; the result
    /// `[n, heads·head_dim]`. Takes `qkv` to use its memory.
    fn attention(&self, qkv: Tensor, rope: &Rope, segments: &Segments, heads: usize) -> Result<Tensor, EngineError>;

    /// Row `index[i]` of `x` becomes row `i`.
    fn gather_rows(&self, x: &Tensor, index: &[u32]) -> Result<Tensor, EngineError>;

    /// `x[i] + Σ weight·table[index]` of the taps of row `i`. Takes `x` to use its memory.
    fn add_positions(&self, x: Tensor, table: &Tensor, taps: &[PositionTaps]) -> Result<Tensor, EngineError>;

    /// Rows below one another: `[n₀ + n₁ + …, d]`.
    fn concat_rows(&self, parts: &[&Tensor]) -> Result<Tensor, EngineError>;

    /// Columns side by side, rounded to `dtype`: `[n, d₀ + d₁ + …]`. What a tower ends with.
    fn concat_columns(&self, parts: &[&Tensor], dtype: DType) -> Result<Tensor, EngineError>;

    /// The elements in host memory, row-major, little-endian, in the tensor's element type.
    fn download(&self, x: &Tensor) -> Result<Vec<u8>, EngineError>;
}
