//! The identities that sglang gives to features and media.

use super::preprocess::decode;
use super::{Folder, Report, Tensors, text};
use ocelli_models::processors::item_hash::{ContentDigest, feature_hash, namespaced, pad_values, raw_item_hash};
use serde_json::Value;

pub fn run(folder: &Folder, report: &mut Report) {
    let all = folder.json("hashes/hashes.json");
    let inputs = text(&all, "inputs").to_owned();
    let namespace = parse_digest(text(&all, "namespace"));
    let mut tensors = Tensors::default();
    let list = |key: &str| all[key].as_array().unwrap_or_else(|| panic!("{key}")).clone();
    for case in list("features") {
        let bytes = feature_bytes(folder, &mut tensors, &inputs, &case);
        let hash = feature_hash(bytes.iter().map(Vec::as_slice));
        report.case("hashes of features", text(&case, "name"), identities(&case, hash, &namespace));
    }
    for case in list("pad_values") {
        let hash = integer(&case["hash"]);
        report.case("hashes, pad values", text(&case, "hash"), identities(&case, hash, &namespace));
    }
    for case in list("media") {
        let name = text(&case, "media");
        let digest = match (text(&case, "input"), case["mode"].as_str()) {
            ("bytes", _) => match std::fs::read(folder.root().join("media").join(name)) {
                Ok(bytes) => Ok(ContentDigest::of_bytes(&bytes)),
                Err(_) => {
                    report.skip("hashes of media that are not in the folder");
                    continue;
                }
            },
            ("pil", Some("RGB")) => decode(folder, name).map(|picture| ContentDigest::of_rgb(&picture)),
            _ => {
                report.skip("hashes of pictures that are not RGB");
                continue;
            }
        };
        let outcome = digest.and_then(|d| same("digest", &d.to_string(), text(&case, "digest")));
        report.case("hashes of media", name, outcome);
    }
    for case in list("arrays") {
        let name = text(&case, "tensor");
        let bytes = tensors.raw(folder, &inputs, name);
        let shape = tensors.shape(folder, &inputs, name);
        let numpy = text(&case, "dtype_str");
        let torch = match numpy {
            "|u1" => "torch.uint8",
            "<f4" => "torch.float32",
            "<i8" => "torch.int64",
            other => panic!("{other}"),
        };
        let outcome =
            same("numpy", &ContentDigest::of_numpy(numpy, &shape, &bytes).to_string(), text(&case, "numpy_digest"))
                .and_then(|()| {
                    same(
                        "torch",
                        &ContentDigest::of_torch(torch, &shape, &bytes).to_string(),
                        text(&case, "torch_digest"),
                    )
                })
                .and_then(|()| {
                    same("raw", &raw_item_hash(numpy, &shape, &bytes).to_string(), text(&case, "raw_item_hash"))
                });
        report.case("hashes of arrays", name, outcome);
    }
}

/// The bytes that a feature case hashes: whole tensors, some rows, or a transposed one made contiguous.
fn feature_bytes(folder: &Folder, tensors: &mut Tensors, inputs: &str, case: &Value) -> Vec<Vec<u8>> {
    let names = case["tensors"].as_array().expect("tensors");
    let load = |name: &Value| {
        let name = name.as_str().expect("name");
        let (bytes, shape) = (tensors.raw(folder, inputs, name), tensors.shape(folder, inputs, name));
        if let Some(rows) = case["rows"].as_array() {
            let row = bytes.len() / shape[0];
            let at = |i: usize| rows[i].as_u64().expect("row") as usize * row;
            return bytes[at(0)..at(1)].to_vec();
        }
        if case["transpose"] == true {
            let (n, m) = (shape[0], shape[1]);
            let item = bytes.len() / (n * m);
            let order = (0..m).flat_map(|j| (0..n).map(move |i| (i * m + j) * item));
            return order.flat_map(|start| bytes[start..start + item].to_vec()).collect();
        }
        bytes
    };
    names.iter().map(load).collect()
}

fn identities(case: &Value, hash: u64, namespace: &ContentDigest) -> Result<(), String> {
    same("hash", &hash.to_string(), text(case, "hash"))?;
    let right: Vec<u64> = case["pad_values"].as_array().expect("pad_values").iter().map(integer).collect();
    same("pad values", &format!("{:?}", pad_values(hash)), &format!("{right:?}"))?;
    same("namespaced", &namespaced(hash, namespace).to_string(), text(case, "namespaced"))
}

fn same(what: &str, got: &str, right: &str) -> Result<(), String> {
    (got == right).then_some(()).ok_or_else(|| format!("{what}: {got}, not {right}"))
}

fn integer(value: &Value) -> u64 {
    value.as_str().and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

fn parse_digest(text: &str) -> ContentDigest {
    let hex = text.trim_start_matches("sha256:");
    let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex");
    ContentDigest(std::array::from_fn(byte))
}
