//! The operations on the CPU, one file each: the oracle of every other backend.
//!
//! Activations are float32; weights are float32 or bfloat16, widened in registers. Work is spread over
//! a pool of threads that the backend owns; an operation too small to gain from that runs on the calling thread.

mod activation;
mod add_positions;
mod attention;
pub mod attention_kernel;
mod buffer;
mod concat;
mod gather_rows;
pub mod gemm;
mod linear;
mod norm;
mod rope;
mod simd;
mod swiglu;
mod upload;
mod workers;

pub(crate) use buffer::CpuBuffer;
pub(crate) use linear::CpuLinear;

use crate::ops::{Epilogue, Linear, Ops, PixelScale, PositionTaps, Rope};
use crate::tensor::Storage;
use crate::{DType, EngineError, Segments, Tensor, WeightView};
use buffer::{F32Buffer, Recycler};
use std::sync::Arc;
use workers::Workers;

/// The CPU backend: a pool of threads and a store of used buffers.
pub struct CpuOps {
    workers: Workers,
    recycler: Arc<Recycler>,
}

impl CpuOps {
    /// A backend that computes on `threads` threads; 0 means as many as the machine has.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn new(threads: usize) -> Result<Self, EngineError> {
        Ok(Self { workers: Workers::new(threads)?, recycler: Arc::default() })
    }

    /// Threads that compute.
    pub fn threads(&self) -> usize {
        self.workers.threads()
    }

    /// A buffer for a result; what it holds is to be overwritten.
    fn buffer(&self, rows: usize, cols: usize) -> F32Buffer {
        F32Buffer::take(&self.recycler, rows * cols)
    }
}

/// A float32 result as a tensor.
fn tensor(rows: usize, cols: usize, values: F32Buffer) -> Tensor {
    Tensor::new(rows, cols, DType::F32, Storage::Cpu(Arc::new(CpuBuffer::F32(values))))
}

/// The elements of a float32 operand.
fn values<'a>(op: &'static str, x: &'a Tensor) -> Result<&'a [f32], EngineError> {
    let Storage::Cpu(buffer) = x.storage();
    match buffer.as_ref() {
        CpuBuffer::F32(values) => Ok(values),
        CpuBuffer::Half(_) => Err(EngineError::dtype(op, DType::F32, x.dtype())),
    }
}

/// The elements of a float32 operand, to be changed: its own memory when nobody shares it, else a copy.
fn into_values(ops: &CpuOps, op: &'static str, x: Tensor) -> Result<F32Buffer, EngineError> {
    let (rows, cols) = (x.rows(), x.cols());
    values(op, &x)?;
    let Storage::Cpu(buffer) = x.into_storage();
    match Arc::try_unwrap(buffer) {
        Ok(CpuBuffer::F32(values)) => Ok(values),
        Ok(CpuBuffer::Half(_)) => Err(EngineError::shape(op, "operand is not float32")),
        Err(shared) => {
            let mut copy = ops.buffer(rows, cols);
            if let CpuBuffer::F32(values) = shared.as_ref() {
                copy.copy_from_slice(values);
            }
            Ok(copy)
        }
    }
}

/// `what` must be a row of `cols` elements.
fn row_of<'a>(op: &'static str, what: &str, x: &'a Tensor, cols: usize) -> Result<&'a [f32], EngineError> {
    let row = values(op, x)?;
    if row.len() == cols { Ok(row) } else { Err(EngineError::width(op, what, cols, row.len())) }
}

impl Ops for CpuOps {
    fn upload_linear(
        &self,
        weight: &WeightView<'_>,
        bias: Option<&WeightView<'_>>,
        dtype: DType,
    ) -> Result<Linear, EngineError> {
        linear::upload(self, weight, bias, dtype)
    }

    fn upload_swiglu(
        &self,
        weights: [WeightView<'_>; 2],
        biases: [WeightView<'_>; 2],
        dtype: DType,
    ) -> Result<Linear, EngineError> {
        swiglu::upload(self, weights, biases, dtype)
    }

    fn upload_linear_f32(
        &self,
        weight: &[f32],
        bias: Option<&[f32]>,
        outputs: usize,
        inputs: usize,
    ) -> Result<Linear, EngineError> {
        linear::upload_f32(weight, bias, outputs, inputs)
    }

    fn upload(&self, values: &[f32], rows: usize) -> Result<Tensor, EngineError> {
        upload::values(self, values, rows)
    }

    fn upload_pixels(&self, items: &[&[u8]], width: usize, scale: &PixelScale) -> Result<Tensor, EngineError> {
        upload::pixels(self, items, width, scale)
    }

    fn upload_patches(&self, items: &[&[f32]], width: usize) -> Result<Tensor, EngineError> {
        upload::patches(self, items, width)
    }

    fn linear(&self, x: &Tensor, linear: &Linear, epilogue: Epilogue<'_>) -> Result<Tensor, EngineError> {
        linear::run(self, x, linear, epilogue)
    }

    fn swiglu(&self, x: &Tensor, gate_up: &Linear) -> Result<Tensor, EngineError> {
        swiglu::run(self, x, gate_up)
    }

    fn layer_norm(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, eps: f32) -> Result<Tensor, EngineError> {
        norm::layer_norm(self, x, weight, bias, eps)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor, EngineError> {
        norm::rms_norm(self, x, weight, eps)
    }

    fn attention(&self, qkv: Tensor, rope: &Rope, segments: &Segments, heads: usize) -> Result<Tensor, EngineError> {
        attention::run(self, qkv, rope, segments, heads)
    }

    fn gather_rows(&self, x: &Tensor, index: &[u32]) -> Result<Tensor, EngineError> {
        gather_rows::run(self, x, index)
    }

    fn add_positions(&self, x: Tensor, table: &Tensor, taps: &[PositionTaps]) -> Result<Tensor, EngineError> {
        add_positions::run(self, x, table, taps)
    }

    fn concat_rows(&self, parts: &[&Tensor]) -> Result<Tensor, EngineError> {
        concat::rows(self, parts)
    }

    fn concat_columns(&self, parts: &[&Tensor], dtype: DType) -> Result<Tensor, EngineError> {
        concat::columns(self, parts, dtype)
    }

    fn download(&self, x: &Tensor) -> Result<Vec<u8>, EngineError> {
        let Storage::Cpu(buffer) = x.storage();
        Ok(buffer.to_bytes())
    }
}
