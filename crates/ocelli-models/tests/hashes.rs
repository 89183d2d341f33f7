//! Item hashes, pad values and digests against sglang's.

#![allow(clippy::unwrap_used, clippy::panic)]

use ocelli_core::RgbImage;
use ocelli_models::processors::item_hash::{ContentDigest, feature_hash, namespaced, pad_values, raw_item_hash};
use safetensors::{SafeTensors, tensor::TensorView};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn golden(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden")).join(path)
}

fn hashes() -> Value {
    serde_json::from_slice(&fs::read(golden("hashes/hashes.json")).unwrap()).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

fn namespace(hashes: &Value) -> ContentDigest {
    let hex = hashes["namespace"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    ContentDigest(std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()))
}

/// The bytes of a golden feature: a tensor, some of its rows, or its transpose.
fn bytes_of(case: &Value, tensor: &TensorView<'_>) -> Vec<u8> {
    let (shape, data) = (tensor.shape(), tensor.data());
    let width = data.len() / shape.iter().product::<usize>().max(1);
    if let Some(range) = case["rows"].as_array() {
        let row = data.len() / shape[0];
        let [start, end] = [0, 1].map(|i| range[i].as_u64().unwrap() as usize * row);
        return data[start..end].to_vec();
    }
    if case["transpose"] == true {
        let places = (0..shape[1]).flat_map(|x| (0..shape[0]).map(move |y| (y * shape[1] + x) * width));
        return places.flat_map(|at| data[at..at + width].to_vec()).collect();
    }
    data.to_vec()
}

fn assert_identity(case: &Value, hash: u64, namespace: &ContentDigest) {
    assert_eq!(hash, number(&case["hash"]), "{case}");
    let pads: Vec<u64> = case["pad_values"].as_array().unwrap().iter().map(number).collect();
    assert_eq!(pad_values(hash)[..], pads[..], "{case}");
    assert_eq!(namespaced(hash, namespace), number(&case["namespaced"]), "{case}");
}

#[test]
fn features_and_bare_hashes_have_sglangs_identities() {
    let hashes = hashes();
    let namespace = namespace(&hashes);
    let inputs = fs::read(golden("hashes/inputs.safetensors")).unwrap();
    let inputs = SafeTensors::deserialize(&inputs).unwrap();
    for case in hashes["features"].as_array().unwrap() {
        let names = case["tensors"].as_array().unwrap().iter();
        let tensors: Vec<Vec<u8>> =
            names.map(|name| bytes_of(case, &inputs.tensor(name.as_str().unwrap()).unwrap())).collect();
        assert_identity(case, feature_hash(tensors.iter().map(Vec::as_slice)), &namespace);
    }
    for case in hashes["pad_values"].as_array().unwrap() {
        assert_identity(case, number(&case["hash"]), &namespace);
    }
}

#[test]
fn arrays_have_sglangs_digests() {
    let hashes = hashes();
    let inputs = fs::read(golden("hashes/inputs.safetensors")).unwrap();
    let inputs = SafeTensors::deserialize(&inputs).unwrap();
    for case in hashes["arrays"].as_array().unwrap() {
        let tensor = inputs.tensor(case["tensor"].as_str().unwrap()).unwrap();
        let numpy = case["dtype_str"].as_str().unwrap();
        let torch = match numpy {
            "|u1" => "torch.uint8",
            "<f4" => "torch.float32",
            "<i8" => "torch.int64",
            other => panic!("{other}"),
        };
        let (shape, bytes) = (tensor.shape(), tensor.data());
        assert_eq!(ContentDigest::of_numpy(numpy, shape, bytes).to_string(), case["numpy_digest"], "{case}");
        assert_eq!(ContentDigest::of_torch(torch, shape, bytes).to_string(), case["torch_digest"], "{case}");
        assert_eq!(raw_item_hash(numpy, shape, bytes), number(&case["raw_item_hash"]), "{case}");
    }
}

/// RGB pixels as the reference decodes them.
fn picture(name: &str) -> RgbImage {
    let decoded = fs::read(golden("preprocess/decoded.safetensors")).unwrap();
    let decoded = SafeTensors::deserialize(&decoded).unwrap();
    if let Ok(rgb) = decoded.tensor(&format!("{name}.rgb")) {
        return RgbImage::new(rgb.shape()[1] as u32, rgb.shape()[0] as u32, rgb.data().to_vec()).unwrap();
    }
    let image = image::open(golden("media").join(name)).unwrap().into_rgb8();
    RgbImage::new(image.width(), image.height(), image.into_raw()).unwrap()
}

#[test]
fn media_and_rgb_pictures_have_sglangs_digests() {
    for case in hashes()["media"].as_array().unwrap() {
        let name = case["media"].as_str().unwrap();
        // Palettes do not survive decoding to RGB, and sglang only compares what it fetched. Sound and
        // video belong to media that no family here takes.
        if case["mode"] == "P" || name.ends_with(".wav") || name.ends_with(".mp4") {
            continue;
        }
        let digest = match case["input"].as_str() {
            Some("bytes") => ContentDigest::of_bytes(&fs::read(golden("media").join(name)).unwrap()),
            _ => {
                let picture = picture(name);
                let shape = [picture.height() as usize, picture.width() as usize, 3];
                assert_eq!(raw_item_hash("|u1", &shape, picture.pixels()), number(&case["raw_item_hash"]), "{name}");
                ContentDigest::of_rgb(&picture)
            }
        };
        assert_eq!(digest.to_string(), case["digest"].as_str().unwrap(), "{name}");
    }
}
