//! Products against float64, and bit for bit against themselves in other batches.

use super::*;
use crate::Activation;
use half::bf16;

/// Reproducible values in −1..1.
fn noise(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// `x·Wᵀ + b` in float64.
fn product(x: &[f32], w: &[f32], bias: Option<&[f32]>, n: usize, k: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for x in x.chunks_exact(k) {
        for (j, w) in w.chunks_exact(k).enumerate() {
            let dot: f64 = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum();
            out.push(dot + bias.map_or(0.0, |bias| f64::from(bias[j])));
        }
    }
    assert_eq!(out.len(), x.len() / k * n);
    out
}

/// ‖found − right‖ / ‖right‖.
fn distance(found: &[f32], right: &[f64]) -> f64 {
    assert_eq!(found.len(), right.len());
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
    let wrong = square(&mut found.iter().zip(right).map(|(&found, &right)| f64::from(found) - right));
    (wrong / square(&mut right.iter().copied()).max(1e-30)).sqrt()
}

fn isas() -> Vec<Isa> {
    let mut isas = vec![Isa::Portable];
    if Isa::detect() != Isa::Portable {
        isas.push(Isa::detect());
    }
    isas
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// `[m, n, k]`: single elements, edges of the tile, the panel, the half-panel and the block, a tower's odd widths.
const SHAPES: [[usize; 3]; 11] = [
    [1, 1, 1],
    [6, 16, 8],
    [7, 17, 9],
    [5, 8, 256],
    [13, 40, 257],
    [2, 7, 600],
    [31, 100, 3],
    [150, 24, 80],
    [64, 684, 128],
    [37, 128, 342],
    [1, 333, 1176],
];

#[test]
fn products_are_those_of_float64() {
    for (seed, [m, n, k]) in SHAPES.into_iter().enumerate() {
        let (x, w, bias) = (noise(m * k, seed as u32), noise(n * k, 100), noise(n, 200));
        let halves: Vec<bf16> = w.iter().map(|&w| bf16::from_f32(w)).collect();
        let rounded: Vec<f32> = halves.iter().map(|w| w.to_f32()).collect();
        let f32_case = (PackedMatrix::pack_f32(&w, n, k), &w);
        let bf16_case = (PackedMatrix::pack_bf16(&halves, n, k), &rounded);
        for (packed, w) in [f32_case, bf16_case] {
            for bias in [None, Some(bias.as_slice())] {
                let right = product(&x, w, bias, n, k);
                for isa in isas() {
                    let mut out = vec![f32::NAN; m * n];
                    run(isa, &x, &packed, bias, Finish::None, &mut out);
                    let wrong = distance(&out, &right);
                    assert!(wrong < 1e-6, "{isa:?} {m}×{n}×{k}: {wrong:e}");
                }
            }
        }
    }
}

#[test]
fn epilogues_follow_the_bias() {
    let [m, n, k] = [13, 42, 300];
    // sums of about ±3, where activations are neither 0 nor the identity
    let (x, w, bias) = (noise(m * k, 1), noise(n * k, 2).iter().map(|w| w * 0.4).collect::<Vec<_>>(), noise(n, 3));
    let residual = noise(m * n, 4);
    let plain = product(&x, &w, Some(&bias), n, k);
    let packed = PackedMatrix::pack_f32(&w, n, k);
    let tanh = |x: f64| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh());
    // erf as a series of positive terms: 2/√π·e^(−z²)·Σ 2ⁿ·z²ⁿ⁺¹/(2n+1)!!
    let erf = |z: f64| {
        let terms =
            (1..200).scan(z, |term, n| Some(std::mem::replace(term, *term * 2.0 * z * z / f64::from(2 * n + 1))));
        std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp() * terms.sum::<f64>()
    };
    let erf_gelu = |x: f64| 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2));
    let quick = |x: f64| x / (1.0 + (-1.702 * x).exp());
    let cases: [(Finish<'_>, Vec<f64>); 4] = [
        (Finish::Activation(Activation::GeluErf), plain.iter().map(|&x| erf_gelu(x)).collect()),
        (Finish::Activation(Activation::GeluTanh), plain.iter().map(|&x| tanh(x)).collect()),
        (Finish::Activation(Activation::QuickGelu), plain.iter().map(|&x| quick(x)).collect()),
        (Finish::Residual(&residual), plain.iter().zip(&residual).map(|(&x, &r)| x + f64::from(r)).collect()),
    ];
    for isa in isas() {
        for (finish, right) in &cases {
            let mut out = vec![f32::NAN; m * n];
            run(isa, &x, &packed, Some(&bias), *finish, &mut out);
            assert!(distance(&out, right) < 1e-6, "{isa:?} {:e}", distance(&out, right));
        }
    }
}

