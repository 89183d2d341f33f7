//! What is delivered: a part's embedding, or why there is none.

use crate::{DeliveryError, Staged};
use ocelli_core::{GridThw, Modality, ReqId};

/// The names that every message carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The part's id, as `/encode` gave it.
    pub req_id: ReqId,
    /// Parts of the whole user request.
    pub num_parts: u32,
    /// Which one this is, from 0.
    pub part_idx: u32,
    /// What its items are.
    pub modality: Modality,
}

/// Element type of the rows on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireDtype {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
}

impl WireDtype {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }

    /// The name in the `torch` module.
    pub fn torch_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
        }
    }
}

/// The rows of one part.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// One entry an item, in item order, in patches (pictures and videos).
    pub grid: Vec<GridThw>,
    /// Element type of `payload`.
    pub dtype: WireDtype,
    /// Rows of all items.
    pub rows: usize,
    /// Columns, deepstack included.
    pub dim: usize,
    /// `rows`·`dim` elements, row-major, little-endian, without padding.
    pub payload: Staged,
}

/// A fault as the language server hears it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Shown to the user by the language server.
    pub message: String,
    /// HTTP status; one that Python's `http.HTTPStatus` knows.
    pub code: u16,
}

/// One message to one destination.
#[derive(Debug, Clone)]
pub enum Message {
    /// Two frames: header and rows.
    Embedding(Part, Embedding),
    /// One frame: the header says it all.
    Error(Part, Failure),
}

impl Message {
    /// Refuses what the receiver could not take: it checks the payload's length to the byte and fails on
    /// an embedding without rows.
    ///
    /// # Errors
    /// `Shape` and `NoRows`.
    pub fn check(&self) -> Result<(), DeliveryError> {
        let Self::Embedding(_, Embedding { dtype, rows, dim, payload, .. }) = self else { return Ok(()) };
        let expected = rows.saturating_mul(*dim).saturating_mul(dtype.size());
        if expected != payload.len() {
            return Err(DeliveryError::Shape { rows: *rows, dim: *dim, expected, actual: payload.len() });
        }
        if expected == 0 { Err(DeliveryError::NoRows) } else { Ok(()) }
    }
}
