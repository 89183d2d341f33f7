//! The Qwen image processor against the reference's pixels, for every golden picture, and over all sizes.

#![allow(clippy::unwrap_used, clippy::panic)]

use ocelli_core::{Fault, Reason, RgbImage};
use ocelli_models::processors::{ImageSettings, QwenImageProcessor, normalised};
use ocelli_models::{Patches, Prepared, Processor};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

/// Pictures that the decoders of this test do not take as the reference does, and which no file of decoded
/// pixels holds. With Pillow's pixels in their place all of their cases hold too.
const NOT_DECODED_HERE: [&str; 7] = [
    "png_gray16.png",
    "png_rgb16.png",
    "ppm.ppm",
    "size_224.jpg",
    "size_4000x3000.jpg",
    "size_pano.jpg",
    "tiff_gray16.tif",
];

const PROCESSORS: [&str; 3] = ["qwen2_vl", "qwen2_vl_capped", "qwen3_vl"];

fn golden(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden")).join(path)
}

fn manifest(path: &str) -> Value {
    serde_json::from_slice(&fs::read(golden(path)).unwrap()).unwrap()
}

fn rows<'a>(manifest: &'a Value, key: &str) -> &'a [Value] {
    manifest[key].as_array().unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Pictures as the reference decodes them.
struct Media {
    manifest: Value,
    decoded: Vec<u8>,
}

impl Media {
    fn open() -> Self {
        let decoded = fs::read(golden("preprocess/decoded.safetensors")).unwrap();
        Self { manifest: manifest("media/manifest.json"), decoded }
    }

    /// The picture; `None` where only `ocelli-media` decodes as the reference does, which its own tests show.
    fn picture(&self, name: &str) -> Option<RgbImage> {
        let entry = &self.manifest["media"][name]["decode"];
        let entry = if entry.is_null() { &self.manifest[name]["decode"] } else { entry };
        let right = entry["rgb_sha256"].as_str().unwrap_or_else(|| panic!("{name} is not in the manifest"));
        let full = SafeTensors::deserialize(&self.decoded).unwrap();
        let (width, height, pixels) = if let Ok(rgb) = full.tensor(&format!("{name}.rgb")) {
            (rgb.shape()[1] as u32, rgb.shape()[0] as u32, rgb.data().to_vec())
        } else {
            let image = image::load_from_memory(&fs::read(golden("media").join(name)).unwrap()).ok()?.into_rgb8();
            (image.width(), image.height(), image.into_raw())
        };
        (sha256(&pixels) == right).then(|| RgbImage::new(width, height, pixels).unwrap())
    }
}

fn processor(manifest: &Value, name: &str) -> QwenImageProcessor {
    QwenImageProcessor::from_config(&manifest["image_processors"][name]["settings"], None).unwrap()
}

fn pixel_values(processor: &QwenImageProcessor, prepared: &Prepared) -> Vec<f32> {
    normalised(prepared, processor.normalisation(), processor.temporal_patch_size())
}

/// The resized picture as `[3, H, W]`.
fn unpatched(prepared: &Prepared, processor: &QwenImageProcessor) -> Vec<u8> {
    let Patches::Still(bytes) = &prepared.patches else { panic!("a picture is kept as bytes") };
    let (p, m) = (processor.patch_size() as usize, processor.merge_size() as usize);
    let (grid_h, grid_w) = (prepared.grid.h as usize, prepared.grid.w as usize);
    let (height, width) = (grid_h * p, grid_w * p);
    let mut picture = vec![0; 3 * height * width];
    for (i, patch) in bytes.chunks_exact(3 * p * p).enumerate() {
        let (group, inside) = (i / (m * m), i % (m * m));
        let row = group / (grid_w / m) * m + inside / m;
        let column = group % (grid_w / m) * m + inside % m;
        for (k, run) in patch.chunks_exact(p).enumerate() {
            let at = (k / p * height + row * p + k % p) * width + column * p;
            picture[at..at + p].copy_from_slice(run);
        }
    }
    picture
}

fn grid_of(prepared: &Prepared) -> Value {
    json!([prepared.grid.t, prepared.grid.h, prepared.grid.w])
}

