//! Settings of an image processor: what the checkpoint says, and what the operator overrides.

use super::ProcessError;
use super::fields::{channels, count, flag, number, setting, wrong};
use super::normalise::Normalisation;
use serde_json::Value;

/// OpenAI's CLIP statistics, the defaults of the reference class, in its digits.
const CLIP_MEAN: [f32; 3] = [0.48145466, 0.4578275, 0.40821073];
#[expect(clippy::excessive_precision)]
const CLIP_STD: [f32; 3] = [0.26862954, 0.26130258, 0.27577711];
/// PIL's number of the only filter here.
const BICUBIC: u64 = 3;
/// A bound of ours, far above any checkpoint: an upscale of every picture to more would exhaust memory.
const MOST_MIN_PIXELS: u64 = 1 << 31;
/// Bounds of ours, far above any checkpoint.
const MOST_PATCH_SIZE: u64 = 512;
const MOST_GROUP: u64 = 64;

/// What the Qwen-VL image processors can be told.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageSettings {
    /// Resize at all. Without, pictures must divide into merge groups.
    pub do_resize: bool,
    /// Smallest area after resizing, in pixels (`size.shortest_edge`).
    pub min_pixels: u64,
    /// Largest area after resizing, in pixels (`size.longest_edge`).
    pub max_pixels: u64,
    /// Side of a patch in pixels.
    pub patch_size: u32,
    /// Frames of a patch.
    pub temporal_patch_size: u32,
    /// Side of a merge group in patches.
    pub merge_size: u32,
    /// Channel means of values between 0 and 1.
    pub image_mean: [f32; 3],
    /// Channel deviations of values between 0 and 1.
    pub image_std: [f32; 3],
    /// From bytes to the reference's values: the above, folded with `do_rescale`, `rescale_factor` and
    /// `do_normalize`.
    pub normalisation: Normalisation,
}

