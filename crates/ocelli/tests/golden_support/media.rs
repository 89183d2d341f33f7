//! Bytes to pixels: the sha256 of the RGB bytes, in both reading modes.

use super::{Folder, Report, sha256, text};
use ocelli_core::RgbImage;
use ocelli_media::{ImageLimits, ReadingMode, decode_image};
use serde_json::Value;

pub fn run(folder: &Folder, report: &mut Report) {
    let manifest = folder.json("media/manifest.json");
    for (name, entry) in manifest["media"].as_object().expect("media") {
        let kind = text(entry, "kind");
        if !matches!(kind, "image" | "bad") {
            report.skip(&format!("media of kind {kind}"));
            continue;
        }
        let bytes = folder.bytes(&format!("media/{name}"));
        let decoded = decode_image(&bytes, &ImageLimits::default(), ReadingMode::AsSglang);
        let optional = entry["optional"].as_bool() == Some(true);
        if optional && decoded.is_err() {
            report.skip("optional image formats");
            continue;
        }
        let decode = &entry["decode"];
        let outcome = match (decode["ok"].as_bool(), decoded) {
            (Some(true), Ok(picture)) => same(&picture, decode),
            (Some(true), Err(why)) => Err(format!("refused: {why}")),
            (_, Ok(_)) => Err("accepted, the reference refuses it".into()),
            (_, Err(_)) => Ok(()),
        };
        report.case("media as-sglang", name, outcome);
        for (what, right) in [("exif", &decode["exif"]), ("white", &decode["white"])] {
            if right.is_null() {
                continue;
            }
            let viewed = decode_image(&bytes, &ImageLimits::default(), ReadingMode::AsViewed);
            let outcome = viewed.map_err(|e| e.to_string()).and_then(|picture| same(&picture, right));
            report.case(&format!("media as-viewed, {what}"), name, outcome);
        }
    }
}

fn same(picture: &RgbImage, right: &Value) -> Result<(), String> {
    if let (Some(width), Some(height)) = (right["width"].as_u64(), right["height"].as_u64())
        && (u64::from(picture.width()), u64::from(picture.height())) != (width, height)
    {
        return Err(format!("is {}x{}, not {width}x{height}", picture.width(), picture.height()));
    }
    let digest = right["rgb_sha256"].as_str().or_else(|| right["sha256"].as_str()).unwrap_or_else(|| panic!("{right}"));
    (sha256(picture.pixels()) == digest).then_some(()).ok_or_else(|| "other pixels".into())
}