#[test]
fn every_picture_has_the_reference_bytes_values_grid_and_rows() {
    let (manifest, media) = (manifest("preprocess/manifest.json"), Media::open());
    let mut done = 0;
    for name in PROCESSORS {
        let processor = processor(&manifest, name);
        let samples = fs::read(golden(&format!("preprocess/image.{name}.samples.safetensors"))).unwrap();
        let samples = SafeTensors::deserialize(&samples).unwrap();
        for case in rows(&manifest, "cases").iter().filter(|case| case["processor"] == name) {
            let label = format!("{} with {name}", case["media"]);
            let Some(picture) = media.picture(case["media"].as_str().unwrap()) else {
                assert!(NOT_DECODED_HERE.iter().any(|name| case["media"] == *name), "{label}: not decoded");
                continue;
            };
            let prepared = processor.image(&picture).unwrap();
            assert_eq!(json!([grid_of(&prepared)]), case["image_grid_thw"], "{label}");
            assert_eq!(json!(processor.rows(prepared.grid)), case["tokens"], "{label}");
            assert_eq!(sha256(&unpatched(&prepared, &processor)), case["u8"]["sha256"].as_str().unwrap(), "{label}");

            let values = pixel_values(&processor, &prepared);
            let sampled = samples.tensor(case["pixel_values"]["samples"].as_str().unwrap()).unwrap();
            for (i, right) in sampled.data().as_chunks::<4>().0.iter().enumerate() {
                let value = values[(i * 2_654_435_761) % values.len()];
                assert_eq!(value, f32::from_le_bytes(*right), "{label}: sample {i}");
            }
            let right = case["pixel_values"]["sha256"].as_str().unwrap();
            assert_eq!(sha256(&floats(&values)), right, "{label}: pixel_values");
            done += 1;
        }
    }
    assert_eq!(done + 3 * NOT_DECODED_HERE.len(), rows(&manifest, "cases").len());
}

#[test]
fn a_batch_is_its_pictures_one_after_another() {
    let (manifest, media) = (manifest("preprocess/manifest.json"), Media::open());
    for batch in rows(&manifest, "batches") {
        let processor = processor(&manifest, batch["processor"].as_str().unwrap());
        let prepared: Vec<Prepared> = rows(batch, "media")
            .iter()
            .map(|name| processor.image(&media.picture(name.as_str().unwrap()).unwrap()).unwrap())
            .collect();
        let grids: Vec<Value> = prepared.iter().map(grid_of).collect();
        assert_eq!(json!(grids), batch["image_grid_thw"]);
        let values: Vec<f32> = prepared.iter().flat_map(|item| pixel_values(&processor, item)).collect();
        assert_eq!(sha256(&floats(&values)), batch["sha256"].as_str().unwrap());
    }
}

#[test]
fn what_the_reference_refuses_is_refused_in_its_words_and_is_the_clients_fault() {
    let (manifest, media) = (manifest("preprocess/manifest.json"), Media::open());
    for case in rows(&manifest, "refused") {
        let processor = processor(&manifest, case["processor"].as_str().unwrap());
        let picture = media.picture(case["media"].as_str().unwrap()).unwrap();
        let Err(error) = processor.image(&picture) else { panic!("{case}") };
        assert_eq!(format!("ValueError: {error}"), case["error"].as_str().unwrap());
        assert_eq!(processor.image_grid(picture.width(), picture.height()), Err(error.clone()));
        assert_eq!(Fault::from(error).reason, Reason::Unprocessable);
    }
}

/// Deterministic pixels of a given size.
fn pattern(width: u32, height: u32) -> RgbImage {
    let pixels = (0..width * height * 3).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    RgbImage::new(width, height, pixels).unwrap()
}

#[test]
fn pictures_of_two_hundred_random_sizes_have_the_reference_bytes() {
    let settings = manifest("preprocess/manifest.json");
    let cases: Value = serde_json::from_str(include_str!("data/random_sizes.json")).unwrap();
    for case in rows(&cases, "cases") {
        let processor = processor(&settings, case["processor"].as_str().unwrap());
        let [width, height] = ["width", "height"].map(|side| case[side].as_u64().unwrap() as u32);
        let prepared = processor.image(&pattern(width, height)).unwrap();
        assert_eq!(grid_of(&prepared), case["grid"], "{case}");
        let Patches::Still(bytes) = &prepared.patches else { panic!("a picture is kept as bytes") };
        assert_eq!(sha256(bytes), case["sha256"].as_str().unwrap(), "{case}");
    }
}

