//! The CPU's matrix product and attention at the shapes of a Qwen2.5-VL tower, 1024 patches.
//!
//! `cargo bench -p ocelli-engine --bench cpu_kernels [-- THREADS [ROUNDS [FILTER]]]`: a table on the error
//! stream, JSON on the output. Cases take turns, so that a disturbance hits all alike; figures are medians.
//! `a core`: by processor time instead of the clock. `scripts/bench/torch_kernels.py` prints PyTorch's under the same names.

#![allow(clippy::unwrap_used)] // nothing here is reachable from a server

use half::bf16;
use ocelli_engine::Activation;
use ocelli_engine::cpu::attention_kernel::attention;
use ocelli_engine::cpu::gemm::{Epilogue, PackedMatrix, gemm, gemm_swiglu};
use std::time::Instant;

const ROWS: usize = 1024;

/// What follows the product.
#[derive(Clone, Copy)]
enum Then {
    Nothing,
    Activation(Activation),
    SwiGlu,
}

/// Name, outputs, inputs, what follows.
const PRODUCTS: [(&str, usize, usize, Then); 8] = [
    ("qkv", 3840, 1280, Then::Nothing),
    ("proj", 1280, 1280, Then::Nothing),
    ("gate_up", 6840, 1280, Then::Nothing),
    ("swiglu", 6840, 1280, Then::SwiGlu),
    ("down", 1280, 3420, Then::Nothing),
    ("gelu_erf", 5120, 1280, Then::Activation(Activation::GeluErf)),
    ("gelu_tanh", 5120, 1280, Then::Activation(Activation::GeluTanh)),
    ("quick_gelu", 5120, 1280, Then::Activation(Activation::QuickGelu)),
];

struct Case {
    name: String,
    flops: f64,
    run: Box<dyn FnMut() + Send>,
    seconds: Vec<f64>,
    core_seconds: Vec<f64>,
}

fn noise(len: usize, scale: f32) -> Vec<f32> {
    let mut state = 2_463_534_242_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
    };
    (0..len).map(|_| next()).collect()
}

fn product_name(name: &str, n: usize, k: usize, half: bool) -> String {
    format!("{name} {} {k}→{n}", if half { "bf16" } else { "f32" })
}

fn product(name: &str, n: usize, k: usize, then: Then, half: bool) -> Case {
    let (x, w, bias) = (noise(ROWS * k, 1.0), noise(n * k, 0.05), noise(n, 1.0));
    let pair = matches!(then, Then::SwiGlu);
    let halves = || w.iter().map(|&w| bf16::from_f32(w)).collect::<Vec<_>>();
    let packed = match (half, pair) {
        (false, false) => PackedMatrix::pack_f32(&w, n, k),
        (false, true) => PackedMatrix::pack_f32_pair(&w, n, k),
        (true, false) => PackedMatrix::pack_bf16(&halves(), n, k),
        (true, true) => PackedMatrix::pack_bf16_pair(&halves(), n, k),
    };
    let mut out = vec![0.0; ROWS * if pair { n / 2 } else { n }];
    let run = move || match then {
        Then::Nothing => gemm(&x, &packed, Some(&bias), Epilogue::None, &mut out),
        Then::Activation(activation) => gemm(&x, &packed, Some(&bias), Epilogue::Activation(activation), &mut out),
        Then::SwiGlu => gemm_swiglu(&x, &packed, Some(&bias), &mut out),
    };
    Case {
        name: product_name(name, n, k, half),
        flops: 2.0 * (ROWS * n * k) as f64,
        run: Box::new(run),
        seconds: Vec::new(),
        core_seconds: Vec::new(),
    }
}

fn attend(name: &str, length: usize) -> Case {
    let (heads, head_dim) = (16, 80);
    let segments: Vec<usize> = (0..=ROWS).step_by(length).collect();
    let qkv = noise(ROWS * 3 * heads * head_dim, 1.0);
    let mut out = vec![0.0; ROWS * heads * head_dim];
    let run = move || attention(&qkv, &segments, heads, head_dim, (head_dim as f32).sqrt().recip(), &mut out);
    let flops = 4.0 * (ROWS * length * heads * head_dim) as f64;
    Case {
        name: format!("{name} f32 {length}"),
        flops,
        run: Box::new(run),
        seconds: Vec::new(),
        core_seconds: Vec::new(),
    }
}

/// Processor time of all threads so far, which other processes disturb less than the clock.
fn core_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call to write.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let threads = args.next().map_or(2, |arg| arg.parse().unwrap());
    let rounds = args.next().map_or(15, |arg| arg.parse().unwrap());
    let filter = args.next().unwrap_or_default();
    let mut cases = Vec::new();
    for half in [false, true] {
        for (name, n, k, then) in PRODUCTS {
            if product_name(name, n, k, half).contains(&filter) {
                cases.push(product(name, n, k, then, half));
            }
        }
    }
    cases.push(attend("full", 1024));
    cases.push(attend("window", 64));
    cases.retain(|case| case.name.contains(&filter));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    for round in 0..=rounds {
        for case in &mut cases {
            let (start, core_start) = (Instant::now(), core_seconds());
            pool.install(|| (case.run)());
            // the first round only touches memory
            if round > 0 {
                case.seconds.push(start.elapsed().as_secs_f64());
                case.core_seconds.push(core_seconds() - core_start);
            }
        }
    }
    let mut rows = Vec::new();
    for case in &mut cases {
        let best = case.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let (middle, core) = (median(&mut case.seconds), median(&mut case.core_seconds));
        let [rate, best, core] = [middle, best, core].map(|seconds| case.flops / 1e9 / seconds);
        let (name, ms) = (&case.name, middle * 1e3);
        eprintln!("{name:24} {ms:8.2} ms {rate:7.1} GFLOP/s, best {best:7.1}, a core {core:7.1}");
        rows.push(format!(
            r#"  {{"case": "{name}", "median_ms": {ms:.3}, "gflops": {rate:.1}, "best_gflops": {best:.1}, "core_gflops": {core:.1}}}"#
        ));
    }
    println!("{{\"threads\": {threads}, \"rounds\": {rounds}, \"cases\": [\n{}\n]}}", rows.join(",\n"));
}
