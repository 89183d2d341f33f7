//! A value on a device: `[rows, columns]` of one element type, cheap to clone.

use crate::cpu::CpuBuffer;
use crate::{DType, EngineError};
use std::sync::Arc;

/// Packed rows on a device. A clone shares the elements; they do not change while shared.
#[derive(Clone)]
pub struct Tensor {
    rows: usize,
    cols: usize,
    dtype: DType,
    storage: Storage,
}

/// Where the elements are. One variant a backend.
#[derive(Clone)]
pub(crate) enum Storage {
    /// Host memory.
    Cpu(Arc<CpuBuffer>),
}

impl Tensor {
    /// `storage` must hold `rows·cols` elements of `dtype`.
    pub(crate) fn new(rows: usize, cols: usize, dtype: DType, storage: Storage) -> Self {
        Self { rows, cols, dtype, storage }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// `[rows, columns]`.
    pub fn dims(&self) -> [usize; 2] {
        [self.rows, self.cols]
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.rows * self.cols * self.dtype.bytes()
    }

    /// The same elements with `rows` rows: `[n, d]` as `[n/m, m·d]`, what a merger does with its groups.
    ///
    /// # Errors
    /// The elements do not divide into so many rows.
    pub fn view_rows(&self, rows: usize) -> Result<Self, EngineError> {
        let elements = self.rows * self.cols;
        if rows == 0 || !elements.is_multiple_of(rows) {
            return Err(EngineError::shape("view", format!("{:?} does not divide into {rows} rows", self.dims())));
        }
        Ok(Self { rows, cols: elements / rows, ..self.clone() })
    }

    pub(crate) fn into_storage(self) -> Storage {
        self.storage
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }
}
