//! From pixels to packed input.
//!
//! Knows pictures as pixels and a processor's settings; it must not know files, weights or requests. The
//! arithmetic of the pixels themselves is `ocelli_engine::pixels`; what is here decides sizes.
//!
//! | file | what |
//! | --- | --- |
//! | [`settings`] | `preprocessor_config.json` and the overrides of `--mm-process-config` |
//! | [`smart_resize()`] | the size that a picture is resized to |
//! | [`qwen`] | the processor of the Qwen-VL families |
//! | [`normalise`] | bytes to the reference's `pixel_values` |
//! | [`item_hash`] | the identities that sglang gives to features and media |

mod fields;
pub mod item_hash;
pub mod normalise;
pub mod qwen;
pub mod settings;
mod smart_resize;

pub use normalise::{Normalisation, normalised};
pub use qwen::QwenImageProcessor;
pub use settings::ImageSettings;
pub use smart_resize::{MAX_ASPECT_RATIO, smart_resize};

use ocelli_core::{Fault, Reason};
use ocelli_engine::pixels::PixelError;

/// What a processor cannot take: settings when it is made, pictures later.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProcessError {
    /// A setting is missing, of a wrong type, out of range or not implemented.
    #[error("image processor setting {field}: {problem}")]
    Setting {
        /// Its key, with dots where it is nested.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A side is 0.
    #[error("image of {width}x{height} pixels is empty")]
    Empty {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// One side is more than [`MAX_ASPECT_RATIO`] times the other. The reference's words.
    #[error("absolute aspect ratio must be smaller than 200, got {ratio:?}")]
    AspectRatio {
        /// Longer side over shorter side.
        ratio: f64,
    },
    /// Resizing is switched off and the picture does not divide into merge groups.
    #[error("image of {width}x{height} pixels does not divide into groups of {factor}x{factor} (do_resize is false)")]
    NotDivisible {
        /// Columns.
        width: u32,
        /// Rows.
        height: u32,
        /// Side of a merge group in pixels.
        factor: u32,
    },
    /// The resized picture would be beyond what can be addressed.
    #[error("image of {width}x{height} pixels becomes too large")]
    TooLarge {
        /// Columns before.
        width: u32,
        /// Rows before.
        height: u32,
    },
    /// The pixel loops refused what this module gave them.
    #[error(transparent)]
    Pixels(#[from] PixelError),
}

impl From<ProcessError> for Fault {
    fn from(error: ProcessError) -> Self {
        let reason = match error {
            ProcessError::Setting { .. } | ProcessError::Pixels(_) => Reason::Internal,
            _ => Reason::Unprocessable,
        };
        Fault::new(reason, error.to_string())
    }
}
