//! What can go wrong in this room.

use crate::DType;
use std::path::PathBuf;
use thiserror::Error;

/// A failure of the engine. Each message is one sentence that a person can act on.
#[derive(Debug, Error)]
pub enum EngineError {
    /// An operation got operands that do not fit each other: a bug in a model, or patches that do not fit their grid.
    #[error("{op}: {why}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// Which operands, and how they differ.
        why: String,
    },
    /// Cumulative lengths that do not start at 0 or do not ascend.
    #[error("segment {index} ends at {end}, before its start {start}")]
    Segments {
        /// Which segment.
        index: usize,
        /// Where it starts.
        start: usize,
        /// Where it would end.
        end: usize,
    },
    /// The worker threads could not be started.
    #[error("cannot start {threads} worker threads: {why}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// The system's reason.
        why: String,
    },
    /// Neither a single file nor an index of shards.
    #[error("{} holds no weights: neither model.safetensors nor model.safetensors.index.json is there", dir.display())]
    NoWeights {
        /// The checkpoint.
        dir: PathBuf,
    },
    /// A file that cannot be opened or mapped.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A safetensors file that ends before its tensors do.
    #[error("{} is truncated: it has {found} bytes, its header announces {expected}", file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// Bytes that the header announces, header included.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// A safetensors file whose header makes no sense.
    #[error("{} is not a valid safetensors file: {why}", file.display())]
    BadHeader {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An index of shards that makes no sense.
    #[error("{} is not a valid index of shards: {why}", file.display())]
    BadIndex {
        /// The index.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A tensor that the model needs.
    #[error("the checkpoint lacks the tensor {name}")]
    MissingTensor {
        /// Its full name.
        name: String,
    },
    /// None of a tower's tensors.
    #[error("the checkpoint has no tensor whose name starts with {}", prefixes.join(" or "))]
    NoTensors {
        /// Where they were looked for.
        prefixes: Vec<String>,
    },
    /// Tensors under the model's prefix that the model does not have.
    #[error("the checkpoint has {count} tensor{} that the model does not: {}", if *count == 1 { "" } else { "s" }, names.join(", "))]
    UnexpectedTensors {
        /// How many.
        count: usize,
        /// The first few names, in order.
        names: Vec<String>,
    },
    /// A tensor of other dimensions than `config.json` says.
    #[error("the tensor {name} has the shape {found:?}, config.json says {expected:?}")]
    WrongShape {
        /// Its full name.
        name: String,
        /// What the configuration makes of it.
        expected: Vec<usize>,
        /// What the file has.
        found: Vec<usize>,
    },
    /// A tensor whose elements this engine does not read.
    #[error("the tensor {name} has the element type {found}; F32, BF16 and F16 are supported")]
    WrongDType {
        /// Its full name.
        name: String,
        /// The file's word for it.
        found: String,
    },
}

impl EngineError {
    /// Operands of `op` that do not fit.
    pub fn shape(op: &'static str, why: impl Into<String>) -> Self {
        Self::Shape { op, why: why.into() }
    }

    /// A matrix of another width than an operation needs.
    pub(crate) fn width(op: &'static str, what: &str, expected: usize, found: usize) -> Self {
        Self::shape(op, format!("{what} has {found} columns instead of {expected}"))
    }

    /// Weights of an element type that a caller cannot use.
    pub(crate) fn dtype(op: &'static str, expected: DType, found: DType) -> Self {
        Self::shape(op, format!("operand is {found} instead of {expected}"))
    }
}
