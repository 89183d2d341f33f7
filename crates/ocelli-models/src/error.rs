//! Why a checkpoint cannot be opened or loaded.

use crate::processors::ProcessError;
use ocelli_engine::EngineError;
use std::path::PathBuf;
use thiserror::Error;

/// A failure to open or load a checkpoint. Each message is one sentence that an operator can act on.
#[derive(Debug, Error)]
pub enum ModelError {
    /// A file of the checkpoint that cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file that is not JSON.
    #[error("{} is not valid JSON: {why}", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Where and why.
        why: String,
    },
    /// A field of `config.json` that is missing, of a wrong type, or has a value that is not supported.
    #[error("config.json: {field} {why}")]
    Config {
        /// Its path, dots between levels.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// An architecture that no family implements.
    #[error("the architecture {found} is not supported; supported are {}", supported.join(", "))]
    UnknownArchitecture {
        /// What `config.json` says.
        found: String,
        /// What there is, the most similar name first.
        supported: Vec<&'static str>,
    },
    /// A `model_type` that does not belong to the architecture.
    #[error("the model_type {found} is not supported; {architecture} has {expected}")]
    UnsupportedModelType {
        /// What `config.json` says.
        found: String,
        /// The architecture beside it.
        architecture: String,
        /// The one that goes with it.
        expected: &'static str,
    },
    /// `preprocessor_config.json` and `config.json` contradict each other.
    #[error("preprocessor_config.json has {field} {processor}, config.json {tower}")]
    Mismatch {
        /// The setting.
        field: &'static str,
        /// The processor's value.
        processor: u32,
        /// The tower's value.
        tower: u32,
    },
    /// The image processor's settings.
    #[error("preprocessor_config.json: {0}")]
    Processor(#[from] ProcessError),
    /// Weights or device.
    #[error(transparent)]
    Engine(#[from] EngineError),
}
