//! Each operation on each backend, in each element type, over a table of shapes, against the formula in
//! float64.

#![allow(clippy::unwrap_used, clippy::panic)]

use half::{bf16, f16};
use ocelli_engine::{
    Activation, CpuOps, DType, EngineError, Epilogue, Ops, PixelScale, PositionTaps, Rope, Segments, Tensor, WeightView,
};

/// Every backend, and on how many threads.
fn backends() -> Vec<(String, Box<dyn Ops>)> {
    [1, 3].map(|threads| (format!("cpu on {threads}"), Box::new(CpuOps::new(threads).unwrap()) as Box<dyn Ops>)).into()
}

/// Reproducible values between -1 and 1.
fn random(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// A weight as a checkpoint has it.
struct Weight {
    dtype: DType,
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

impl Weight {
    fn new(values: &[f32], dims: &[usize], dtype: DType) -> Self {
        let bytes = match dtype {
            DType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            DType::BF16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
            DType::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
        };
        Self { dtype, dims: dims.to_vec(), bytes }
    }

    fn view(&self) -> WeightView<'_> {
        WeightView { dtype: self.dtype, dims: &self.dims, bytes: &self.bytes }
    }
}

fn floats(ops: &dyn Ops, x: &Tensor) -> Vec<f32> {
    let bytes = ops.download(x).unwrap();
    match x.dtype() {
        DType::F32 => bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
        DType::BF16 => bytes.as_chunks::<2>().0.iter().map(|&b| bf16::from_le_bytes(b).to_f32()).collect(),
        DType::F16 => bytes.as_chunks::<2>().0.iter().map(|&b| f16::from_le_bytes(b).to_f32()).collect(),
    }
}

/// The largest difference may be `limit` times the largest right value (at least 1).
fn assert_near(what: &str, actual: &[f32], right: &[f64], limit: f64) {
    assert_eq!(actual.len(), right.len(), "{what}");
    let scale = right.iter().fold(1.0f64, |most, v| most.max(v.abs()));
    let worst = actual.iter().zip(right).map(|(&a, r)| (f64::from(a) - r).abs()).fold(0.0, f64::max);
    assert!(worst <= limit * scale, "{what}: {worst:e} of {scale}");
}

/// `x·Wᵀ + b` of `[m, k]` and `[n, k]`.
fn project(x: &[f32], weight: &[f32], bias: &[f32], k: usize) -> Vec<f64> {
    let dot = |x: &[f32], w: &[f32]| x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>();
    let row = |x| weight.chunks_exact(k).zip(bias).map(move |(w, &b)| dot(x, w) + f64::from(b));
    x.chunks_exact(k).flat_map(row).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// `Φ(x)` by Simpson's rule over the density.
fn normal_cdf(x: f64) -> f64 {
    let (steps, from) = (4000, -12.0);
    let h = (x - from) / f64::from(steps);
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let inner: f64 = (1..steps).map(|i| density(from + h * f64::from(i)) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
    h / 3.0 * (density(from) + inner + density(x))
}

fn activate(x: f64, activation: Activation) -> f64 {
    match activation {
        Activation::GeluErf => x * normal_cdf(x),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
        Activation::QuickGelu => x * sigmoid(1.702 * x),
    }
}

/// Rows, outputs, inputs: tiny, odd, with tails in every direction, and one that several threads share.
const LINEAR: &[[usize; 3]] =
    &[[1, 1, 1], [1, 8, 16], [3, 5, 7], [7, 17, 33], [16, 64, 64], [33, 100, 204], [130, 240, 588], [257, 320, 80]];

#[test]
fn linear_is_the_product_in_float32_and_bfloat16() {
    for (backend, ops) in backends() {
        for &[m, n, k] in LINEAR {
            for (stored, kept) in [
                (DType::F32, DType::F32),
                (DType::BF16, DType::F32),
                (DType::BF16, DType::BF16),
                (DType::F32, DType::BF16),
                (DType::F16, DType::F16),
            ] {
                let what = format!("{backend} [{m}, {k}]·[{n}, {k}]ᵀ, {stored} kept as {kept}");
                let (x, bias, residual) = (random(1, m * k), random(3, n), random(4, m * n));
                let weight = Weight::new(&random(2, n * k), &[n, k], stored);
                let bias_view = Weight::new(&bias, &[n], DType::F32);
                let rounded: Vec<f32> = match kept {
                    DType::BF16 => weight.view().to_f32().iter().map(|&v| bf16::from_f32(v).to_f32()).collect(),
                    _ => weight.view().to_f32(),
                };
                let right = project(&x, &rounded, &bias, k);
                let linear = ops.upload_linear(&weight.view(), Some(&bias_view.view()), kept).unwrap();
                let x = ops.upload(&x, m).unwrap();
                let y = ops.linear(&x, &linear, Epilogue::None).unwrap();
                assert_eq!(y.dims(), [m, n]);
                assert_near(&what, &floats(&*ops, &y), &right, 3e-6);

                let add = ops.upload(&residual, m).unwrap();
                let y = ops.linear(&x, &linear, Epilogue::Residual(&add)).unwrap();
                let sum: Vec<f64> = right.iter().zip(&residual).map(|(y, &add)| y + f64::from(add)).collect();
                assert_near(&format!("{what} + residual"), &floats(&*ops, &y), &sum, 3e-6);
            }
        }
    }
}

#[test]
fn activations_are_those_of_pytorch() {
    for (backend, ops) in backends() {
        // an identity shows the function itself: -12 to 12 in steps of 1/64, in tails too
        let x: Vec<f32> = (-768..=768).map(|i| i as f32 / 64.0).collect();
        let linear = ops.upload_linear_f32(&[1.0], None, 1, 1).unwrap();
        let wide = ops.upload_linear_f32(&identity(29), None, 29, 29).unwrap();
        for activation in [Activation::GeluErf, Activation::GeluTanh, Activation::QuickGelu] {
            let right: Vec<f64> = x.iter().map(|&x| activate(f64::from(x), activation)).collect();
            for (linear, rows) in [(&linear, x.len()), (&wide, x.len() / 29)] {
                let x = ops.upload(&x, rows).unwrap();
                let y = ops.linear(&x, linear, Epilogue::Activation(activation)).unwrap();
                for ((&y, right), x) in floats(&*ops, &y).iter().zip(&right).zip(&floats(&*ops, &x)) {
                    let error = (f64::from(y) - right).abs();
                    assert!(error <= 6e-7 * right.abs().max(0.1), "{backend} {activation:?}({x}) = {y}, not {right}");
                }
            }
        }
    }
}

fn identity(n: usize) -> Vec<f32> {
    (0..n * n).map(|i| if i % (n + 1) == 0 { 1.0 } else { 0.0 }).collect()
}

#[test]
fn swiglu_gates_the_second_half_by_the_first() {
    for (backend, ops) in backends() {
        for &[m, n, k] in LINEAR {
            let (x, gate, up) = (random(1, m * k), random(2, n * k), random(3, n * k));
            let (gate_bias, up_bias) = (random(4, n), random(5, n));
            let pairs = project(&x, &gate, &gate_bias, k).into_iter().zip(project(&x, &up, &up_bias, k));
            let right: Vec<f64> = pairs.map(|(gate, up)| gate * sigmoid(gate) * up).collect();
            let weights = [&gate, &up].map(|v| Weight::new(v, &[n, k], DType::F32));
            let biases = [&gate_bias, &up_bias].map(|v| Weight::new(v, &[n], DType::F32));
            let views = [weights[0].view(), weights[1].view()];
            let linear = ops.upload_swiglu(views, [biases[0].view(), biases[1].view()], DType::F32).unwrap();
            let y = ops.swiglu(&ops.upload(&x, m).unwrap(), &linear).unwrap();
            assert_eq!(y.dims(), [m, n]);
            assert_near(&format!("{backend} {m} {n} {k}"), &floats(&*ops, &y), &right, 5e-6);
        }
    }
}

/// Rows and columns.
const ROWS: &[[usize; 2]] = &[[1, 1], [1, 16], [5, 7], [3, 160], [64, 80], [700, 72]];

#[test]
fn norms_are_their_formulas() {
    for (backend, ops) in backends() {
        for &[n, d] in ROWS {
            // far from zero, where a one-pass variance would lose its digits
            let x: Vec<f32> = random(1, n * d).iter().map(|v| v * 0.1 + 20.0).collect();
            let (weight, bias, eps) = (random(2, d), random(3, d), 1e-6);
            let rows = |of: &dyn Fn(&[f32], usize) -> f64| {
                let row = |x: &[f32]| (0..d).map(|j| of(x, j)).collect::<Vec<f64>>();
                x.chunks_exact(d).flat_map(row).collect::<Vec<f64>>()
            };
            let mean = |x: &[f32], of: &dyn Fn(f64) -> f64| x.iter().map(|&v| of(v.into())).sum::<f64>() / d as f64;
            let layer = rows(&|x, j| {
                let m = mean(x, &|v| v);
                let variance = mean(x, &|v| (v - m) * (v - m));
                (f64::from(x[j]) - m) / (variance + eps).sqrt() * f64::from(weight[j]) + f64::from(bias[j])
            });
            let rms = rows(&|x, j| f64::from(x[j]) / (mean(x, &|v| v * v) + eps).sqrt() * f64::from(weight[j]));
            let (x, weight) = (ops.upload(&x, n).unwrap(), ops.upload(&weight, 1).unwrap());
            let bias = ops.upload(&bias, 1).unwrap();
            let y = ops.layer_norm(&x, &weight, &bias, eps as f32).unwrap();
            // the mean of values near 20 is known to 1e-6, a deviation is 0.06: hence 3e-5
            assert_near(&format!("{backend} layer_norm [{n}, {d}]"), &floats(&*ops, &y), &layer, 1e-4);
            let y = ops.rms_norm(&x, &weight, eps as f32).unwrap();
            assert_near(&format!("{backend} rms_norm [{n}, {d}]"), &floats(&*ops, &y), &rms, 1e-6);
        }
    }
}

/// Heads, size of a head, lengths of segments: the golden towers' heads, published heads, windows, tails.
#[rustfmt::skip]
const ATTENTION: &[(usize, usize, &[usize])] = &[
    (1, 2, &[1]), (2, 4, &[3, 1, 5]), (2, 40, &[16, 24, 24, 20]), (2, 36, &[16, 4]), (2, 32, &[64, 64, 7]),
    (2, 80, &[64, 48, 16, 12]), (3, 72, &[130]), (16, 80, &[200, 1]), (1, 128, &[65]), (2, 64, &[300]),
];

#[test]
fn attention_rotates_and_looks_within_segments() {
    for (backend, ops) in backends() {
        for &(heads, head_dim, lengths) in ATTENTION {
            let (n, dim, half) = (lengths.iter().sum::<usize>(), heads * head_dim, head_dim / 2);
            // scores of several units, so that a missing scale or maximum shows
            let qkv: Vec<f32> = random(1, n * 3 * dim).iter().map(|v| v * 3.0).collect();
            let angles = random(2, n * half);
            let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| ((a * 3.0).cos(), (a * 3.0).sin())).unzip();
            let right = attention(&qkv, &cos, &sin, lengths, heads, head_dim);
            let rope = Rope { cos: ops.upload(&cos, n).unwrap(), sin: ops.upload(&sin, n).unwrap() };
            let segments = Segments::from_lengths(lengths.iter().copied());
            let x = ops.upload(&qkv, n).unwrap();
            let y = ops.attention(x.clone(), &rope, &segments, heads).unwrap();
            assert_near(&format!("{backend} {heads}×{head_dim} {lengths:?}"), &floats(&*ops, &y), &right, 1e-5);
            assert_eq!(floats(&*ops, &x), qkv, "a shared operand was changed");
        }
    }
}

fn attention(qkv: &[f32], cos: &[f32], sin: &[f32], lengths: &[usize], heads: usize, head_dim: usize) -> Vec<f64> {
    let (dim, half) = (heads * head_dim, head_dim / 2);
    let part = |row: usize, part: usize, head: usize, j: usize| {
        f64::from(qkv[row * 3 * dim + part * dim + head * head_dim + j])
    };
    let rotated = |row, which, head, j: usize| {
        let at = row * half + j % half;
        let other = if j < half { -part(row, which, head, j + half) } else { part(row, which, head, j - half) };
        part(row, which, head, j) * f64::from(cos[at]) + other * f64::from(sin[at])
    };
    let rows: usize = lengths.iter().sum();
    let mut out = vec![0.0; rows * dim];
    let mut start = 0;
    for length in lengths {
        let segment = start..start + length;
        for head in 0..heads {
            let vector = |row, which| (0..head_dim).map(|j| rotated(row, which, head, j)).collect::<Vec<f64>>();
            let keys: Vec<Vec<f64>> = segment.clone().map(|row| vector(row, 1)).collect();
            for row in segment.clone() {
                let query = vector(row, 0);
                let score = |key: &Vec<f64>| query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>();
                let scores: Vec<f64> = keys.iter().map(|key| score(key) / (head_dim as f64).sqrt()).collect();
                let most = scores.iter().fold(f64::MIN, |a, &b| a.max(b));
                let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for (weight, other) in weights.iter().zip(segment.clone()) {
                    for j in 0..head_dim {
                        out[row * dim + head * head_dim + j] += weight / sum * part(other, 2, head, j);
                    }
                }
            }
        }
        start += length;
    }
    out
}

#[test]
fn pixels_are_scaled_by_channel_and_items_packed() {
    for (backend, ops) in backends() {
        let table: Vec<[f32; 256]> =
            (0..3).map(|channel| std::array::from_fn(|value| (value * 10 + channel) as f32)).collect();
        let pixels: Vec<u8> = (0..=255).cycle().take(3 * 12 * 5000).collect();
        let items = [&pixels[..12], &pixels[12..12 * 4], &pixels];
        let x = ops.upload_pixels(&items, 12, &PixelScale { table }).unwrap();
        let right = |(at, &pixel): (usize, &u8)| f64::from(pixel) * 10.0 + (at / 4 % 3) as f64;
        let right: Vec<f64> = items.concat().iter().enumerate().map(right).collect();
        assert_near(&backend, &floats(&*ops, &x), &right, 0.0);
    }
}

#[test]
fn rows_are_gathered_joined_and_rounded() {
    for (backend, ops) in backends() {
        for &[n, d] in ROWS {
            let what = format!("{backend} [{n}, {d}]");
            let (a, b) = (random(1, n * d), random(2, n * (d + 3)));
            let (x, y) = (ops.upload(&a, n).unwrap(), ops.upload(&b, n).unwrap());
            let index: Vec<u32> = (0..2 * n as u32).map(|i| (i * 7 + 3) % n as u32).collect();
            let gathered: Vec<f32> = index.iter().flat_map(|&i| &a[i as usize * d..][..d]).copied().collect();
            assert_eq!(floats(&*ops, &ops.gather_rows(&x, &index).unwrap()), gathered, "{what} gather_rows");
            let below = ops.concat_rows(&[&x, &x]).unwrap();
            assert_eq!((below.dims(), floats(&*ops, &below)), ([2 * n, d], a.repeat(2)), "{what} concat_rows");
            let row = |i: usize| a[i * d..][..d].iter().chain(&b[i * (d + 3)..][..d + 3]).copied();
            let beside: Vec<f32> = (0..n).flat_map(row).collect();
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                let rounded: Vec<f32> = Weight::new(&beside, &[], dtype).view().to_f32();
                let z = ops.concat_columns(&[&x, &y], dtype).unwrap();
                assert_eq!((z.dims(), z.dtype()), ([n, 2 * d + 3], dtype));
                assert_eq!(floats(&*ops, &z), rounded, "{what} concat_columns {dtype}");
                let alone = ops.concat_columns(&[&x], dtype).unwrap();
                assert_eq!(floats(&*ops, &alone), Weight::new(&a, &[], dtype).view().to_f32(), "{what} {dtype}");
            }
        }
    }
}

#[test]
fn positions_are_weighted_rows_of_the_table() {
    for (backend, ops) in backends() {
        for &[n, d] in ROWS {
            let (x, table) = (random(1, n * d), random(2, 9 * d));
            let taps = (0..n as u32).map(|i| PositionTaps {
                index: [i % 9, (i + 1) % 9, (i + 4) % 9, 8],
                weight: [0.5, 0.25, 0.125, i as f32 / n as f32],
            });
            let taps: Vec<PositionTaps> = taps.collect();
            let right = (0..n * d).map(|at| {
                let taps = taps[at / d];
                let tap = |t: usize| f64::from(taps.weight[t]) * f64::from(table[taps.index[t] as usize * d + at % d]);
                f64::from(x[at]) + (0..4).map(tap).sum::<f64>()
            });
            let right: Vec<f64> = right.collect();
            let y = ops.add_positions(ops.upload(&x, n).unwrap(), &ops.upload(&table, 9).unwrap(), &taps).unwrap();
            assert_near(&format!("{backend} [{n}, {d}]"), &floats(&*ops, &y), &right, 1e-6);
        }
    }
}

#[test]
fn operands_that_do_not_fit_are_errors() {
    for (backend, ops) in backends() {
        let x = ops.upload(&random(1, 24), 4).unwrap(); // [4, 6]
        let short = ops.upload(&random(1, 5), 1).unwrap();
        let half = ops.concat_columns(&[&x], DType::BF16).unwrap();
        let linear = ops.upload_linear_f32(&random(1, 14), None, 2, 7).unwrap();
        let odd = ops.upload_linear_f32(&random(1, 18), None, 3, 6).unwrap();
        let (rope, taps) =
            (Rope { cos: short.clone(), sin: short.clone() }, [PositionTaps { index: [4; 4], weight: [0.0; 4] }; 4]);
        let segments = Segments::from_lengths([4]);
        let scale = PixelScale { table: vec![[0.0; 256]; 3] };
        let wrong: Vec<(&str, Result<(), EngineError>)> = vec![
            ("upload", ops.upload(&[1.0; 5], 2).map(drop)),
            ("view", x.view_rows(5).map(drop)),
            ("upload_linear_f32", ops.upload_linear_f32(&[1.0; 5], None, 2, 3).map(drop)),
            ("bias", ops.upload_linear_f32(&[1.0; 6], Some(&[1.0]), 2, 3).map(drop)),
            ("inputs", ops.linear(&x, &linear, Epilogue::None).map(drop)),
            ("residual", ops.linear(&x, &odd, Epilogue::Residual(&x)).map(drop)),
            ("half", ops.rms_norm(&half, &short, 1e-6).map(drop)),
            ("weight", ops.rms_norm(&x, &short, 1e-6).map(drop)),
            ("weight", ops.layer_norm(&x, &short, &short, 1e-6).map(drop)),
            ("swiglu", ops.swiglu(&x, &odd).map(drop)),
            ("angles", ops.attention(x.clone(), &rope, &segments, 1).map(drop)),
            ("segments", ops.attention(x.clone(), &rope, &Segments::from_lengths([5]), 1).map(drop)),
            ("heads", ops.attention(x.clone(), &rope, &segments, 0).map(drop)),
            ("gather_rows", ops.gather_rows(&x, &[4]).map(drop)),
            ("concat_rows", ops.concat_rows(&[&x, &short]).map(drop)),
            ("concat_columns", ops.concat_columns(&[&x, &short], DType::F32).map(drop)),
            ("taps", ops.add_positions(x.clone(), &x, &taps).map(drop)),
            ("table", ops.add_positions(x.clone(), &short, &taps).map(drop)),
            ("patches", ops.upload_patches(&[&[1.0; 5]], 6).map(drop)),
            ("pixels", ops.upload_pixels(&[&[1; 6]], 4, &scale).map(drop)),
        ];
        for (what, result) in wrong {
            assert!(matches!(result, Err(EngineError::Shape { .. })), "{backend} {what}");
        }
    }
}
