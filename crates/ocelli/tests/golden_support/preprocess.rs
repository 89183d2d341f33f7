//! Pixels to patches: the sha256 of `pixel_values`, bit for bit; else the distance of the samples.

use super::{Folder, Report, Tensors, distance, sha256, text};
use ocelli_core::RgbImage;
use ocelli_media::{ImageLimits, ReadingMode, decode_image};
use ocelli_models::Processor;
use ocelli_models::processors::{QwenImageProcessor, normalised};
use serde_json::Value;
use std::collections::HashMap;

/// `element i of a tensor of n elements is at (i * 2654435761) % n, i < min(512, n)`.
const SAMPLE_STRIDE: usize = 2_654_435_761;

pub fn run(folder: &Folder, report: &mut Report) {
    let manifest = folder.json("preprocess/manifest.json");
    let mut processors = HashMap::new();
    for (name, entry) in manifest["image_processors"].as_object().expect("image_processors") {
        if text(entry, "class_torchvision") == "Qwen2VLImageProcessor" {
            let made = QwenImageProcessor::from_config(&entry["settings"], None);
            processors.insert(name.clone(), made.unwrap_or_else(|e| panic!("{name}: {e}")));
        }
    }
    let media_manifest = folder.json("media/manifest.json");
    let optional = |media: &str| media_manifest["media"][media]["optional"].as_bool() == Some(true);
    let mut tensors = Tensors::default();
    for case in manifest["cases"].as_array().expect("cases") {
        let (media, name) = (text(case, "media"), text(case, "processor"));
        let supported = processors.get(name).filter(|_| text(case, "modality") == "image");
        let Some(processor) = supported else {
            report.skip(&format!("preprocessing: {name}, {}", text(case, "modality")));
            continue;
        };
        if optional(media) && decode(folder, media).is_err() {
            report.skip("optional image formats");
            continue;
        }
        let family = format!("preprocess {name}");
        let outcome = decode(folder, media)
            .and_then(|picture| check(folder, report, &mut tensors, processor, case, &picture, &family));
        report.case(&family, media, outcome);
    }
    for case in manifest["refused"].as_array().expect("refused") {
        let (media, name) = (text(case, "media"), text(case, "processor"));
        let Some(processor) = processors.get(name) else {
            report.skip(&format!("refusals: {name}"));
            continue;
        };
        if !matches!(media_manifest["media"][media]["kind"].as_str(), Some("image" | "bad")) {
            report.skip("refusals of videos");
            continue;
        }
        let right = text(case, "error").trim_start_matches("ValueError: ").to_owned();
        let outcome = decode(folder, media).and_then(|picture| match processor.image(&picture) {
            Ok(_) => Err("accepted, the reference refuses it".into()),
            Err(why) if why.to_string().contains(&right) => Ok(()),
            Err(why) => Err(format!("says `{why}`, the reference `{right}`")),
        });
        report.case(&format!("refused {name}"), media, outcome);
    }
}

pub fn decode(folder: &Folder, media: &str) -> Result<RgbImage, String> {
    let bytes = folder.bytes(&format!("media/{media}"));
    decode_image(&bytes, &ImageLimits::default(), ReadingMode::AsSglang).map_err(|e| e.to_string())
}

fn check(
    folder: &Folder,
    report: &mut Report,
    tensors: &mut Tensors,
    processor: &QwenImageProcessor,
    case: &Value,
    picture: &RgbImage,
    family: &str,
) -> Result<(), String> {
    let prepared = processor.image(picture).map_err(|e| format!("refused: {e}"))?;
    let grid = [prepared.grid.t, prepared.grid.h, prepared.grid.w];
    if case["image_grid_thw"] != serde_json::json!([grid]) {
        return Err(format!("grid {grid:?}, not {}", case["image_grid_thw"]));
    }
    if case["tokens"].as_u64() != Some(processor.rows(prepared.grid) as u64) {
        return Err("another number of rows".into());
    }
    let values = normalised(&prepared, processor.normalisation(), processor.temporal_patch_size());
    let right = &case["pixel_values"];
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    if sha256(&bytes) == text(right, "sha256") {
        report.figure(family, 0.0, text(case, "media"));
        return Ok(());
    }
    // not bit for bit: then within one unit in the last place of a value near 1
    let file = format!("preprocess/image.{}.samples.safetensors", text(case, "processor"));
    let (samples, _) = tensors.f32(folder, &file, text(right, "samples"));
    let got: Vec<f32> = (0..samples.len()).map(|i| values[i * SAMPLE_STRIDE % values.len()]).collect();
    let (max, _) = distance(&got, &samples);
    report.figure(family, max, text(case, "media"));
    (max <= 2.5e-7).then_some(()).ok_or_else(|| format!("pixel_values differ by {max}"))
}
