//! Checkpoints on disk: safetensors, one file or shards, memory-mapped, checked, taken by name.
//!
//! Only the headers and the tensors under the wanted prefix are read. Whoever takes tensors says the
//! shape that the configuration gives them; [`Weights::finish`] names what was left over.

use crate::{DType, EngineError};
use half::{bf16, f16};
use memmap2::Mmap;
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Largest header that is read: the limit of the safetensors format (100 MB).
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Largest index that is read; the largest published ones are a few MB.
const MAX_INDEX_BYTES: u64 = 100_000_000;
/// Leftover tensors that are named; the rest is counted.
const NAMED_LEFTOVERS: usize = 5;

/// The tensors of a checkpoint under one prefix.
pub struct Weights {
    prefix: String,
    shards: Vec<Shard>,
    tensors: BTreeMap<String, Entry>,
    taken: RefCell<BTreeSet<String>>,
    bytes_total: u64,
    bytes_taken: Cell<u64>,
}

struct Shard {
    map: Mmap,
}

#[derive(Clone)]
struct Entry {
    shard: usize,
    dtype: Dtype,
    dims: Vec<usize>,
    start: usize,
    end: usize,
}

/// A tensor in the mapped file.
#[derive(Clone, Copy)]
pub struct WeightView<'a> {
    /// Element type in the file.
    pub dtype: DType,
    /// Dimensions, row-major.
    pub dims: &'a [usize],
    /// Little-endian elements.
    pub bytes: &'a [u8],
}

impl WeightView<'_> {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.bytes.len() / self.dtype.bytes()
    }

    /// Appends the elements, widened to float32 (exact).
    pub fn extend_f32(&self, values: &mut Vec<f32>) {
        values.reserve(self.elements());
        let halves = self.bytes.as_chunks::<2>().0;
        match self.dtype {
            DType::F32 => values.extend(self.bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b))),
            DType::BF16 => values.extend(halves.iter().map(|&b| bf16::from_le_bytes(b).to_f32())),
            DType::F16 => values.extend(halves.iter().map(|&b| f16::from_le_bytes(b).to_f32())),
        }
    }

    /// The elements, widened to float32 (exact).
    pub fn to_f32(&self) -> Vec<f32> {
        let mut values = Vec::new();
        self.extend_f32(&mut values);
        values
    }
}

impl Weights {
    /// Opens the checkpoint in `dir` and keeps the tensors under the first of `prefixes` that it has any of.
    ///
    /// # Errors
    /// No weights, files that cannot be read, headers or an index that make no sense, truncated files,
    /// no tensor under any prefix.
    pub fn open(dir: &Path, prefixes: &[&str]) -> Result<Self, EngineError> {
        let files = wanted_files(dir, prefixes)?;
        let mut shards = Vec::with_capacity(files.len());
        let mut all = BTreeMap::new();
        let mut promised = Vec::new();
        for (shard, wanted) in files.into_iter().enumerate() {
            let map = map_file(&wanted.file)?;
            let (metadata, data) = read_header(&wanted.file, &map)?;
            for name in metadata.offset_keys().into_iter().filter(|name| prefixes.iter().any(|p| name.starts_with(p))) {
                let Some(info) = metadata.info(&name) else { continue };
                let (start, end) = (data + info.data_offsets.0, data + info.data_offsets.1);
                all.insert(name, Entry { shard, dtype: info.dtype, dims: info.shape.clone(), start, end });
            }
            promised.extend(wanted.names.into_iter().map(|name| (name, wanted.file.clone())));
            shards.push(Shard { map });
        }
        if let Some((name, file)) = promised.into_iter().find(|(name, _)| !all.contains_key(name)) {
            let why = format!("it places {name} in {}, which does not hold it", file.display());
            return Err(EngineError::BadIndex { file: dir.join(INDEX), why });
        }
        let Some(prefix) = prefixes.iter().find(|p| all.keys().any(|name| name.starts_with(**p))) else {
            return Err(EngineError::NoTensors { prefixes: prefixes.iter().map(|p| (*p).to_owned()).collect() });
        };
        let prefix = (*prefix).to_owned();
        all.retain(|name, _| name.starts_with(&prefix));
        let bytes_total = all.values().map(|entry| (entry.end - entry.start) as u64).sum();
        let (taken, bytes_taken) = (RefCell::new(BTreeSet::new()), Cell::new(0));
        Ok(Self { prefix, shards, tensors: all, taken, bytes_total, bytes_taken })
    }

