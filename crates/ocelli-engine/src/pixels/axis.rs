//! Weights of an antialiased bicubic resize along one side.

/// Free parameter of the cubic: -0.5 (Catmull-Rom), as Pillow and ATen's antialiased kernels have it.
const CUBIC_A: f64 = -0.5;
/// Half width of the cubic in pixels, before it is stretched for antialiasing.
const CUBIC_SUPPORT: f64 = 2.0;
/// ATen never goes beyond, so that an `i32` sum of bytes times weights cannot overflow.
const MAX_PRECISION: u32 = 22;

/// For each output pixel of one side: where its input pixels start, and their fixed-point weights.
pub(super) struct Axis {
    /// First input pixel of each output pixel; `padded_len` of them.
    pub(super) starts: Vec<u32>,
    /// One past the last input pixel that has a weight, of each output pixel.
    pub(super) ends: Vec<u32>,
    /// `padded_len × pairs`: weights of two neighbouring input pixels, the first in the low half.
    /// Unused ones are 0.
    pub(super) weights: Vec<i32>,
    /// Pairs of weights of each output pixel, the same for all.
    pub(super) pairs: usize,
    /// Most input pixels of any output pixel.
    pub(super) taps: usize,
    /// Bits behind the point of the weights.
    pub(super) precision: u32,
    /// Output pixels; behind them, up to a multiple of [`Axis::PAD`], are copies of the last one.
    pub(super) len: usize,
    /// Input and output are equally long: every pixel stays as it is.
    pub(super) identity: bool,
}

impl Axis {
    /// The inner loops make this many output pixels at once.
    pub(super) const PAD: usize = 8;

    /// Weights from `from` input pixels to `to` output pixels; both at least 1.
    pub(super) fn bicubic(from: usize, to: usize) -> Self {
        if from == to {
            return Self::identity(to);
        }
        let scale = from as f64 / to as f64;
        let stretch = scale.max(1.0);
        let support = CUBIC_SUPPORT * stretch;
        let most = support.ceil() as usize * 2 + 1;
        let shrink = 1.0 / stretch;

        let padded = to.next_multiple_of(Self::PAD);
        let mut starts = Vec::with_capacity(padded);
        let mut ends = Vec::with_capacity(padded);
        let mut exact = Vec::with_capacity(to * most.min(from));
        let mut largest = 0.0f64;
        for i in 0..to {
            let center = scale * (i as f64 + 0.5);
            // `as` cuts towards zero and stops at 0, as the original's cast and maximum do.
            let start = ((center - support + 0.5) as usize).min(from);
            let taps = ((center + support + 0.5) as usize).min(from).saturating_sub(start).min(most);
            let first = exact.len();
            exact.extend((start..start + taps).map(|x| cubic((x as f64 - center + 0.5) * shrink)));
            let total: f64 = exact[first..].iter().sum();
            for weight in &mut exact[first..] {
                if total != 0.0 {
                    *weight /= total;
                }
                largest = largest.max(*weight);
            }
            starts.push(start as u32);
            ends.push((start + taps) as u32);
        }

        let precision = precision_of(largest);
        let taps = starts.iter().zip(&ends).map(|(start, end)| (end - start) as usize).max().unwrap_or(0);
        // Beyond five, the loops take four at a time.
        let pairs = if taps <= 5 { taps.div_ceil(2).max(2) } else { taps.div_ceil(4) * 2 };
        let mut weights = vec![0i32; padded * pairs];
        let mut exact = exact.into_iter();
        for (i, row) in weights.chunks_exact_mut(pairs).take(to).enumerate() {
            for tap in 0..(ends[i] - starts[i]) as usize {
                let weight = fixed(exact.next().unwrap_or(0.0), precision) as u16 as u32;
                row[tap / 2] |= (weight << (16 * (tap % 2))) as i32;
            }
        }
        let (start, end) = (starts.last().copied().unwrap_or(0), ends.last().copied().unwrap_or(0));
        starts.resize(padded, start);
        ends.resize(padded, end);
        Self { starts, ends, weights, pairs, taps, precision, len: to, identity: false }
    }

    /// What the cubic's weights of equal lengths come to: one, and zeros.
    fn identity(len: usize) -> Self {
        let padded = len.next_multiple_of(Self::PAD);
        let starts: Vec<u32> = (0..padded).map(|i| i.min(len - 1) as u32).collect();
        let ends = starts.iter().map(|start| start + 1).collect();
        let (pairs, precision) = (1, 14);
        Self { starts, ends, weights: vec![1 << precision; padded], pairs, taps: 1, precision, len, identity: true }
    }

    /// The weight pairs of output pixel `i`.
    pub(super) fn pairs_of(&self, i: usize) -> &[i32] {
        &self.weights[i * self.pairs..(i + 1) * self.pairs]
    }

    /// The two weights of a pair.
    pub(super) fn split(pair: i32) -> (i32, i32) {
        (i32::from(pair as i16), pair >> 16)
    }
}

/// As many bits as keep the largest weight below 2^15.
fn precision_of(largest: f64) -> u32 {
    let mut precision = 0;
    while precision < MAX_PRECISION && (0.5 + largest * f64::from(1u32 << (precision + 1))) < 32768.0 {
        precision += 1;
    }
    precision
}

/// Rounded half away from zero.
fn fixed(weight: f64, precision: u32) -> i16 {
    let scaled = weight * f64::from(1u32 << precision);
    (if weight < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i16
}

/// Keys' cubic at distance `x`, in the original's order of operations.
fn cubic(x: f64) -> f64 {
    let (a, x) = (CUBIC_A, x.abs());
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lengths_give_the_identity() {
        let axis = Axis::bicubic(5, 5);
        assert!(axis.identity);
        for i in 0..5 {
            assert_eq!((axis.starts[i] as usize, axis.ends[i] as usize), (i, i + 1));
            assert_eq!(Axis::split(axis.pairs_of(i)[0]), (1 << axis.precision, 0));
        }
    }

    #[test]
    fn every_input_range_is_inside_and_every_sum_of_weights_is_one() {
        for (from, to) in [(1, 56), (2, 28), (31, 28), (500, 28), (28, 500), (4000, 112), (100_000, 28)] {
            let axis = Axis::bicubic(from, to);
            assert_eq!(axis.starts.len() % Axis::PAD, 0);
            for i in 0..to {
                assert!(axis.starts[i] < axis.ends[i] && axis.ends[i] as usize <= from);
                let sum: i32 = axis.pairs_of(i).iter().map(|&p| Axis::split(p).0 + Axis::split(p).1).sum();
                let off = (sum - (1 << axis.precision)).abs();
                assert!(off <= axis.taps as i32, "{from} to {to}, output {i}: off by {off}");
            }
        }
    }
}
