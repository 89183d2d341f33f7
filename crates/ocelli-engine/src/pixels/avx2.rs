//! The inner loops with AVX2: two pixels times two weights in one `pmaddwd`.
//!
//! Bounded by shuffles (two ports on Zen 3) and loads. Tried and slower: interleaved instead of planar
//! rows between the passes (the columns then scatter single bytes into patches).

use super::axis::Axis;
use super::runs::Runs;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// How many bytes of a source row [`rows`] reads.
pub(super) fn reach(axis: &Axis) -> usize {
    if axis.identity {
        return axis.starts.len() * 3 + 4;
    }
    let chunks = if axis.taps <= 5 { 1 } else { axis.pairs / 2 };
    axis.starts.iter().max().map_or(0, |&start| 3 * start as usize + 12 * (chunks - 1) + 16)
}

/// Two interleaved RGB rows to three planes each of `stride` bytes, resized along the row.
///
/// `reach` is that of the axis: to be computed once a picture, not once a row.
///
/// # Safety
/// The machine has AVX2, and `reach` is at least [`reach`] of `axis`.
///
/// # Panics
/// Where a source row is shorter than `reach`, or a plane shorter than the padded axis.
pub(super) unsafe fn rows(src: [&[u8]; 2], axis: &Axis, reach: usize, out: [&mut [u8]; 2], stride: usize) {
    let padded = axis.starts.len();
    let [above, below] = src;
    let [out_above, out_below] = out;
    assert!(above.len() >= reach && below.len() >= reach, "source rows shorter than their reach");
    assert!(stride >= padded && out_above.len() >= 3 * stride && out_below.len() >= 3 * stride);
    let (src, out) = ([above.as_ptr(), below.as_ptr()], [out_above.as_mut_ptr(), out_below.as_mut_ptr()]);
    // SAFETY: AVX2 is there. Reads stay below `reach`, which both rows have; writes stay below `3·stride`,
    // which both outputs have (checked above); the tables have `padded` entries (made so by `Axis`).
    unsafe {
        match (axis.identity, axis.taps) {
            (true, _) => rows_of::<COPY>(src, axis, out, stride),
            (_, ..=4) => rows_of::<FOUR>(src, axis, out, stride),
            (_, 5) => rows_of::<FIVE>(src, axis, out, stride),
            _ => rows_of::<MANY>(src, axis, out, stride),
        }
    }
}

const COPY: u8 = 0;
const FOUR: u8 = 1;
const FIVE: u8 = 2;
const MANY: u8 = 3;

#[target_feature(enable = "avx2")]
unsafe fn rows_of<const TAPS: u8>(src: [*const u8; 2], axis: &Axis, out: [*mut u8; 2], stride: usize) {
    // SAFETY: the caller's promise covers every pixel group below `padded`.
    unsafe {
        for x in (0..axis.starts.len()).step_by(Axis::PAD) {
            let left = four_pixels::<TAPS>(src, axis, x);
            let right = four_pixels::<TAPS>(src, axis, x + 4);
            let red_green = _mm256_unpacklo_epi32(left, right); // r0..8 g0..8
            let blue = _mm256_unpackhi_epi32(left, right); // b0..8 -
            for (lane, to) in out.into_iter().enumerate() {
                let (rg, b) = if lane == 0 {
                    (_mm256_castsi256_si128(red_green), _mm256_castsi256_si128(blue))
                } else {
                    (_mm256_extracti128_si256::<1>(red_green), _mm256_extracti128_si256::<1>(blue))
                };
                _mm_storel_epi64(to.add(x).cast(), rg);
                _mm_storel_epi64(to.add(x + stride).cast(), _mm_unpackhi_epi64(rg, rg));
                _mm_storel_epi64(to.add(x + 2 * stride).cast(), b);
            }
        }
    }
}

