//! Forward time of towers on random weights: one of Qwen2.5-VL's real layer sizes, and the golden tiny one.
//!
//! `cargo bench -p ocelli-models --bench tower [-- THREADS [PART OF A NAME]]`

#![expect(clippy::expect_used, reason = "a bench has no input but its own")]

use half::bf16;
use ocelli_core::GridThw;
use ocelli_engine::{CpuOps, DType, Ops};
use ocelli_models::{OpenOptions, Patches, Prepared, open};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

const DEPTH: usize = 4;
const DIM: usize = 1280;
const MLP: usize = 3420;
const OUT: usize = 2048;

fn main() {
    // cargo passes --bench of its own
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let threads = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(2);
    let wanted = args.next().unwrap_or_default();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/checkpoints");
    let large = tempfile::tempdir().expect("a temporary directory");
    write_checkpoint(large.path(), &golden.join("qwen2_5_vl"));
    for (name, dir, grid, runs) in [
        ("1280 wide, 4 layers, 1024 patches", large.path(), GridThw::new(1, 32, 32), 10),
        ("1280 wide, 4 layers, 64 patches", large.path(), GridThw::new(1, 8, 8), 30),
        ("golden tiny qwen2_5_vl, 64 patches", &golden.join("qwen2_5_vl"), GridThw::new(1, 8, 8), 2000),
    ] {
        if !name.contains(&wanted) {
            continue;
        }
        for dtype in [DType::F32, DType::BF16] {
            let (best, median, load) = measure(dir, dtype, grid, runs, threads);
            println!("{name}, {dtype}, {threads} threads: best {best:.2?}, median {median:.2?}, load {load:.2?}");
        }
    }
}

fn measure(dir: &Path, dtype: DType, grid: GridThw, runs: usize, threads: usize) -> (Duration, Duration, Duration) {
    let opened = open(dir, &OpenOptions { dtype: Some(dtype), image_config: None }).expect("a checkpoint");
    let ops = CpuOps::new(threads).expect("threads");
    let began = Instant::now();
    let tower = opened.load(&ops, &mut |_, _| ()).expect("weights");
    let load = began.elapsed();
    let patch = opened.card().patch_size as usize;
    let bytes = (0..grid.patches() * 3 * patch * patch).map(|i| ((i * 7919) >> 3) as u8).collect();
    let item = Prepared { grid, patches: Patches::Still(bytes) };
    let mut times: Vec<Duration> = (0..runs + 2)
        .map(|_| {
            let began = Instant::now();
            let rows = tower.forward(&ops, &[&item]).expect("rows");
            std::hint::black_box(ops.download(&rows).expect("bytes"));
            began.elapsed()
        })
        .skip(2)
        .collect();
    times.sort();
    (times[0], times[runs / 2], load)
}

/// Qwen2.5-VL's published layout and layer sizes, bfloat16, four layers of which the last is a full one.
fn write_checkpoint(dir: &Path, settings: &Path) {
    let config = json!({
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "torch_dtype": "bfloat16",
        "vision_config": {
            "depth": DEPTH, "hidden_size": DIM, "intermediate_size": MLP, "num_heads": 16, "out_hidden_size": OUT,
            "hidden_act": "silu", "fullatt_block_indexes": [DEPTH - 1], "window_size": 112,
        },
    });
    std::fs::write(dir.join("config.json"), config.to_string()).expect("config.json");
    let file = "preprocessor_config.json";
    std::fs::copy(settings.join(file), dir.join(file)).expect("preprocessor_config.json");
    let mut tensors: Vec<(String, Vec<usize>)> =
        vec![("patch_embed.proj.weight".into(), vec![DIM, 3, 2, 14, 14]), ("merger.ln_q.weight".into(), vec![DIM])];
    let mut linear = |name: String, outputs: usize, inputs: usize| {
        tensors.push((format!("{name}.weight"), vec![outputs, inputs]));
        tensors.push((format!("{name}.bias"), vec![outputs]));
    };
    linear("merger.mlp.0".into(), 4 * DIM, 4 * DIM);
    linear("merger.mlp.2".into(), OUT, 4 * DIM);
    for layer in 0..DEPTH {
        let at = |name: &str| format!("blocks.{layer}.{name}");
        linear(at("attn.qkv"), 3 * DIM, DIM);
        linear(at("attn.proj"), DIM, DIM);
        linear(at("mlp.gate_proj"), MLP, DIM);
        linear(at("mlp.up_proj"), MLP, DIM);
        linear(at("mlp.down_proj"), DIM, MLP);
    }
    for layer in 0..DEPTH {
        tensors.extend(["norm1", "norm2"].map(|norm| (format!("blocks.{layer}.{norm}.weight"), vec![DIM])));
    }
    let mut state = 1u32;
    let mut random = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bf16::from_f32((state >> 8) as f32 / (1 << 24) as f32 * 0.06 - 0.03).to_le_bytes()
    };
    let data: Vec<Vec<u8>> =
        tensors.iter().map(|(_, dims)| (0..dims.iter().product()).flat_map(&mut random).collect()).collect();
    let views = tensors.iter().zip(&data).map(|((name, dims), data)| {
        (format!("visual.{name}"), TensorView::new(Dtype::BF16, dims.clone(), data).expect("a tensor"))
    });
    safetensors::serialize_to_file(views, None, &dir.join("model.safetensors")).expect("model.safetensors");
}
