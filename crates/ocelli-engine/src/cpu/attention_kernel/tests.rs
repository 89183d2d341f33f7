//! Attention against float64, and bit for bit against itself in other batches.

use super::*;

/// Reproducible values in −2..2.
fn noise(len: usize) -> Vec<f32> {
    let mut state = 88_172_645_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 22) as f32 - 2.0
    };
    (0..len).map(|_| next()).collect()
}

fn isas() -> Vec<Isa> {
    let mut isas = vec![Isa::Portable, Isa::detect()];
    isas.dedup();
    isas
}

fn reference(qkv: &[f32], segments: &[usize], heads: usize, dim: usize, scale: f64) -> Vec<f64> {
    let at = |part: usize, row: usize, head: usize| {
        qkv[((row * 3 + part) * heads + head) * dim..][..dim].iter().map(|&value| f64::from(value))
    };
    let mut out = vec![0.0; qkv.len() / 3];
    for segment in segments.windows(2) {
        for (row, head) in (segment[0]..segment[1]).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            let score = |key| at(0, row, head).zip(at(1, key, head)).map(|(q, k)| q * k).sum::<f64>() * scale;
            let scores: Vec<f64> = (segment[0]..segment[1]).map(score).collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
            let total: f64 = weights.iter().sum();
            for (key, weight) in (segment[0]..segment[1]).zip(weights) {
                let out = &mut out[(row * heads + head) * dim..][..dim];
                out.iter_mut().zip(at(2, key, head)).for_each(|(out, value)| *out += weight / total * value);
            }
        }
    }
    out
}

#[test]
fn attention_is_that_of_float64() {
    let cases: [(&[usize], usize, usize, f32); 7] = [
        (&[0, 1], 1, 1, 1.0),
        (&[0, 64, 128, 192], 2, 80, 0.1118),
        (&[0, 0, 7, 7, 24, 100], 3, 72, 0.118),
        (&[0, 255, 511], 1, 16, 0.25),
        (&[0, 257, 600], 2, 20, 0.7),
        // scores far beyond what exp can hold
        (&[0, 530], 1, 40, 30.0),
        (&[0, 17], 2, 3, -1.0),
    ];
    for (segments, heads, dim, scale) in cases {
        let rows = segments[segments.len() - 1];
        let qkv = noise(rows * 3 * heads * dim);
        let right = reference(&qkv, segments, heads, dim, f64::from(scale));
        for isa in isas() {
            let mut out = vec![f32::NAN; rows * heads * dim];
            run(isa, &qkv, segments, heads, dim, scale, &mut out);
            let wrong = out.iter().zip(&right).map(|(&out, right)| (f64::from(out) - right).powi(2)).sum::<f64>();
            let wrong = (wrong / right.iter().map(|right| right * right).sum::<f64>()).sqrt();
            // scores of ±1000 are off by some 1e-4 in float32, and so are their exponentials
            let tolerance = if scale > 1.0 { 1e-4 } else { 1e-6 };
            assert!(wrong < tolerance, "{isa:?} {segments:?} {dim}: {wrong:e}");
        }
    }
}

#[test]
fn a_segment_has_the_same_bits_alone_and_in_a_batch_on_any_number_of_threads() {
    let (heads, dim, segments) = (3, 40, [0, 30, 331, 700, 701]);
    let width = heads * dim;
    let qkv = noise(701 * 3 * width);
    for isa in isas() {
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut batch = vec![0.0; 701 * width];
            pool.install(|| run(isa, &qkv, &segments, heads, dim, 0.15, &mut batch));
            for segment in segments.windows(2) {
                let (from, to) = (segment[0], segment[1]);
                let mut alone = vec![0.0; (to - from) * width];
                let own = &qkv[from * 3 * width..to * 3 * width];
                run(isa, own, &[0, to - from], heads, dim, 0.15, &mut alone);
                assert!(alone == batch[from * width..to * width], "{isa:?} {threads} {segment:?}");
            }
        }
    }
}