/// Output pixels `x..x+4` of two rows, one a lane, as `r0..4 g0..4 b0..4 -`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn four_pixels<const TAPS: u8>(src: [*const u8; 2], axis: &Axis, x: usize) -> __m256i {
    // SAFETY: as in `rows_of`.
    unsafe {
        if TAPS == COPY {
            let planes = both(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
            return _mm256_shuffle_epi8(two_rows(src, 3 * x), planes);
        }
        let first = _mm256_packs_epi32(pixel::<TAPS>(src, axis, x), pixel::<TAPS>(src, axis, x + 1));
        let second = _mm256_packs_epi32(pixel::<TAPS>(src, axis, x + 2), pixel::<TAPS>(src, axis, x + 3));
        let planes = both(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
        _mm256_shuffle_epi8(_mm256_packus_epi16(first, second), planes)
    }
}

/// Output pixel `x` of two rows, one a lane, as four `i32`: r g b -.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pixel<const TAPS: u8>(src: [*const u8; 2], axis: &Axis, x: usize) -> __m256i {
    let pair01 = both(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    let pair23 = both(_mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    let last = both(_mm_setr_epi8(12, -1, -1, -1, 13, -1, -1, -1, 14, -1, -1, -1, -1, -1, -1, -1));
    let mut sum = _mm256_set1_epi32(1 << axis.precision >> 1);
    // SAFETY: as in `rows_of`: `x` is below the padded length, so the tables have it, and `reach` covers
    // its chunks of 12 bytes, each read as 16.
    unsafe {
        let start = 3 * *axis.starts.get_unchecked(x) as usize;
        let pairs = axis.weights.as_ptr().add(x * axis.pairs);
        let chunks = if TAPS == MANY { axis.pairs / 2 } else { 1 };
        for chunk in 0..chunks {
            let bytes = two_rows(src, start + 12 * chunk);
            let weights = pairs.add(2 * chunk);
            let product = _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, pair01), _mm256_set1_epi32(*weights));
            sum = _mm256_add_epi32(sum, product);
            let product = _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, pair23), _mm256_set1_epi32(*weights.add(1)));
            sum = _mm256_add_epi32(sum, product);
            if TAPS == FIVE {
                let product = _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, last), _mm256_set1_epi32(*weights.add(2)));
                sum = _mm256_add_epi32(sum, product);
            }
        }
    }
    _mm256_sra_epi32(sum, _mm_cvtsi32_si128(axis.precision as i32))
}

