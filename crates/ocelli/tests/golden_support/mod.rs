//! What the parts of the golden runner share.

pub mod embeddings;
pub mod hashes;
pub mod media;
pub mod preprocess;

use safetensors::SafeTensors;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A golden folder.
pub struct Folder(PathBuf);

impl Folder {
    pub fn open() -> Self {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
        Self(std::env::var_os("OCELLI_GOLDEN_DIR").map_or(own, PathBuf::from))
    }

    pub fn root(&self) -> &Path {
        &self.0
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.bytes(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

/// Files of tensors, each read once.
#[derive(Default)]
pub struct Tensors(HashMap<String, Vec<u8>>);

impl Tensors {
    /// A tensor widened to f32, and its shape.
    pub fn f32(&mut self, folder: &Folder, file: &str, name: &str) -> (Vec<f32>, Vec<usize>) {
        let bytes = self.0.entry(file.to_owned()).or_insert_with(|| folder.bytes(file));
        let tensors = SafeTensors::deserialize(bytes).unwrap_or_else(|e| panic!("{file}: {e}"));
        let view = tensors.tensor(name).unwrap_or_else(|e| panic!("{file}: {name}: {e}"));
        let data = view.data();
        let values = match view.dtype() {
            safetensors::Dtype::F32 => data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            safetensors::Dtype::F16 => {
                data.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect()
            }
            other => panic!("{file}: {name} is {other:?}"),
        };
        (values, view.shape().to_vec())
    }

    /// A tensor's raw bytes.
    pub fn raw(&mut self, folder: &Folder, file: &str, name: &str) -> Vec<u8> {
        let bytes = self.0.entry(file.to_owned()).or_insert_with(|| folder.bytes(file));
        let tensors = SafeTensors::deserialize(bytes).unwrap_or_else(|e| panic!("{file}: {e}"));
        tensors.tensor(name).unwrap_or_else(|e| panic!("{file}: {name}: {e}")).data().to_vec()
    }

    pub fn shape(&mut self, folder: &Folder, file: &str, name: &str) -> Vec<usize> {
        let bytes = self.0.entry(file.to_owned()).or_insert_with(|| folder.bytes(file));
        let tensors = SafeTensors::deserialize(bytes).unwrap_or_else(|e| panic!("{file}: {e}"));
        tensors.tensor(name).unwrap_or_else(|e| panic!("{file}: {name}: {e}")).shape().to_vec()
    }
}

/// Counts, failures, and the worst figure of each family.
#[derive(Default)]
pub struct Report {
    pub passed: usize,
    pub failed: usize,
    skipped: BTreeMap<String, usize>,
    worst: BTreeMap<String, (f64, String)>,
}

impl Report {
    /// One case: its family, its name, what was wrong.
    pub fn case(&mut self, family: &str, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(why) => {
                self.failed += 1;
                println!("FAIL {family} {name}: {why}");
            }
        }
    }

    pub fn skip(&mut self, what: &str) {
        *self.skipped.entry(what.to_owned()).or_default() += 1;
    }

    /// A figure where smaller is better.
    pub fn figure(&mut self, family: &str, value: f64, name: &str) {
        let worst = self.worst.entry(family.to_owned()).or_insert((-1.0, String::new()));
        if value > worst.0 {
            *worst = (value, name.to_owned());
        }
    }

    pub fn print(&self) {
        println!("{:44} {:>12}  worst case", "family", "worst");
        for (family, (value, name)) in &self.worst {
            println!("{family:44} {value:>12.3e}  {name}");
        }
        for (what, count) in &self.skipped {
            println!("skipped, not supported: {what} ({count})");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

pub fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("{key} is no string in {case}"))
}

/// Largest difference, and the difference relative to the right value in the L2 norm.
pub fn distance(got: &[f32], right: &[f32]) -> (f64, f64) {
    let (mut max, mut square, mut norm) = (0.0f64, 0.0, 0.0);
    for (g, r) in got.iter().zip(right) {
        let d = f64::from(*g) - f64::from(*r);
        max = if d.is_nan() { f64::INFINITY } else { max.max(d.abs()) };
        square += d * d;
        norm += f64::from(*r) * f64::from(*r);
    }
    (max, (square / norm.max(f64::MIN_POSITIVE)).sqrt())
}
