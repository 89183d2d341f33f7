//! Each way in which a checkpoint can be broken, and the sentence that says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ocelli_engine::{CpuOps, DType};
use ocelli_models::{OpenOptions, open};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn golden(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/checkpoints").join(model)
}

/// A copy of a golden checkpoint that may be broken.
struct Broken(tempfile::TempDir);

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

impl Broken {
    fn copy(model: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(golden(model)).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        Self(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn json(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value: Value = serde_json::from_slice(&std::fs::read(self.file(name)).unwrap()).unwrap();
        change(&mut value);
        std::fs::write(self.file(name), value.to_string()).unwrap();
    }

    fn tensors(&self, change: impl FnOnce(&mut Tensors)) {
        let bytes = std::fs::read(self.file("model.safetensors")).unwrap();
        let read = SafeTensors::deserialize(&bytes).unwrap();
        let owned = |(name, view): (&str, TensorView<'_>)| {
            (name.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        };
        let mut tensors: Tensors = read.iter().map(owned).collect();
        change(&mut tensors);
        let views = tensors
            .iter()
            .map(|(name, (dtype, dims, data))| (name.as_str(), TensorView::new(*dtype, dims.clone(), data).unwrap()));
        let bytes = safetensors::serialize(views, None).unwrap();
        std::fs::write(self.file("model.safetensors"), bytes).unwrap();
    }

    /// Weights of this header and no elements.
    fn header(&self, header: &str) {
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        std::fs::write(self.file("model.safetensors"), bytes).unwrap();
    }

    fn bytes(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::fs::read(self.file(name)).unwrap();
        change(&mut bytes);
        std::fs::write(self.file(name), bytes).unwrap();
    }

    /// Opens and loads it, which must fail; the sentence, with the directory's name cut out.
    fn sentence(&self) -> String {
        let options = OpenOptions { dtype: Some(DType::F32), image_config: None };
        let loaded = open(self.0.path(), &options).and_then(|opened| {
            let ops = CpuOps::new(1)?;
            opened.load(&ops, &mut |_, _| ()).map(|_| ())
        });
        let sentence = loaded.expect_err("a broken checkpoint was loaded").to_string();
        let dir = format!("{}/", self.0.path().display());
        sentence.replace(&dir, "").replace(self.0.path().to_str().unwrap(), "DIR")
    }
}

/// A header whose sizes fit one by one and whose sum is 4 bytes short of what 64 bits hold.
fn huge_tensors() -> String {
    let tensors = (0..16u64).map(|i| {
        let (start, elements) = (i << 60, if i < 15 { 1u64 << 58 } else { (1 << 58) - 1 });
        let end = start + 4 * elements;
        format!(r#""visual.{i}":{{"dtype":"F32","shape":[{elements}],"data_offsets":[{start},{end}]}}"#)
    });
    format!("{{{}}}", tensors.collect::<Vec<_>>().join(","))
}

type Row = (&'static str, fn(&Broken), &'static str);

/// What is broken in a copy of `qwen2_vl`, a single file, and what is said.
#[rustfmt::skip]
const SINGLE_FILE: &[Row] = &[
    ("no configuration", |b| std::fs::remove_file(b.file("config.json")).unwrap(),
        "cannot read config.json: No such file or directory (os error 2)"),
    ("configuration cut off", |b| b.bytes("config.json", |bytes| bytes.truncate(20)),
        "config.json is not valid JSON: EOF while parsing a value at line 2 column 18"),
    ("no architecture", |b| b.json("config.json", |c| c["architectures"] = json!([])),
        "config.json: architectures is not a list that starts with a string"),
    ("unknown architecture", |b| b.json("config.json", |c| c["architectures"] = json!(["Qwen2VLForCausalLM"])),
        "the architecture Qwen2VLForCausalLM is not supported; supported are Qwen2VLForConditionalGeneration, "),
    ("foreign model type", |b| b.json("config.json", |c| c["model_type"] = json!("llava")),
        "the model_type llava is not supported; Qwen2VLForConditionalGeneration has qwen2_vl"),
    ("no vision_config", |b| b.json("config.json", |c| { c.as_object_mut().unwrap().remove("vision_config"); }),
        "config.json: vision_config is missing"),
    ("size of a wrong type", |b| b.json("config.json", |c| c["vision_config"]["depth"] = json!("three")),
        "config.json: vision_config.depth is \"three\", not a whole number from 1 to 1048576"),
    ("negative size", |b| b.json("config.json", |c| c["vision_config"]["num_heads"] = json!(-2)),
        "config.json: vision_config.num_heads is -2, not a whole number"),
    ("heads that do not divide", |b| b.json("config.json", |c| c["vision_config"]["num_heads"] = json!(3)),
        "config.json: vision_config.embed_dim is 80, not a multiple of 4 for each of num_heads 3"),
    ("unknown activation", |b| b.json("config.json", |c| c["vision_config"]["hidden_act"] = json!("relu")),
        "config.json: vision_config.hidden_act is relu; gelu, gelu_pytorch_tanh and quick_gelu are supported"),
    ("processor of another patch size", |b| b.json("preprocessor_config.json", |c| c["patch_size"] = json!(16)),
        "preprocessor_config.json has patch_size 16, config.json 14"),
    ("no weights", |b| std::fs::remove_file(b.file("model.safetensors")).unwrap(),
        "DIR holds no weights: neither model.safetensors nor model.safetensors.index.json is there"),
    ("weights cut off", |b| b.bytes("model.safetensors", |bytes| bytes.truncate(500_000)),
        "model.safetensors is truncated: it has 500000 bytes, its header announces 897048"),
    ("weights cut off in the header", |b| b.bytes("model.safetensors", |bytes| bytes.truncate(100)),
        "model.safetensors is truncated: it has 100 bytes, its header announces "),
    ("empty weights", |b| b.bytes("model.safetensors", Vec::clear),
        "model.safetensors is truncated: it has 0 bytes, its header announces 8"),
    ("bytes behind the weights", |b| b.bytes("model.safetensors", |bytes| bytes.push(0)),
        "model.safetensors is not a valid safetensors file: 1 bytes follow its last tensor"),
    ("another kind of file", |b| b.bytes("model.safetensors", |bytes| bytes[..8].fill(0xff)),
        "model.safetensors is not a valid safetensors file: its header claims 18446744073709551615 bytes"),
    ("tensors of 2⁶⁴ bytes", |b| b.header(&huge_tensors()),
        "model.safetensors is truncated: it has "),
    ("overlapping tensors", |b| b.header(r#"{"visual.a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"visual.b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#),
        "model.safetensors is not a valid safetensors file: invalid offset"),
    ("header that is not JSON", |b| b.bytes("model.safetensors", |bytes| bytes[8] = b'!'),
        "model.safetensors is not a valid safetensors file: expected value at line 1 column 1"),
    ("a tensor missing", |b| b.tensors(|t| { t.remove("visual.blocks.1.mlp.fc1.bias"); }),
        "the checkpoint lacks the tensor visual.blocks.1.mlp.fc1.bias"),
    ("a layer too many", |b| b.json("config.json", |c| c["vision_config"]["depth"] = json!(4)),
        "the checkpoint lacks the tensor visual.blocks.3.norm1.weight"),
    ("a layer too few", |b| b.json("config.json", |c| c["vision_config"]["depth"] = json!(2)),
        "the checkpoint has 12 tensors that the model does not: visual.blocks.2.attn.proj.bias, visual.blocks.2.attn.proj.weight, "),
    ("a tensor too many", |b| b.tensors(|t| { let copy = t["visual.blocks.0.norm1.bias"].clone(); t.insert("visual.extra".into(), copy); }),
        "the checkpoint has 1 tensor that the model does not: visual.extra"),
    ("a tensor of another shape", |b| b.json("config.json", |c| c["vision_config"]["mlp_ratio"] = json!(3)),
        "the tensor visual.blocks.0.mlp.fc1.weight has the shape [160, 80], config.json says [240, 80]"),
    ("integers for weights", |b| b.tensors(|t| { t.get_mut("visual.merger.ln_q.weight").unwrap().0 = Dtype::I16; }),
        "the tensor visual.merger.ln_q.weight has the element type I16; F32, BF16 and F16 are supported"),
    ("a language model only", |b| b.tensors(|t| t.retain(|name, _| !name.starts_with("visual."))),
        "the checkpoint has no tensor whose name starts with visual. or model.visual."),
];

/// The same for `qwen3_vl_moe`, which has shards.
#[rustfmt::skip]
const SHARDED: &[Row] = &[
    ("a shard missing", |b| std::fs::remove_file(b.file("model-00001-of-00003.safetensors")).unwrap(),
        "cannot read model-00001-of-00003.safetensors: No such file or directory (os error 2)"),
    ("a shard cut off", |b| b.bytes("model-00001-of-00003.safetensors", |bytes| bytes.truncate(100_000)),
        "model-00001-of-00003.safetensors is truncated: it has 100000 bytes, its header announces 747096"),
    ("index that is not JSON", |b| b.bytes("model.safetensors.index.json", |bytes| bytes.truncate(1)),
        "model.safetensors.index.json is not a valid index of shards: EOF while parsing an object at line 1 column 1"),
    ("index without a map", |b| b.json("model.safetensors.index.json", |i| *i = json!({"metadata": {}})),
        "model.safetensors.index.json is not a valid index of shards: weight_map is missing or not an object"),
    ("index that leads outside", |b| place(b, "model.visual.pos_embed.weight", json!("../other.safetensors")),
        "model.safetensors.index.json is not a valid index of shards: \"../other.safetensors\", the file of model.visual.pos_embed.weight, is not a plain file name"),
    ("index that promises too much", |b| place(b, "model.visual.extra", json!("model-00001-of-00003.safetensors")),
        "model.safetensors.index.json is not a valid index of shards: it places model.visual.extra in model-00001-of-00003.safetensors, which does not hold it"),
    ("unordered deepstack", |b| b.json("config.json", |c| c["vision_config"]["deepstack_visual_indexes"] = json!([2, 1])),
        "config.json: vision_config.deepstack_visual_indexes is [2,1], not ascending layer numbers below 4"),
    ("positions that are no square", |b| b.json("config.json", |c| c["vision_config"]["num_position_embeddings"] = json!(145)),
        "config.json: vision_config.num_position_embeddings is 145, not a square"),
];

fn place(broken: &Broken, name: &str, file: Value) {
    broken.json("model.safetensors.index.json", |index| index["weight_map"][name] = file);
}

#[test]
fn each_broken_checkpoint_gets_its_sentence() {
    let mut wrong = Vec::new();
    for (model, rows) in [("qwen2_vl", SINGLE_FILE), ("qwen3_vl_moe", SHARDED)] {
        for (what, break_it, expected) in rows {
            let broken = Broken::copy(model);
            break_it(&broken);
            let sentence = broken.sentence();
            if !sentence.starts_with(expected) || sentence.contains('\n') {
                wrong.push(format!("{what}: {sentence}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_shard_without_the_tower_is_not_opened_and_progress_ends_at_the_end() {
    let broken = Broken::copy("qwen3_vl_moe");
    place(&broken, "lm_head.weight", json!("absent.safetensors"));
    let opened = open(broken.0.path(), &OpenOptions::default()).unwrap();
    let mut last = (0, 0);
    opened.load(&CpuOps::new(1).unwrap(), &mut |done, total| last = (done, total)).unwrap();
    assert!(last.0 == last.1 && last.1 > 0, "progress ends at {last:?}");
}

/// Both published prefixes, `visual.` and `model.visual.`, whatever the family usually has.
#[test]
fn the_tower_is_found_under_either_prefix() {
    let broken = Broken::copy("qwen2_vl");
    broken.tensors(|tensors| {
        *tensors = std::mem::take(tensors)
            .into_iter()
            .map(|(name, tensor)| match name.strip_prefix("visual.") {
                Some(rest) => (format!("model.visual.{rest}"), tensor),
                None => (name, tensor),
            })
            .collect();
    });
    let opened = open(broken.0.path(), &OpenOptions::default()).unwrap();
    assert!(opened.load(&CpuOps::new(1).unwrap(), &mut |_, _| ()).is_ok());
}

#[test]
fn the_dtype_is_the_operators_else_the_checkpoints() {
    let dtype = |broken: &Broken, dtype| {
        open(broken.0.path(), &OpenOptions { dtype, image_config: None }).unwrap().card().dtype
    };
    let broken = Broken::copy("qwen3_vl");
    assert_eq!(dtype(&broken, None), DType::BF16);
    assert_eq!(dtype(&broken, Some(DType::F32)), DType::F32);
    broken.json("config.json", |config| {
        let config = config.as_object_mut().unwrap();
        config.remove("dtype");
        config.insert("torch_dtype".into(), json!("float16"));
    });
    assert_eq!(dtype(&broken, None), DType::F16);
    broken.json("config.json", |config| {
        config.as_object_mut().unwrap().remove("torch_dtype");
        config["text_config"]["dtype"] = json!("float32");
    });
    assert_eq!(dtype(&broken, None), DType::F32);
    broken.json("config.json", |config| drop(config["text_config"].as_object_mut().unwrap().remove("dtype")));
    assert_eq!(dtype(&broken, None), DType::BF16);
}
