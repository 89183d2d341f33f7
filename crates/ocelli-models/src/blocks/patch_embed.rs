//! From patches to the tower's width: a convolution whose stride is its kernel, hence a projection.

use crate::family::Shape;
use crate::load::Loader;
use crate::{ModelError, Patches, Prepared};
use ocelli_engine::{EngineError, Epilogue, Linear, Ops, PixelScale, Tensor};

/// What the tower must know of its processor.
pub struct PixelInput {
    /// From a byte to the value that the tower expects.
    pub scale: PixelScale,
    /// Geometry of a patch.
    pub shape: Shape,
}

/// Weights for both kinds of input.
pub(crate) struct PatchEmbed {
    /// `[dim, channels·frames·pixels]`.
    normalised: Linear,
    /// `[dim, channels·pixels]`: the frames of a still picture are equal, so their weights are added.
    still: Linear,
    scale: PixelScale,
}

impl PatchEmbed {
    /// Takes `{name}.weight` `[dim, channels, frames, patch, patch]` and, if `bias`, `{name}.bias`.
    pub(crate) fn load(loader: &Loader<'_>, name: &str, dim: usize, bias: bool) -> Result<Self, ModelError> {
        let Shape { channels, temporal_patch_size: frames, patch_size: patch, .. } = loader.pixels.shape;
        let pixels = patch * patch;
        let weight = loader.tensor(&format!("{name}.weight"), &[dim, channels, frames, patch, patch])?.to_f32();
        let bias = if bias { Some(loader.tensor(&format!("{name}.bias"), &[dim])?.to_f32()) } else { None };
        let mut folded = Vec::with_capacity(dim * channels * pixels);
        for frames_of_channel in weight.chunks_exact(frames * pixels) {
            folded.extend((0..pixels).map(|at| frames_of_channel[at..].iter().step_by(pixels).sum::<f32>()));
        }
        // float32 whatever the checkpoint's type: a sum of two bfloat16 is not one
        let upload = |values: &[f32], inputs| loader.ops.upload_linear_f32(values, bias.as_deref(), dim, inputs);
        Ok(Self {
            normalised: upload(&weight, channels * frames * pixels)?,
            still: upload(&folded, channels * pixels)?,
            scale: loader.pixels.scale.clone(),
        })
    }

    /// Patches of all items, in order: `[Σ patches, dim]`.
    pub(crate) fn forward(&self, ops: &dyn Ops, batch: &[&Prepared]) -> Result<Tensor, EngineError> {
        for (at, item) in batch.iter().enumerate() {
            let (elements, width) = match &item.patches {
                Patches::Still(bytes) => (bytes.len(), self.still.inputs()),
                Patches::Normalised(values) => (values.len(), self.normalised.inputs()),
            };
            if elements != item.grid.patches() * width {
                let why = format!("item {at}: {elements} elements for {:?} patches of {width}", item.grid);
                return Err(EngineError::shape("patch_embed", why));
            }
        }
        // neighbours of one kind go through one projection
        let is_still = |item: &Prepared| matches!(item.patches, Patches::Still(_));
        let runs = batch.chunk_by(|a, b| is_still(a) == is_still(b));
        let parts = runs.map(|run| self.run(ops, run)).collect::<Result<Vec<_>, _>>()?;
        match parts.as_slice() {
            [all] => Ok(all.clone()),
            parts => ops.concat_rows(&parts.iter().collect::<Vec<_>>()),
        }
    }

    /// Items of one kind.
    fn run(&self, ops: &dyn Ops, run: &[&Prepared]) -> Result<Tensor, EngineError> {
        let (mut still, mut normalised) = (Vec::new(), Vec::new());
        for item in run {
            match &item.patches {
                Patches::Still(bytes) => still.push(bytes.as_slice()),
                Patches::Normalised(values) => normalised.push(values.as_slice()),
            }
        }
        if normalised.is_empty() {
            let x = ops.upload_pixels(&still, self.still.inputs(), &self.scale)?;
            return ops.linear(&x, &self.still, Epilogue::None);
        }
        let x = ops.upload_patches(&normalised, self.normalised.inputs())?;
        ops.linear(&x, &self.normalised, Epilogue::None)
    }
}
