//! The inner loops in plain Rust: what other machines run, and the truth that the SIMD ones are tested against.

use super::axis::Axis;
use super::runs::Runs;
use std::mem::MaybeUninit;

/// One interleaved RGB row to three planes of `stride` bytes, resized along the row.
pub(super) fn row(src: &[u8], axis: &Axis, out: &mut [u8], stride: usize) {
    let (red, rest) = out.split_at_mut(stride);
    let (green, blue) = rest.split_at_mut(stride);
    for i in 0..axis.len {
        if axis.identity {
            [red[i], green[i], blue[i]] = [src[3 * i], src[3 * i + 1], src[3 * i + 2]];
            continue;
        }
        let mut sums = [1i32 << axis.precision >> 1; 3];
        let pixels = src[3 * axis.starts[i] as usize..3 * axis.ends[i] as usize].chunks_exact(6);
        let odd = pixels.remainder();
        let pairs = axis.pairs_of(i);
        for (six, &pair) in pixels.zip(pairs) {
            let (first, second) = Axis::split(pair);
            for c in 0..3 {
                sums[c] += i32::from(six[c]) * first + i32::from(six[c + 3]) * second;
            }
        }
        if let [r, g, b] = *odd {
            let (last, _) = Axis::split(pairs[((axis.ends[i] - axis.starts[i]) / 2) as usize]);
            for (sum, value) in sums.iter_mut().zip([r, g, b]) {
                *sum += i32::from(value) * last;
            }
        }
        [red[i], green[i], blue[i]] = sums.map(|sum| (sum >> axis.precision).clamp(0, 255) as u8);
    }
}

/// One output row of one plane: the weighted sum of `rows`, written as runs of `patch` bytes.
pub(super) fn column(
    rows: &[&[u8]],
    pairs: &[i32],
    precision: u32,
    patch: usize,
    runs: &Runs,
    out: &mut [MaybeUninit<u8>],
) {
    let width = runs.places().len() * patch;
    let mut sums = vec![1i32 << precision >> 1; width];
    for (k, row) in rows.iter().enumerate() {
        let (low, high) = Axis::split(pairs[k / 2]);
        let weight = if k % 2 == 0 { low } else { high };
        for (sum, &value) in sums.iter_mut().zip(&row[..width]) {
            *sum += i32::from(value) * weight;
        }
    }
    for (run, &place) in sums.chunks_exact(patch).zip(runs.places()) {
        for (to, &sum) in out[place..place + patch].iter_mut().zip(run) {
            to.write((sum >> precision).clamp(0, 255) as u8);
        }
    }
}
