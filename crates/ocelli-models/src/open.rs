//! From a directory to a processor and, once there is a device, a tower.

use crate::blocks::patch_embed::PixelInput;
use crate::config::{Config, read_json};
use crate::family::Family;
use crate::load::Loader;
use crate::processors::QwenImageProcessor;
use crate::registry;
use crate::{Card, ModelError, Processor, Tower};
use ocelli_engine::{DType, Ops, PixelScale, Weights};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a tower's tensors are: transformers' layouts before and after 4.52.
const PREFIXES: &[&str] = &["visual.", "model.visual."];

/// What the operator may override.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Element type of weights and output; by default that of the checkpoint.
    pub dtype: Option<DType>,
    /// The `image` object of `--mm-process-config`: over `preprocessor_config.json`.
    pub image_config: Option<serde_json::Value>,
}

/// A checkpoint whose configuration is read and checked; its weights are still on disk.
pub struct Opened {
    dir: PathBuf,
    card: Card,
    processor: Arc<dyn Processor>,
    pixels: PixelInput,
    family: Box<dyn Family>,
}

/// Reads `config.json` and `preprocessor_config.json` of `dir`.
///
/// # Errors
/// Files that cannot be read, an architecture that is not supported, fields that make no sense.
pub fn open(dir: &Path, options: &OpenOptions) -> Result<Opened, ModelError> {
    let config = read_json(&dir.join("config.json"))?;
    let root = Config::root(&config);
    let architecture = architecture(root, &config)?;
    let line = registry::find(architecture)?;
    let model_type = root.text("model_type")?;
    if model_type != line.model_type {
        let (found, architecture) = (model_type.to_owned(), architecture.to_owned());
        return Err(ModelError::UnsupportedModelType { found, architecture, expected: line.model_type });
    }
    let family = (line.read)(root)?;
    let shape = family.shape();
    let dtype = match options.dtype {
        Some(dtype) => dtype,
        // the dtype of the published checkpoints that do not say theirs
        None => root.dtype()?.unwrap_or(DType::BF16),
    };

    let settings = read_json(&dir.join("preprocessor_config.json"))?;
    let processor = QwenImageProcessor::from_config(&settings, options.image_config.as_ref())?;
    let agree = |field, processor: u32, tower: usize| {
        let tower = u32::try_from(tower).unwrap_or(u32::MAX);
        if processor == tower { Ok(tower) } else { Err(ModelError::Mismatch { field, processor, tower }) }
    };
    let card = Card {
        architecture: architecture.to_owned(),
        model_type: model_type.to_owned(),
        modalities: line.modalities.to_vec(),
        dim: shape.dim,
        dtype,
        patch_size: agree("patch_size", processor.patch_size(), shape.patch_size)?,
        merge_size: agree("merge_size", processor.merge_size(), shape.merge_size)?,
        temporal_patch_size: agree("temporal_patch_size", processor.temporal_patch_size(), shape.temporal_patch_size)?,
    };
    let scale = PixelScale { table: processor.normalisation().table().to_vec() };
    let pixels = PixelInput { scale, shape };
    Ok(Opened { dir: dir.to_owned(), card, processor: Arc::new(processor), pixels, family })
}

impl Opened {
    /// What a server must know of it.
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Its processor, for any thread.
    pub fn processor(&self) -> Arc<dyn Processor> {
        self.processor.clone()
    }

    /// Takes the tower's tensors to the device. `progress` is called with bytes done and bytes in all.
    ///
    /// # Errors
    /// Files that are missing, truncated or contradict `config.json`; each names the file or the tensor.
    pub fn load(&self, ops: &dyn Ops, progress: &mut dyn FnMut(u64, u64)) -> Result<Box<dyn Tower>, ModelError> {
        let weights = Weights::open(&self.dir, PREFIXES)?;
        let loader = Loader::new(ops, self.card.dtype, &self.pixels, &weights, progress);
        let tower = self.family.load(&loader)?;
        weights.finish()?;
        Ok(tower)
    }
}

fn architecture<'a>(root: Config<'_>, config: &'a serde_json::Value) -> Result<&'a str, ModelError> {
    let list = config.get("architectures").ok_or_else(|| root.bad("architectures", "is missing"))?;
    let first = list.as_array().and_then(|list| list.first()).and_then(|first| first.as_str());
    first.ok_or_else(|| root.bad("architectures", "is not a list that starts with a string"))
}