/// 16 bytes at `offset` of both rows, one a lane.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn two_rows(src: [*const u8; 2], offset: usize) -> __m256i {
    // SAFETY: the caller's `offset + 16` is within both rows.
    unsafe {
        let above = _mm256_castsi128_si256(_mm_loadu_si128(src[0].add(offset).cast()));
        _mm256_inserti128_si256::<1>(above, _mm_loadu_si128(src[1].add(offset).cast()))
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn both(lane: __m128i) -> __m256i {
    _mm256_broadcastsi128_si256(lane)
}

/// One output row of one plane: the weighted sum of `rows`, written as runs of `PATCH` bytes (14 or 16).
///
/// # Safety
/// The machine has AVX2.
///
/// # Panics
/// Where a row has less than 32 bytes behind the last run, a run would end outside `out`, or there are
/// fewer pairs than the rows need.
pub(super) unsafe fn column<const PATCH: usize>(
    rows: &[&[u8]],
    pairs: &[i32],
    precision: u32,
    runs: &Runs,
    out: &mut [MaybeUninit<u8>],
) {
    const { assert!(PATCH == 14 || PATCH == 16) };
    let enough = runs.places().len() * PATCH + 32;
    assert!(rows.iter().all(|row| row.len() >= enough), "rows without room behind them");
    assert!(runs.furthest() + PATCH <= out.len(), "runs outside the output");
    assert!(pairs.len() >= rows.len().div_ceil(2) && !rows.is_empty());
    let out = out.as_mut_ptr().cast::<u8>();
    // SAFETY: AVX2 is there. Reads are `PATCH + 16` bytes from starts below the end of the last run, so at most
    // `enough`; writes are `PATCH` bytes at the places. Both checked above.
    unsafe {
        match rows.len().div_ceil(2) {
            1 => few_rows::<PATCH, 1>(rows, pairs, precision, runs.places(), out),
            2 => few_rows::<PATCH, 2>(rows, pairs, precision, runs.places(), out),
            3 => few_rows::<PATCH, 3>(rows, pairs, precision, runs.places(), out),
            _ => many_rows::<PATCH>(rows, pairs, precision, runs.places(), out),
        }
    }
}

/// A pair of rows and its weights. Where the second row is missing, its weight is 0 and the first serves.
#[inline]
#[target_feature(enable = "avx2")]
fn row_pair(rows: &[&[u8]], pairs: &[i32], i: usize) -> ([*const u8; 2], __m256i) {
    let above = rows[2 * i].as_ptr();
    ([above, rows.get(2 * i + 1).map_or(above, |row| row.as_ptr())], _mm256_set1_epi32(pairs[i]))
}

/// Up to six rows: their pointers and weights stay in registers.
#[target_feature(enable = "avx2")]
unsafe fn few_rows<const PATCH: usize, const PAIRS: usize>(
    rows: &[&[u8]],
    pairs: &[i32],
    precision: u32,
    places: &[usize],
    out: *mut u8,
) {
    let all: [_; PAIRS] = std::array::from_fn(|i| row_pair(rows, pairs, i));
    let shift = _mm_cvtsi32_si128(precision as i32);
    let half = _mm256_set1_epi32(1 << precision >> 1);
    for (i, two) in places.chunks(2).enumerate() {
        let mut sums = [half; 4];
        for (from, weights) in all {
            // SAFETY: as in `column`.
            unsafe { add_pair::<PATCH>(&mut sums, from, 2 * i * PATCH, weights) };
        }
        // SAFETY: as in `column`.
        unsafe { store_two::<PATCH>(sums, shift, two, out) };
    }
}

/// Any number of rows.
#[target_feature(enable = "avx2")]
unsafe fn many_rows<const PATCH: usize>(rows: &[&[u8]], pairs: &[i32], precision: u32, places: &[usize], out: *mut u8) {
    let shift = _mm_cvtsi32_si128(precision as i32);
    let half = _mm256_set1_epi32(1 << precision >> 1);
    for (i, two) in places.chunks(2).enumerate() {
        let mut sums = [half; 4];
        for pair in 0..rows.len().div_ceil(2) {
            let (from, weights) = row_pair(rows, pairs, pair);
            // SAFETY: as in `column`.
            unsafe { add_pair::<PATCH>(&mut sums, from, 2 * i * PATCH, weights) };
        }
        // SAFETY: as in `column`.
        unsafe { store_two::<PATCH>(sums, shift, two, out) };
    }
}

/// Adds a pair of rows, weighted, to the sums of two runs that start at column `x`, one run a lane.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add_pair<const PATCH: usize>(sums: &mut [__m256i; 4], from: [*const u8; 2], x: usize, weights: __m256i) {
    let zero = _mm256_setzero_si256();
    // SAFETY: the caller has `x + PATCH + 16` bytes in both rows.
    let [above, below] = from.map(|row| unsafe { two_rows([row.add(x), row.add(x + PATCH)], 0) });
    let low = _mm256_unpacklo_epi8(above, below);
    let high = _mm256_unpackhi_epi8(above, below);
    let values = [
        _mm256_unpacklo_epi8(low, zero),
        _mm256_unpackhi_epi8(low, zero),
        _mm256_unpacklo_epi8(high, zero),
        _mm256_unpackhi_epi8(high, zero),
    ];
    for (sum, values) in sums.iter_mut().zip(values) {
        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(values, weights));
    }
}

/// Rounds the sums of two runs to bytes and writes them to their places (the last run may be alone).
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_two<const PATCH: usize>(sums: [__m256i; 4], shift: __m128i, places: &[usize], out: *mut u8) {
    let [a, b, c, d] = sums.map(|sum| _mm256_sra_epi32(sum, shift));
    let bytes = _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    // SAFETY: the caller has room for `PATCH` bytes at each place.
    unsafe {
        store::<PATCH>(out.add(places[0]), _mm256_castsi256_si128(bytes));
        if let [_, second] = places {
            store::<PATCH>(out.add(*second), _mm256_extracti128_si256::<1>(bytes));
        }
    }
}

/// The first `PATCH` bytes of a lane.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<const PATCH: usize>(to: *mut u8, bytes: __m128i) {
    // SAFETY: the caller has `PATCH` bytes there: all 16, or 14 in two halves that overlap.
    unsafe {
        if PATCH == 16 {
            _mm_storeu_si128(to.cast(), bytes);
        } else {
            _mm_storel_epi64(to.cast(), bytes);
            _mm_storel_epi64(to.add(PATCH - 8).cast(), _mm_srli_si128::<6>(bytes));
        }
    }
}
