//! A family: what it makes of `config.json`, and its two halves: a processor that any thread may use, and
//! a tower that lives on a device.

use crate::ModelError;
use crate::load::Loader;
use crate::prepared::Prepared;
use crate::processors::ProcessError;
use ocelli_core::{GridThw, Modality, RgbImage};
use ocelli_engine::{DType, EngineError, Ops, Tensor};

/// What a server must know of an opened checkpoint before and after its weights are loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// The string in `config.json` that selected the family, such as `Qwen2_5_VLForConditionalGeneration`.
    pub architecture: String,
    /// `model_type` of `config.json`.
    pub model_type: String,
    /// What it can encode.
    pub modalities: Vec<Modality>,
    /// Columns of an output row, deepstack included.
    pub dim: usize,
    /// Element type of the output rows.
    pub dtype: DType,
    /// Side of a patch in pixels.
    pub patch_size: u32,
    /// Side of a merge group in patches.
    pub merge_size: u32,
    /// Frames of a patch.
    pub temporal_patch_size: u32,
}

/// From pixels to packed input. Pure, on any thread.
pub trait Processor: Send + Sync {
    /// The grid that [`Processor::image`] will give for a picture of this size, from the size alone.
    ///
    /// # Errors
    /// The sizes that the reference refuses.
    fn image_grid(&self, width: u32, height: u32) -> Result<GridThw, ProcessError>;

    /// Resizes and cuts a picture into patches.
    ///
    /// # Errors
    /// The sizes that the reference refuses.
    fn image(&self, picture: &RgbImage) -> Result<Prepared, ProcessError>;

    /// Output rows of an item with this grid.
    fn rows(&self, grid: GridThw) -> usize;
}

/// Loaded weights on one device, used by the one thread that owns it.
pub trait Tower: Send {
    /// One packed forward: the rows of all items, in order, `[Σ rows, dim]` in the card's dtype.
    ///
    /// # Errors
    /// A device error, or patches that do not fit their grid.
    fn forward(&self, ops: &dyn Ops, batch: &[&Prepared]) -> Result<Tensor, EngineError>;
}

/// What a family says of a checkpoint before its weights are there, and how it loads them.
pub(crate) trait Family: Send + Sync {
    /// Geometry of its input and output.
    fn shape(&self) -> Shape;

    /// Takes its tensors, all of them.
    ///
    /// # Errors
    /// Missing or wrong tensors, device errors.
    fn load(&self, loader: &Loader<'_>) -> Result<Box<dyn Tower>, ModelError>;
}

/// Geometry of a tower's input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Columns of an output row, deepstack included.
    pub dim: usize,
    /// Channels of a picture.
    pub channels: usize,
    /// Side of a patch in pixels.
    pub patch_size: usize,
    /// Side of a merge group in patches.
    pub merge_size: usize,
    /// Frames of a patch.
    pub temporal_patch_size: usize,
}