    /// The tensor `prefix + name`, which must have the dimensions `dims`.
    ///
    /// # Errors
    /// It is missing, or has other dimensions or an element type that is not supported.
    pub fn take(&self, name: &str, dims: &[usize]) -> Result<WeightView<'_>, EngineError> {
        let name = format!("{}{name}", self.prefix);
        let Some(entry) = self.tensors.get(&name) else { return Err(EngineError::MissingTensor { name }) };
        if entry.dims != dims {
            return Err(EngineError::WrongShape { name, expected: dims.to_vec(), found: entry.dims.clone() });
        }
        let dtype = match entry.dtype {
            Dtype::F32 => DType::F32,
            Dtype::BF16 => DType::BF16,
            Dtype::F16 => DType::F16,
            other => return Err(EngineError::WrongDType { name, found: format!("{other:?}") }),
        };
        let bytes = &self.shards[entry.shard].map[entry.start..entry.end];
        if self.taken.borrow_mut().insert(name) {
            self.bytes_taken.set(self.bytes_taken.get() + bytes.len() as u64);
        }
        Ok(WeightView { dtype, dims: &entry.dims, bytes })
    }

    /// Bytes of the tensors taken so far, and of all under the prefix.
    pub fn progress(&self) -> (u64, u64) {
        (self.bytes_taken.get(), self.bytes_total)
    }

    /// Checks that everything under the prefix was taken.
    ///
    /// # Errors
    /// [`EngineError::UnexpectedTensors`].
    pub fn finish(self) -> Result<(), EngineError> {
        let taken = self.taken.borrow();
        let left: Vec<&String> = self.tensors.keys().filter(|name| !taken.contains(*name)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let names = left.iter().take(NAMED_LEFTOVERS).map(|name| (*name).clone()).collect();
        Err(EngineError::UnexpectedTensors { count: left.len(), names })
    }
}

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A file to open, and the wanted tensors that the index places in it.
struct Wanted {
    file: PathBuf,
    names: Vec<String>,
}

fn wanted_files(dir: &Path, prefixes: &[&str]) -> Result<Vec<Wanted>, EngineError> {
    let single = dir.join(SINGLE);
    if single.is_file() {
        return Ok(vec![Wanted { file: single, names: Vec::new() }]);
    }
    let index = dir.join(INDEX);
    if !index.is_file() {
        return Err(EngineError::NoWeights { dir: dir.to_owned() });
    }
    let bad = |why: String| EngineError::BadIndex { file: index.clone(), why };
    let read = |source| EngineError::Read { file: index.clone(), source };
    if std::fs::metadata(&index).map_err(read)?.len() > MAX_INDEX_BYTES {
        return Err(bad(format!("it is larger than {MAX_INDEX_BYTES} bytes")));
    }
    let text = std::fs::read(&index).map_err(read)?;
    let json: serde_json::Value = serde_json::from_slice(&text).map_err(|why| bad(why.to_string()))?;
    let places = json.get("weight_map").and_then(|map| map.as_object());
    let places = places.ok_or_else(|| bad("weight_map is missing or not an object".into()))?;
    let mut by_file: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, file) in places.iter().filter(|(name, _)| prefixes.iter().any(|p| name.starts_with(p))) {
        let file = file.as_str().ok_or_else(|| bad(format!("the file of {name} is not a string")))?;
        // a shard lies beside its index: a path that leads elsewhere is not followed
        if file.is_empty() || file.contains(['/', '\\']) || file == ".." {
            return Err(bad(format!("{file:?}, the file of {name}, is not a plain file name")));
        }
        by_file.entry(file).or_default().push(name.clone());
    }
    if by_file.is_empty() {
        return Err(EngineError::NoTensors { prefixes: prefixes.iter().map(|p| (*p).to_owned()).collect() });
    }
    Ok(by_file.into_iter().map(|(file, names)| Wanted { file: dir.join(file), names }).collect())
}

fn map_file(file: &Path) -> Result<Mmap, EngineError> {
    let read = |source| EngineError::Read { file: file.to_owned(), source };
    let opened = File::open(file).map_err(read)?;
    // SAFETY: the map is read-only and lives only while weights are loaded; a checkpoint that somebody
    // changes in place meanwhile gives wrong numbers or a bus error, as for every program that maps it.
    unsafe { Mmap::map(&opened) }.map_err(read)
}

/// The header and where the elements start.
fn read_header(file: &Path, map: &[u8]) -> Result<(Metadata, usize), EngineError> {
    let found = map.len() as u64;
    let truncated = |expected: u64| EngineError::Truncated { file: file.to_owned(), expected, found };
    let bad = |why: String| EngineError::BadHeader { file: file.to_owned(), why };
    let Some((length, rest)) = map.split_first_chunk::<8>() else { return Err(truncated(8)) };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_BYTES {
        return Err(bad(format!("its header claims {length} bytes; the limit of the format is {MAX_HEADER_BYTES}")));
    }
    let Some(header) = rest.get(..length as usize) else { return Err(truncated(8 + length)) };
    let metadata: Metadata = serde_json::from_slice(header).map_err(|why| bad(why.to_string()))?;
    let expected = (8 + length).saturating_add(metadata.data_len() as u64);
    if found < expected {
        return Err(truncated(expected));
    }
    if found > expected {
        return Err(bad(format!("{} bytes follow its last tensor", found - expected)));
    }
    Ok((metadata, 8 + length as usize))
}