#[test]
fn a_pair_gives_the_gated_product_and_the_plain_one() {
    for [m, d, k] in [[1, 1, 4], [9, 20, 300], [25, 342, 128], [7, 8, 16]] {
        let (x, w, bias) = (noise(m * k, 1), noise(2 * d * k, 2), noise(2 * d, 3));
        let plain = product(&x, &w, Some(&bias), 2 * d, k);
        let gated: Vec<f64> = plain.chunks(2 * d).flat_map(|row| (0..d).map(|j| silu(row[j]) * row[d + j])).collect();
        let halves: Vec<bf16> = w.iter().map(|&w| bf16::from_f32(w)).collect();
        let (f32_pair, bf16_pair) =
            (PackedMatrix::pack_f32_pair(&w, 2 * d, k), PackedMatrix::pack_bf16_pair(&halves, 2 * d, k));
        for isa in isas() {
            let (mut out, mut both) = (vec![f32::NAN; m * d], vec![f32::NAN; m * 2 * d]);
            run(isa, &x, &f32_pair, Some(&bias), Finish::SwiGlu, &mut out);
            assert!(distance(&out, &gated) < 1e-6);
            run(isa, &x, &f32_pair, Some(&bias), Finish::None, &mut both);
            assert!(distance(&both, &plain) < 1e-6);
            run(isa, &x, &bf16_pair, Some(&bias), Finish::SwiGlu, &mut out);
            // 8 bits of mantissa
            assert!(distance(&out, &gated) < 1e-2);
        }
    }
}

#[test]
fn a_row_has_the_same_bits_alone_in_a_batch_and_on_any_number_of_threads() {
    let [m, n, k] = [301, 200, 700];
    let (x, w, bias) = (noise(m * k, 1), noise(n * k, 2), noise(n, 3));
    let halves: Vec<bf16> = w.iter().map(|&w| bf16::from_f32(w)).collect();
    let activation = Finish::Activation(Activation::GeluErf);
    for packed in [PackedMatrix::pack_f32(&w, n, k), PackedMatrix::pack_bf16(&halves, n, k)] {
        for isa in isas() {
            let mut alone = vec![0.0; m * n];
            for (x, out) in x.chunks(k).zip(alone.chunks_mut(n)) {
                run(isa, x, &packed, Some(&bias), activation, out);
            }
            for threads in [1, 2, 5] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let mut batch = vec![0.0; m * n];
                pool.install(|| run(isa, &x, &packed, Some(&bias), activation, &mut batch));
                assert!(alone == batch, "{isa:?} {threads}");
                let mut later = vec![0.0; (m - 100) * n];
                pool.install(|| run(isa, &x[100 * k..], &packed, Some(&bias), activation, &mut later));
                assert!(alone[100 * n..] == later);
            }
        }
    }
}

#[test]
fn an_empty_batch_or_weight_gives_nothing() {
    let packed = PackedMatrix::pack_f32(&noise(12, 1), 3, 4);
    gemm(&[], &packed, None, Epilogue::None, &mut []);
    let none = PackedMatrix::pack_f32(&[], 0, 4);
    gemm(&noise(8, 1), &none, None, Epilogue::None, &mut []);
    assert_eq!((packed.n(), packed.k(), packed.bytes(), none.bytes()), (3, 4, 4 * 64, 0));
}