impl ImageSettings {
    /// Reads a `preprocessor_config.json` and, over it, the `image` object of `--mm-process-config`.
    ///
    /// As the reference: missing keys have the defaults of `Qwen2VLImageProcessor`; `min_pixels` and
    /// `max_pixels` win over `size`; an overriding `size` replaces the whole of the checkpoint's; keys of
    /// the checkpoint that mean nothing here are ignored, unknown overrides are refused.
    ///
    /// # Errors
    /// [`ProcessError::Setting`] with the key.
    pub fn read(config: &Value, overrides: Option<&Value>) -> Result<Self, ProcessError> {
        let mut raw = Raw::default();
        raw.take(config, Origin::Checkpoint)?;
        if let Some(overrides) = overrides.filter(|value| !value.is_null()) {
            raw.take(overrides, Origin::Operator)?;
        }
        raw.check()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Checkpoint,
    Operator,
}

/// Settings before they are known to fit each other.
struct Raw {
    do_resize: bool,
    do_rescale: bool,
    do_normalize: bool,
    rescale_factor: f64,
    shortest_edge: Option<u64>,
    longest_edge: Option<u64>,
    patch_size: u32,
    temporal_patch_size: u32,
    merge_size: u32,
    mean: [f32; 3],
    std: [f32; 3],
}

impl Default for Raw {
    /// The class attributes of `Qwen2VLImageProcessor`.
    fn default() -> Self {
        Self {
            do_resize: true,
            do_rescale: true,
            do_normalize: true,
            rescale_factor: 1.0 / 255.0,
            shortest_edge: Some(56 * 56),
            longest_edge: Some(28 * 28 * 1280),
            patch_size: 14,
            temporal_patch_size: 2,
            merge_size: 2,
            mean: CLIP_MEAN,
            std: CLIP_STD,
        }
    }
}

impl Raw {
    fn take(&mut self, object: &Value, origin: Origin) -> Result<(), ProcessError> {
        let Some(object) = object.as_object() else {
            return Err(wrong("(all)", "an object", object));
        };
        // The areas come last, whatever the order of the keys: they win over `size`.
        if let Some(size) = object.get("size").filter(|size| !(size.is_null() && origin == Origin::Checkpoint)) {
            self.take_size(size)?;
        }
        for (key, value) in object {
            if value.is_null() && origin == Origin::Checkpoint {
                continue;
            }
            match key.as_str() {
                "size" => {}
                "min_pixels" => self.shortest_edge = Some(count(key, value, u64::MAX)?),
                "max_pixels" => self.longest_edge = Some(count(key, value, u64::MAX)?),
                "patch_size" => self.patch_size = count(key, value, MOST_PATCH_SIZE)? as u32,
                "temporal_patch_size" => self.temporal_patch_size = count(key, value, MOST_GROUP)? as u32,
                "merge_size" => self.merge_size = count(key, value, MOST_GROUP)? as u32,
                "image_mean" => self.mean = channels(key, value)?,
                "image_std" => self.std = channels(key, value)?,
                "rescale_factor" => self.rescale_factor = number(key, value)?,
                "do_resize" => self.do_resize = flag(key, value)?,
                "do_rescale" => self.do_rescale = flag(key, value)?,
                "do_normalize" => self.do_normalize = flag(key, value)?,
                "resample" if value.as_u64() == Some(BICUBIC) => {}
                "resample" => return Err(wrong(key, "3 (bicubic), the only filter here", value)),
                // Where and how the reference computes, not what. Pixels are RGB already.
                "do_convert_rgb" | "device" | "disable_grouping" | "return_tensors" => {}
                _ if origin == Origin::Operator => {
                    return Err(setting(key, "unknown to this image processor".into()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take_size(&mut self, size: &Value) -> Result<(), ProcessError> {
        if !size.is_object() {
            return Err(wrong("size", "an object with shortest_edge and longest_edge", size));
        }
        let edge = |name: &str| match size.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => count(&format!("size.{name}"), value, u64::MAX).map(Some),
        };
        (self.shortest_edge, self.longest_edge) = (edge("shortest_edge")?, edge("longest_edge")?);
        Ok(())
    }

    fn check(self) -> Result<ImageSettings, ProcessError> {
        let missing =
            |field: &str| setting(field, "missing, and neither min_pixels nor max_pixels stands for it".into());
        let (min_pixels, max_pixels) = match (self.shortest_edge, self.longest_edge) {
            (Some(min), Some(max)) => (min, max),
            (None, _) if self.do_resize => return Err(missing("size.shortest_edge")),
            (_, None) if self.do_resize => return Err(missing("size.longest_edge")),
            (min, max) => (min.unwrap_or(1), max.unwrap_or(u64::MAX)),
        };
        if min_pixels > MOST_MIN_PIXELS {
            return Err(setting("min_pixels", format!("{min_pixels} is more than {MOST_MIN_PIXELS}")));
        }
        if self.std.contains(&0.0) {
            return Err(setting("image_std", "0 would be divided by".into()));
        }
        if !(self.rescale_factor.is_finite() && self.rescale_factor > 0.0) {
            return Err(setting("rescale_factor", format!("{} is not a positive number", self.rescale_factor)));
        }
        let rescale = self.do_rescale.then_some(self.rescale_factor);
        let statistics = self.do_normalize.then_some((self.mean, self.std));
        Ok(ImageSettings {
            do_resize: self.do_resize,
            min_pixels,
            max_pixels,
            patch_size: self.patch_size,
            temporal_patch_size: self.temporal_patch_size,
            merge_size: self.merge_size,
            image_mean: self.mean,
            image_std: self.std,
            normalisation: Normalisation::folded(rescale, statistics),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn areas(config: Value, overrides: Value) -> Result<(u64, u64), String> {
        let settings = ImageSettings::read(&config, Some(&overrides)).map_err(|error| error.to_string())?;
        Ok((settings.min_pixels, settings.max_pixels))
    }

    // Right values from AutoImageProcessor and calls of Qwen2VLImageProcessor, transformers 5.19.
    #[test]
    fn areas_come_from_either_layout_and_overrides_win() {
        let published = json!({"size": {"shortest_edge": 3136, "longest_edge": 12845056}});
        let capped = json!({"shortest_edge": 12544, "longest_edge": 18816});
        for (config, overrides, right) in [
            (json!({}), Value::Null, (3136, 1003520)),
            (json!({"min_pixels": 5000}), json!({}), (5000, 1003520)),
            (
                json!({"min_pixels": 5000, "max_pixels": 6000, "size": {"shortest_edge": 1, "longest_edge": 2}}),
                json!({}),
                (5000, 6000),
            ),
            (
                json!({"min_pixels": 5000, "max_pixels": 6000, "size": {"min_pixels": 1, "max_pixels": 2}}),
                json!({}),
                (5000, 6000),
            ),
            (published.clone(), json!({"max_pixels": 78400}), (3136, 78400)),
            (published.clone(), json!({"min_pixels": 1568000}), (1568000, 12845056)),
            (published.clone(), json!({"size": capped}), (12544, 18816)),
            (published.clone(), json!({"size": capped, "max_pixels": 78400}), (12544, 78400)),
            (json!({"min_pixels": 5000, "max_pixels": 6000}), json!({"size": capped}), (12544, 18816)),
        ] {
            assert_eq!(areas(config.clone(), overrides.clone()), Ok(right), "{config} {overrides}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (config, overrides, field, words) in [
            (json!([]), json!({}), "(all)", "an object"),
            (json!({"size": {"min_pixels": 4000, "max_pixels": 70000}}), json!({}), "size.shortest_edge", "missing"),
            (json!({"size": {"shortest_edge": 4000}}), json!({}), "size.longest_edge", "missing"),
            (json!({"size": 448}), json!({}), "size", "an object"),
            (json!({"max_pixels": "9"}), json!({}), "max_pixels", "got \"9\""),
            (json!({}), json!({"max_pixels": 78400.0}), "max_pixels", "positive integer"),
            (json!({}), json!({"max_pixels": null}), "max_pixels", "got null"),
            (json!({}), json!({"max_pixels": 0}), "max_pixels", "got 0"),
            (json!({}), json!({"min_pixels": -5}), "min_pixels", "got -5"),
            (json!({}), json!({"min_pixels": 1u64 << 40}), "min_pixels", "more than"),
            (json!({}), json!({"size": {"longest_edge": 18816}}), "size.shortest_edge", "missing"),
            (json!({}), json!({"foo": 1}), "foo", "unknown"),
            (json!({"resample": 2}), json!({}), "resample", "bicubic"),
            (json!({"patch_size": 100000}), json!({}), "patch_size", "from 1 to 512"),
            (json!({"image_mean": [0.5, 0.5]}), json!({}), "image_mean", "3 numbers"),
            (json!({"image_std": [0.5, 0.0, 0.5]}), json!({}), "image_std", "divided"),
            (json!({"rescale_factor": 0}), json!({}), "rescale_factor", "positive"),
            (json!({"do_resize": 1}), json!({}), "do_resize", "true or false"),
        ] {
            let error = areas(config.clone(), overrides.clone()).unwrap_err();
            assert!(error.contains(&format!("setting {field}: ")) && error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_checkpoint_may_have_keys_that_mean_nothing_here() {
        let config =
            json!({"processor_class": "Qwen2VLProcessor", "size": null, "image_mean": 0.5, "image_std": [0.25]});
        let settings = ImageSettings::read(&config, None).unwrap();
        assert_eq!((settings.image_mean, settings.image_std), ([0.5; 3], [0.25; 3]));
        assert_eq!((settings.patch_size, settings.merge_size, settings.temporal_patch_size), (14, 2, 2));
    }
}
