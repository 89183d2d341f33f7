//! Patches to rows: every tower, media and batch case, in float32 and bfloat16, alone and as batched.

use super::preprocess::decode;
use super::{Folder, Report, Tensors, distance, text};
use ocelli_core::GridThw;
use ocelli_engine::cpu::CpuOps;
use ocelli_engine::{DType, Ops};
use ocelli_models::{OpenOptions, Patches, Prepared, Processor, Tower};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

type Loaded = (Arc<dyn Processor>, Box<dyn Tower>);

pub fn run(folder: &Folder, report: &mut Report) {
    let manifest = folder.json("embeddings/manifest.json");
    let ops = CpuOps::new(2).expect("cpu");
    let mut towers: HashMap<(String, String, DType), Option<Loaded>> = HashMap::new();
    let mut tensors = Tensors::default();
    for case in manifest["cases"].as_array().expect("cases") {
        let (model, kind) = (text(case, "model").to_owned(), text(case, "kind"));
        if case["modality"] != "image" || kind == "refused" {
            report.skip(&format!("embeddings: {model}, {} {kind}", text(case, "modality")));
            continue;
        }
        for dtype in [DType::F32, DType::BF16] {
            let key = (model.clone(), case["processor_override"].to_string(), dtype);
            let loaded = towers.entry(key).or_insert_with(|| open(folder, case, &ops, dtype));
            let Some((processor, tower)) = loaded else {
                report.skip(&format!("embeddings: {model}"));
                continue;
            };
            let family = format!("{model} {}", dtype.name());
            let name = format!("{kind} {}", text(case, "tensor"));
            let outcome = inputs(folder, &mut tensors, case, processor.as_ref()).and_then(|items| {
                check(folder, report, &mut tensors, (&ops, tower.as_ref()), case, &items, &family, dtype)
            });
            report.case(&family, &name, outcome);
        }
    }
}

/// `None` when the family is not supported.
fn open(folder: &Folder, case: &Value, ops: &CpuOps, dtype: DType) -> Option<Loaded> {
    let dir = folder.root().join(text(case, "checkpoint"));
    let overrides = case["processor_override"].as_object().filter(|o| !o.is_empty()).cloned();
    let options = OpenOptions { dtype: Some(dtype), image_config: overrides.map(Value::Object) };
    let opened = match ocelli_models::open(&dir, &options) {
        Ok(opened) => opened,
        Err(ocelli_models::ModelError::UnknownArchitecture { .. }) => return None,
        Err(why) => panic!("{}: {why}", dir.display()),
    };
    let tower = opened.load(ops, &mut |_, _| ()).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    Some((opened.processor(), tower))
}

fn inputs(
    folder: &Folder,
    tensors: &mut Tensors,
    case: &Value,
    processor: &dyn Processor,
) -> Result<Vec<Prepared>, String> {
    let grids: Vec<GridThw> = case["image_grid_thw"].as_array().expect("grids").iter().map(grid).collect();
    if case["kind"] == "tower" {
        let (values, shape) = tensors.f32(folder, text(case, "input_file"), text(case, "input_tensor"));
        let width = shape[1];
        let mut rest = values.as_slice();
        return Ok(grids
            .into_iter()
            .map(|grid| {
                let (own, others) = rest.split_at(grid.patches() * width);
                rest = others;
                Prepared { grid, patches: Patches::Normalised(own.to_vec()) }
            })
            .collect());
    }
    let media = case["media"].as_array().expect("media");
    let prepare = |name: &Value| {
        let picture = decode(folder, name.as_str().expect("name"))?;
        processor.image(&picture).map_err(|e| e.to_string())
    };
    let items = media.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
    let got: Vec<GridThw> = items.iter().map(|item| item.grid).collect();
    (got == grids).then_some(items).ok_or_else(|| "other grids".into())
}

fn grid(value: &Value) -> GridThw {
    let at = |i: usize| u32::try_from(value[i].as_u64().expect("grid")).expect("grid");
    GridThw::new(at(0), at(1), at(2))
}

#[allow(clippy::too_many_arguments)] // a test's inner loop: each is something else
fn check(
    folder: &Folder,
    report: &mut Report,
    tensors: &mut Tensors,
    (ops, tower): (&CpuOps, &dyn Tower),
    case: &Value,
    items: &[Prepared],
    family: &str,
    dtype: DType,
) -> Result<(), String> {
    let (right, shape) = tensors.f32(folder, text(case, "file"), text(case, "tensor"));
    let together = forward(ops, tower, &items.iter().collect::<Vec<_>>(), dtype)?;
    let mut alone = Vec::new();
    for item in items {
        alone.extend(forward(ops, tower, &[item], dtype)?);
    }
    let tolerance = &case["tolerance"][if dtype == DType::F32 { "float32" } else { "bfloat16" }];
    for (how, got) in [("batched", &together), ("alone", &alone)] {
        if got.len() != right.len() {
            return Err(format!("{how}: {} values, not {:?}", got.len(), shape));
        }
        let (max, rel) = distance(got, &right);
        report.figure(&format!("{family}, rel. L2"), rel, text(case, "tensor"));
        let within = |key: &str, value: f64| tolerance[key].as_f64().is_none_or(|limit| value <= limit);
        if !within("max_abs", max) || !within("rel_l2", rel) {
            return Err(format!("{how}: max {max:.3e}, rel. L2 {rel:.3e}, tolerance {tolerance}"));
        }
    }
    Ok(())
}

fn forward(ops: &CpuOps, tower: &dyn Tower, items: &[&Prepared], dtype: DType) -> Result<Vec<f32>, String> {
    let rows = tower.forward(ops, items).map_err(|e| e.to_string())?;
    let bytes = ops.download(&rows).map_err(|e| e.to_string())?;
    Ok(match dtype {
        DType::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        DType::BF16 => bytes.as_chunks().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect(),
        DType::F16 => bytes.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect(),
    })
}
