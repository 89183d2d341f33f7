//! The towers against the reference's embeddings: every `tower` case of the manifest, alone and in a
//! batch, in float32 and bfloat16.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use half::f16;
use ocelli_core::GridThw;
use ocelli_engine::{CpuOps, DType, Ops};
use ocelli_models::processors::{Normalisation, QwenImageProcessor, normalised};
use ocelli_models::{OpenOptions, Opened, Patches, Prepared, Tower, open};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::{Path, PathBuf};

const THREADS: usize = 2;

fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(path)
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(path)).unwrap()).unwrap()
}

/// A case of the manifest with its input and right output.
struct Case {
    model: String,
    checkpoint: PathBuf,
    tolerance: Value,
    items: Vec<Prepared>,
    rows: Vec<usize>,
    dim: usize,
    expected: Vec<f32>,
}

fn cases() -> Vec<Case> {
    let manifest = json("embeddings/manifest.json");
    let towers = manifest["cases"].as_array().unwrap().iter().filter(|case| case["kind"] == "tower");
    let cases: Vec<Case> = towers.map(read_case).collect();
    assert!(cases.len() >= 4, "{} tower cases", cases.len());
    cases
}

fn read_case(case: &Value) -> Case {
    let text = |name: &str| case[name].as_str().unwrap();
    let bytes = std::fs::read(golden(text("input_file"))).unwrap();
    let inputs = SafeTensors::deserialize(&bytes).unwrap();
    let input = inputs.tensor(text("input_tensor")).unwrap();
    let width = input.shape()[1];
    let (halves, _) = input.data().as_chunks::<2>();
    let mut values = halves.iter().map(|&half| f16::from_le_bytes(half).to_f32());
    let side = |grid: &Value, axis: usize| grid[axis].as_u64().unwrap() as u32;
    let items = case["image_grid_thw"].as_array().unwrap().iter().map(|grid| {
        let grid = GridThw::new(side(grid, 0), side(grid, 1), side(grid, 2));
        let patches = values.by_ref().take(grid.patches() * width).collect();
        Prepared { grid, patches: Patches::Normalised(patches) }
    });
    let items: Vec<Prepared> = items.collect();
    assert!(values.next().is_none());

    let bytes = std::fs::read(golden(text("file"))).unwrap();
    let outputs = SafeTensors::deserialize(&bytes).unwrap();
    let output = outputs.tensor(text("tensor")).unwrap();
    let expected = output.data().as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
    Case {
        model: text("model").to_owned(),
        checkpoint: golden(text("checkpoint")),
        tolerance: case["tolerance"].clone(),
        items,
        rows: case["token_counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect(),
        dim: output.shape()[1],
        expected,
    }
}

/// A loaded tower and the device that it is on.
struct Loaded {
    opened: Opened,
    ops: CpuOps,
    tower: Box<dyn Tower>,
}

fn load(checkpoint: &Path, dtype: DType) -> Loaded {
    let opened = open(checkpoint, &OpenOptions { dtype: Some(dtype), image_config: None }).unwrap();
    let ops = CpuOps::new(THREADS).unwrap();
    let tower = opened.load(&ops, &mut |_, _| ()).unwrap();
    Loaded { opened, ops, tower }
}

impl Loaded {
    fn encode(&self, batch: &[&Prepared]) -> Vec<f32> {
        let rows = self.tower.forward(&self.ops, batch).unwrap();
        assert_eq!((rows.cols(), rows.dtype()), (self.opened.card().dim, self.opened.card().dtype));
        let bytes = self.ops.download(&rows).unwrap();
        match rows.dtype() {
            DType::F32 => bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
            DType::BF16 => bytes.as_chunks::<2>().0.iter().map(|&b| half::bf16::from_le_bytes(b).to_f32()).collect(),
            DType::F16 => bytes.as_chunks::<2>().0.iter().map(|&b| f16::from_le_bytes(b).to_f32()).collect(),
        }
    }
}

/// Largest difference, relative L2 norm of the difference, cosine.
struct Difference {
    max_abs: f64,
    rel_l2: f64,
    cos: f64,
}

fn difference(actual: &[f32], expected: &[f32]) -> Difference {
    assert_eq!(actual.len(), expected.len());
    let pairs = || actual.iter().zip(expected).map(|(&a, &e)| (f64::from(a), f64::from(e)));
    let sum = |of: fn((f64, f64)) -> f64| pairs().map(of).sum::<f64>();
    let (aa, ee, ae) = (sum(|(a, _)| a * a), sum(|(_, e)| e * e), sum(|(a, e)| a * e));
    Difference {
        max_abs: pairs().map(|(a, e)| (a - e).abs()).fold(0.0, f64::max),
        rel_l2: (sum(|(a, e)| (a - e) * (a - e)) / ee).sqrt(),
        cos: ae / (aa * ee).sqrt(),
    }
}

fn assert_within(what: &str, actual: &[f32], expected: &[f32], tolerance: &Value) {
    let found = difference(actual, expected);
    let limit = |name: &str| tolerance[name].as_f64();
    let well = limit("max_abs").is_none_or(|limit| found.max_abs <= limit)
        && limit("rel_l2").is_none_or(|limit| found.rel_l2 <= limit)
        && limit("cos").is_none_or(|limit| found.cos >= limit);
    let Difference { max_abs, rel_l2, cos } = found;
    println!("{what}: max {max_abs:.2e}, rel. L2 {rel_l2:.2e}, cos {cos:.9}");
    assert!(well, "{what}: max {max_abs:e}, rel. L2 {rel_l2:e}, cos {cos}; tolerance {tolerance}");
}

#[test]
fn towers_give_the_reference_embeddings_alone_and_in_a_batch() {
    for case in cases() {
        for (dtype, name) in [(DType::F32, "float32"), (DType::BF16, "bfloat16")] {
            let (loaded, tolerance) = (load(&case.checkpoint, dtype), &case.tolerance[name]);
            let batch: Vec<&Prepared> = case.items.iter().collect();
            let what = format!("{} {name} batch", case.model);
            assert_within(&what, &loaded.encode(&batch), &case.expected, tolerance);
            let mut expected = case.expected.as_slice();
            for (item, &rows) in case.items.iter().zip(&case.rows) {
                let (here, after) = expected.split_at(rows * case.dim);
                let what = format!("{} {name} {:?} alone", case.model, item.grid);
                assert_within(&what, &loaded.encode(&[item]), here, tolerance);
                expected = after;
            }
        }
    }
}

/// A wrong order of deepstack slices would leave much of the whole right.
#[test]
fn each_deepstack_slice_is_the_reference_one() {
    let mut slices = 0;
    for case in cases() {
        let config: Value =
            serde_json::from_slice(&std::fs::read(case.checkpoint.join("config.json")).unwrap()).unwrap();
        let Some(layers) = config["vision_config"]["deepstack_visual_indexes"].as_array() else { continue };
        let out = config["vision_config"]["out_hidden_size"].as_u64().unwrap() as usize;
        assert_eq!(case.dim, out * (1 + layers.len()));
        let batch: Vec<&Prepared> = case.items.iter().collect();
        let actual = load(&case.checkpoint, DType::F32).encode(&batch);
        let slice = |all: &[f32], at: usize| {
            all.chunks_exact(case.dim).flat_map(|row| &row[at * out..][..out]).copied().collect::<Vec<f32>>()
        };
        for at in 0..=layers.len() {
            let what = format!("{} slice {at}", case.model);
            assert_within(&what, &slice(&actual, at), &slice(&case.expected, at), &case.tolerance["float32"]);
            slices += 1;
        }
    }
    assert_eq!(slices, 7, "qwen3_vl has 4 slices, qwen3_vl_moe 3");
}

/// To the bit: cached rows and rows of any batch, on any number of threads, are the same rows.
#[test]
fn a_row_depends_neither_on_the_batch_nor_on_the_threads() {
    for case in cases() {
        for dtype in [DType::F32, DType::BF16] {
            let mut loaded = load(&case.checkpoint, dtype);
            let alone = loaded.encode(&[&case.items[0]]);
            let mut batch: Vec<&Prepared> = case.items.iter().rev().collect();
            batch.push(&case.items[0]);
            for threads in [1, 2, 5] {
                loaded.ops = CpuOps::new(threads).unwrap();
                let all = loaded.encode(&batch);
                assert!(all.ends_with(&alone), "{} {dtype} on {threads} threads", case.model);
            }
        }
    }
}

/// Bytes that the device normalises give what the reference's normalised, duplicated values give, and both
/// kinds mix in a batch.
#[test]
fn a_still_picture_is_its_normalised_patches() {
    for case in cases() {
        let loaded = load(&case.checkpoint, DType::F32);
        let card = loaded.opened.card();
        let settings: Value =
            serde_json::from_slice(&std::fs::read(case.checkpoint.join("preprocessor_config.json")).unwrap()).unwrap();
        let processor = QwenImageProcessor::from_config(&settings, None).unwrap();
        let normalisation: &Normalisation = processor.normalisation();
        let grid = GridThw::new(1, 6, 4);
        let bytes = grid.patches() * 3 * (card.patch_size * card.patch_size) as usize;
        let still = (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let still = Prepared { grid, patches: Patches::Still(still) };
        let values = normalised(&still, normalisation, card.temporal_patch_size);
        let values = Prepared { grid, patches: Patches::Normalised(values) };
        let expected = loaded.encode(&[&values]);
        assert_within(&case.model, &loaded.encode(&[&still]), &expected, &case.tolerance["float32"]);
        let mixed = loaded.encode(&[&still, &values, &still]);
        assert_within(&case.model, &mixed, &expected.repeat(3), &case.tolerance["float32"]);
    }
}

#[test]
fn patches_that_do_not_fit_their_grid_are_an_error() {
    let case = &cases()[0];
    let loaded = load(&case.checkpoint, DType::F32);
    let Patches::Normalised(values) = &case.items[0].patches else { panic!("normalised") };
    let grids = [GridThw::new(1, 4, 6), GridThw::new(1, 3, 5), GridThw::new(0, 4, 4)];
    for grid in grids {
        let item = Prepared { grid, patches: Patches::Normalised(values.clone()) };
        assert!(loaded.tower.forward(&loaded.ops, &[&item]).is_err(), "{grid:?}");
    }
    assert!(loaded.tower.forward(&loaded.ops, &[]).is_err());
}
