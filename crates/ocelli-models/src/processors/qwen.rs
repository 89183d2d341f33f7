//! The image processor of the Qwen-VL families (`Qwen2VLImageProcessor`, torchvision backend).

use super::{ImageSettings, Normalisation, ProcessError, smart_resize};
use crate::family::Processor;
use crate::prepared::{Patches, Prepared};
use ocelli_core::{GridThw, RgbImage};
use ocelli_engine::pixels::{PatchLayout, RgbView, resize_to_patches};
use serde_json::Value;

/// Smart resize, bicubic with antialiasing in 8 bits, patches in the order of merge groups.
#[derive(Debug, Clone, PartialEq)]
pub struct QwenImageProcessor {
    settings: ImageSettings,
}

impl QwenImageProcessor {
    /// Reads a `preprocessor_config.json` and the `image` object of `--mm-process-config`.
    ///
    /// # Errors
    /// [`ProcessError::Setting`] with the key; see [`ImageSettings::read`].
    pub fn from_config(config: &Value, overrides: Option<&Value>) -> Result<Self, ProcessError> {
        Ok(Self { settings: ImageSettings::read(config, overrides)? })
    }

    /// All settings.
    pub fn settings(&self) -> &ImageSettings {
        &self.settings
    }

    /// From a byte of a patch to the value that the tower expects.
    pub fn normalisation(&self) -> &Normalisation {
        &self.settings.normalisation
    }

    /// Channel means of values between 0 and 1.
    pub fn mean(&self) -> [f32; 3] {
        self.settings.image_mean
    }

    /// Channel deviations of values between 0 and 1.
    pub fn std(&self) -> [f32; 3] {
        self.settings.image_std
    }

    /// Side of a patch in pixels.
    pub fn patch_size(&self) -> u32 {
        self.settings.patch_size
    }

    /// Side of a merge group in patches.
    pub fn merge_size(&self) -> u32 {
        self.settings.merge_size
    }

    /// Frames of a patch.
    pub fn temporal_patch_size(&self) -> u32 {
        self.settings.temporal_patch_size
    }
}

impl Processor for QwenImageProcessor {
    fn image_grid(&self, width: u32, height: u32) -> Result<GridThw, ProcessError> {
        let ImageSettings { patch_size, merge_size, min_pixels, max_pixels, .. } = self.settings;
        let factor = patch_size * merge_size;
        let (height, width) = if self.settings.do_resize {
            smart_resize(height, width, factor, min_pixels, max_pixels)?
        } else if width == 0 || height == 0 {
            return Err(ProcessError::Empty { width, height });
        } else if width.is_multiple_of(factor) && height.is_multiple_of(factor) {
            (height, width)
        } else {
            return Err(ProcessError::NotDivisible { width, height, factor });
        };
        Ok(GridThw::new(1, height / patch_size, width / patch_size))
    }

    fn image(&self, picture: &RgbImage) -> Result<Prepared, ProcessError> {
        let grid = self.image_grid(picture.width(), picture.height())?;
        let (patch, merge) = (self.settings.patch_size as usize, self.settings.merge_size as usize);
        let view =
            RgbView { width: picture.width() as usize, height: picture.height() as usize, pixels: picture.pixels() };
        let (width, height) = (grid.w as usize * patch, grid.h as usize * patch);
        let bytes = resize_to_patches(view, width, height, PatchLayout { patch, merge })?;
        Ok(Prepared { grid, patches: Patches::Still(bytes) })
    }

    fn rows(&self, grid: GridThw) -> usize {
        grid.rows(self.settings.merge_size)
    }
}
