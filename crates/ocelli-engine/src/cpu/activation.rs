//! Activation functions over slices, written so that the compiler makes vectors of them.

use super::simd::on_best_simd;
use crate::Activation;

/// `eˣ` to 2 units in the last place; 0 below −87.3, where float32 leaves its normal range.
///
/// Cephes' `expf`: `x = n·ln 2 + r` with ln 2 in two parts, a polynomial of degree 5 for `eʳ`, and
/// `2ⁿ` put together as bits. Adding 1.5·2²³ rounds to an integer and leaves it in the low bits.
/// `FUSED` multiplies and adds in one, for code compiled for FMA; elsewhere that is a slow library call.
#[inline(always)]
pub(crate) fn exp<const FUSED: bool>(x: f32) -> f32 {
    let fma = |a: f32, b: f32, c: f32| if FUSED { a.mul_add(b, c) } else { a * b + c };
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.3, 88.3);
    let shifted = fma(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma(n, 2.121_944_4e-4, fma(n, -0.693_359_4, x));
    let p = 1.987_569_2e-4;
    let p = fma(p, r, 1.398_2e-3);
    let p = fma(p, r, 8.333_452e-3);
    let p = fma(p, r, 4.166_579_6e-2);
    let p = fma(p, r, 1.666_666_6e-1);
    let p = fma(p, r, 0.5);
    let e = fma(p * r, r, r) + 1.0;
    e * f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000))
}

/// `x·σ(a·x)`: silu for a = 1.
#[inline(always)]
pub(crate) fn swish(x: f32, a: f32) -> f32 {
    x / (1.0 + exp::<false>(-a * x))
}

/// `erfc` of a value ≥ 0 with a relative error below 1.2e-7 (Chebyshev fit of Numerical Recipes, `erfcc`).
#[inline(always)]
fn erfc_positive(z: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.5 * z);
    let p = 0.170_872_77;
    let p = p * t - 0.822_152_23;
    let p = p * t + 1.488_515_9;
    let p = p * t - 1.135_204;
    let p = p * t + 0.278_868_07;
    let p = p * t - 0.186_288_06;
    let p = p * t + 0.096_784_18;
    let p = p * t + 0.374_091_96;
    let p = p * t + 1.000_023_7;
    let p = p * t - 1.265_512_2;
    t * exp::<false>(p - z * z)
}

/// `x·Φ(x) = x/2·erfc(−x/√2)`.
#[inline(always)]
fn gelu_erf(x: f32) -> f32 {
    let tail = erfc_positive(x.abs() * std::f32::consts::FRAC_1_SQRT_2);
    let erfc = if x < 0.0 { tail } else { 2.0 - tail };
    0.5 * x * erfc
}

/// `x/2·(1 + tanh u) = x·σ(2u)`, `u = √(2/π)·(x + 0.044715·x³)`.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let u = SQRT_2_OVER_PI * (x + 0.044_715 * x * x * x);
    x / (1.0 + exp::<false>(-2.0 * u))
}

#[inline(always)]
fn apply_body(x: &mut [f32], activation: Activation) {
    match activation {
        Activation::GeluErf => x.iter_mut().for_each(|x| *x = gelu_erf(*x)),
        Activation::GeluTanh => x.iter_mut().for_each(|x| *x = gelu_tanh(*x)),
        Activation::QuickGelu => x.iter_mut().for_each(|x| *x = swish(*x, 1.702)),
    }
}

on_best_simd! {
    /// Applies the function to each element.
    pub(crate) fn apply = apply_body(x: &mut [f32], activation: Activation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_that_of_float64_to_a_few_units() {
        for exp in [exp::<false>, exp::<true>] {
            let worst = (-8700..=8800).map(|i| i as f32 * 0.01).map(|x| {
                let right = f64::from(x).exp();
                (f64::from(exp(x)) / right - 1.0).abs()
            });
            let worst = worst.fold(0.0, f64::max);
            assert!(worst < 3e-7, "{worst}");
            assert_eq!((exp(0.0), exp(f32::NEG_INFINITY) < 1.3e-38), (1.0, true));
        }
    }
}
