//! Fields of `config.json`, read one by one so that an error names the field.

use crate::ModelError;
use ocelli_engine::{Activation, DType};
use serde_json::Value;
use std::path::Path;

/// Largest JSON file that is read; published ones are a few KB.
const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Largest size that a dimension may have: keeps products of three within 64 bits.
const MAX_SIZE: u64 = 1 << 20;

/// A JSON file of a checkpoint.
pub(crate) fn read_json(file: &Path) -> Result<Value, ModelError> {
    let read = |source| ModelError::Read { file: file.to_owned(), source };
    let json = |why: String| ModelError::Json { file: file.to_owned(), why };
    if std::fs::metadata(file).map_err(read)?.len() > MAX_CONFIG_BYTES {
        return Err(json(format!("it is larger than {MAX_CONFIG_BYTES} bytes")));
    }
    serde_json::from_slice(&std::fs::read(file).map_err(read)?).map_err(|why| json(why.to_string()))
}

/// An object of `config.json` and the path to it.
#[derive(Clone, Copy)]
pub struct Config<'a> {
    value: &'a Value,
    path: &'a str,
}

impl<'a> Config<'a> {
    /// The whole file.
    pub(crate) fn root(value: &'a Value) -> Self {
        Self { value, path: "" }
    }

    /// The object `name` of the top level.
    pub(crate) fn section(self, name: &'static str) -> Result<Self, ModelError> {
        match self.value.get(name) {
            Some(value) if value.is_object() => Ok(Self { value, path: name }),
            Some(_) => Err(self.bad(name, "is not an object")),
            None => Err(self.bad(name, "is missing")),
        }
    }

    /// Whether the field is there and not null.
    pub(crate) fn has(self, name: &str) -> bool {
        self.value.get(name).is_some_and(|value| !value.is_null())
    }

    /// A size of at least 1.
    pub(crate) fn size(self, name: &str) -> Result<usize, ModelError> {
        let value = self.value.get(name).ok_or_else(|| self.bad(name, "is missing"))?;
        match value.as_u64() {
            Some(size) if (1..=MAX_SIZE).contains(&size) => Ok(size as usize),
            _ => Err(self.bad(name, format!("is {value}, not a whole number from 1 to {MAX_SIZE}"))),
        }
    }

    /// A size, or `default` where the field is missing (the default of transformers' configuration class).
    pub(crate) fn size_or(self, name: &str, default: usize) -> Result<usize, ModelError> {
        if self.has(name) { self.size(name) } else { Ok(default) }
    }

    /// A string.
    pub(crate) fn text(self, name: &str) -> Result<&'a str, ModelError> {
        let value = self.value.get(name).ok_or_else(|| self.bad(name, "is missing"))?;
        value.as_str().ok_or_else(|| self.bad(name, format!("is {value}, not a string")))
    }

    /// Numbers of layers, ascending, each below `depth`.
    pub(crate) fn layers(self, name: &str, depth: usize) -> Result<Vec<usize>, ModelError> {
        let value = self.value.get(name).ok_or_else(|| self.bad(name, "is missing"))?;
        let list = value.as_array().ok_or_else(|| self.bad(name, "is not a list"))?;
        let layers: Option<Vec<usize>> = list.iter().map(|v| v.as_u64().and_then(|v| v.try_into().ok())).collect();
        match layers {
            Some(layers) if layers.is_sorted_by(|a, b| a < b) && layers.iter().all(|&layer| layer < depth) => {
                Ok(layers)
            }
            _ => Err(self.bad(name, format!("is {value}, not ascending layer numbers below {depth}"))),
        }
    }

    /// `hidden_act`, one of those that the towers of the Qwen-VL families have with a plain MLP.
    pub(crate) fn activation(self) -> Result<Activation, ModelError> {
        match self.text("hidden_act")? {
            "gelu" => Ok(Activation::GeluErf),
            "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
            "quick_gelu" => Ok(Activation::QuickGelu),
            other => {
                Err(self.bad("hidden_act", format!("is {other}; gelu, gelu_pytorch_tanh and quick_gelu are supported")))
            }
        }
    }

    /// `torch_dtype` or its newer name `dtype`, of this level or of `text_config`; `None` where neither is there.
    pub(crate) fn dtype(self) -> Result<Option<DType>, ModelError> {
        let levels = [Some(self), self.section("text_config").ok()];
        for (level, name) in levels.into_iter().flatten().flat_map(|level| [(level, "dtype"), (level, "torch_dtype")]) {
            if level.has(name) {
                let text = level.text(name)?;
                let bad = || level.bad(name, format!("is {text}; float32, bfloat16 and float16 are supported"));
                return DType::from_name(text).map(Some).ok_or_else(bad);
            }
        }
        Ok(None)
    }

    /// Size of a head of the `heads` that share `dim`, the value of field `name`; rotary angles come in
    /// quarters of it.
    pub(crate) fn head_dim(self, name: &str, dim: usize, heads: usize) -> Result<usize, ModelError> {
        if dim.is_multiple_of(4 * heads) {
            return Ok(dim / heads);
        }
        Err(self.bad(name, format!("is {dim}, not a multiple of 4 for each of num_heads {heads}")))
    }

    /// An error about one of its fields.
    pub(crate) fn bad(self, name: &str, why: impl Into<String>) -> ModelError {
        let dot = if self.path.is_empty() { "" } else { "." };
        ModelError::Config { field: format!("{}{dot}{name}", self.path), why: why.into() }
    }
}
