//! One source, two machine codes: a plain loop compiled for what every x86-64 has and for AVX2.
//!
//! The bodies avoid `mul_add`, which is a slow library call without FMA, so both codes round alike.

/// Whether this machine has AVX2 and FMA. The standard library keeps the answer.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// Defines `$name(args)` which runs the `#[inline(always)]` function `$body(args)`, compiled for AVX2 where the machine has it.
macro_rules! on_best_simd {
    ($(#[$doc:meta])* $vis:vis fn $name:ident = $body:ident($($arg:ident: $type:ty),* $(,)?)) => {
        $(#[$doc])*
        $vis fn $name($($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $type),*) {
                    $body($($arg),*)
                }
                if $crate::cpu::simd::has_avx2() {
                    // SAFETY: the features that `wide` is compiled for were just found.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use on_best_simd;

/// Partial sums in flight: two AVX2 registers hide the latency of the additions.
const LANES: usize = 16;

/// `Σ f(x)`, in an order that depends on the length only.
#[inline(always)]
pub(crate) fn sum_of(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += f(value);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    rest.iter().fold(lanes[0], |sum, &value| sum + f(value))
}