/// What must hold for every size that is not refused.
fn check_size(processor: &QwenImageProcessor, width: u32, height: u32, with_pixels: bool) {
    let grid = match processor.image_grid(width, height) {
        Ok(grid) => grid,
        Err(error) => {
            assert!(width.max(height) > 200 * width.min(height), "{width}x{height}: {error}");
            assert_eq!(processor.image(&pattern(width, height)).err(), Some(error));
            return;
        }
    };
    let merge = processor.merge_size();
    assert!(grid.t == 1 && grid.fits_merge(merge), "{width}x{height}: {grid:?}");
    assert_eq!(processor.rows(grid), grid.patches() / (merge * merge) as usize);
    if with_pixels {
        let prepared = processor.image(&pattern(width, height)).unwrap();
        assert_eq!(prepared.grid, grid, "{width}x{height}");
        let patch = processor.patch_size() as usize;
        assert_eq!(prepared.bytes(), grid.patches() * 3 * patch * patch, "{width}x{height}");
    }
}

#[test]
fn rows_fit_the_grid_and_the_grid_is_known_from_the_size_for_all_sizes() {
    let manifest = manifest("preprocess/manifest.json");
    for name in PROCESSORS {
        let processor = processor(&manifest, name);
        for height in (28..=600).step_by(11) {
            for width in (28..=600).step_by(3) {
                check_size(&processor, width, height, width % 37 == 0 && height % 5 == 0);
            }
        }
        for (width, height) in [
            (999, 1001),
            (1024, 1024),
            (1275, 1650),
            (1280, 960),
            (1920, 1080),
            (3840, 2160),
            (4000, 3000),
            (8192, 8192),
            (12000, 60),
            (60, 12000),
            (16384, 16384),
            (65535, 65535),
            (u32::MAX, u32::MAX),
            (u32::MAX, u32::MAX / 200 + 1),
        ] {
            check_size(&processor, width, height, u64::from(width) * u64::from(height) < 1_000_000);
        }
    }
}

#[test]
fn tiny_and_thin_pictures_are_enlarged_or_refused_as_the_reference_does() {
    let manifest = manifest("preprocess/manifest.json");
    for name in PROCESSORS {
        let processor = processor(&manifest, name);
        for side in 1..=31 {
            check_size(&processor, side, side, true);
            check_size(&processor, side, 1, true);
            check_size(&processor, 1, side, true);
            check_size(&processor, side, 32 - side, true);
        }
        check_size(&processor, 1, 200, true);
        check_size(&processor, 200, 1, true);
        for (width, height) in [(1, 500), (500, 1), (201, 1), (1, u32::MAX)] {
            assert!(processor.image_grid(width, height).is_err(), "{width}x{height}");
        }
        assert!(processor.image_grid(0, 7).is_err());
    }
}

#[test]
fn without_resizing_only_whole_merge_groups_are_taken_and_bytes_stay() {
    let processor = QwenImageProcessor::from_config(&json!({"do_resize": false}), None).unwrap();
    let picture = pattern(56, 84);
    let prepared = processor.image(&picture).unwrap();
    let planes = unpatched(&prepared, &processor);
    let interleaved: Vec<u8> =
        (0..56 * 84).flat_map(|i| (0..3).map(move |c| (i, c))).map(|(i, c)| planes[c * 56 * 84 + i]).collect();
    assert!(interleaved == picture.pixels());
    let error = processor.image(&pattern(56, 83)).err().unwrap();
    assert_eq!(Fault::from(error).reason, Reason::Unprocessable);
}

#[test]
fn the_configs_of_checkpoints_read_as_the_golden_settings() {
    let manifest = manifest("preprocess/manifest.json");
    for (checkpoint, name) in
        [("qwen2_vl", "qwen2_vl"), ("qwen2_5_vl", "qwen2_vl"), ("qwen3_vl", "qwen3_vl"), ("qwen3_vl_moe", "qwen3_vl")]
    {
        let config = self::manifest(&format!("checkpoints/{checkpoint}/preprocessor_config.json"));
        let right = ImageSettings::read(&manifest["image_processors"][name]["settings"], None).unwrap();
        assert_eq!(ImageSettings::read(&config, None).unwrap(), right, "{checkpoint}");
    }
    let config = self::manifest("checkpoints/qwen2_5_vl/preprocessor_config.json");
    let capped = ImageSettings::read(&config, Some(&json!({"min_pixels": 12544, "max_pixels": 18816}))).unwrap();
    let right = ImageSettings::read(&manifest["image_processors"]["qwen2_vl_capped"]["settings"], None).unwrap();
    assert_eq!(capped, right);
}
