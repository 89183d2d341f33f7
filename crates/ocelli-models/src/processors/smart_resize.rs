//! The size that a picture is resized to: sides divisible by `factor`, an area within bounds, the aspect
//! ratio kept as well as that allows.

use super::ProcessError;

/// The reference refuses pictures beyond this.
pub const MAX_ASPECT_RATIO: f64 = 200.0;

/// (height, width) in pixels after resizing, both multiples of `factor`, for an area between `min_pixels`
/// and `max_pixels`.
///
/// As `smart_resize` of the Hugging Face Qwen2-VL processor: rounding is half to even, areas are compared
/// after rounding, and a picture that is below `min_pixels` may end above it.
///
/// # Errors
/// An empty picture, an aspect ratio beyond [`MAX_ASPECT_RATIO`], a result beyond 32 bits.
pub fn smart_resize(
    height: u32,
    width: u32,
    factor: u32,
    min_pixels: u64,
    max_pixels: u64,
) -> Result<(u32, u32), ProcessError> {
    if height == 0 || width == 0 {
        return Err(ProcessError::Empty { width, height });
    }
    let ratio = f64::from(height.max(width)) / f64::from(height.min(width));
    if ratio > MAX_ASPECT_RATIO {
        return Err(ProcessError::AspectRatio { ratio });
    }
    let (h, w, step) = (f64::from(height), f64::from(width), f64::from(factor));
    let area = (u64::from(height) * u64::from(width)) as f64;
    let mut steps_h = (h / step).round_ties_even();
    let mut steps_w = (w / step).round_ties_even();
    let rounded_area = (steps_h * step) * (steps_w * step);
    if rounded_area > max_pixels as f64 {
        let beta = (area / max_pixels as f64).sqrt();
        steps_h = (h / beta / step).floor().max(1.0);
        steps_w = (w / beta / step).floor().max(1.0);
    } else if rounded_area < min_pixels as f64 {
        let beta = (min_pixels as f64 / area).sqrt();
        steps_h = (h * beta / step).ceil();
        steps_w = (w * beta / step).ceil();
    }
    // A side that was rounded to 0 is below any `min_pixels` and has been lifted.
    let side = |steps: f64| (1.0..=f64::from(i32::MAX)).contains(&(steps * step)).then_some((steps * step) as u32);
    side(steps_h).zip(side(steps_w)).ok_or(ProcessError::TooLarge { width, height })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: u64 = 56 * 56;
    const MAX: u64 = 28 * 28 * 1280;

    // Right values from `smart_resize` of transformers 5.19.
    #[test]
    fn sizes_are_those_of_the_reference() {
        for (h, w, right) in [
            (480, 640, (476, 644)),
            (1, 1, (56, 56)),
            (1, 31, (28, 336)),
            (1, 200, (28, 812)),
            (30, 31, (56, 84)),
            (14, 14, (56, 56)),
            (42, 42, (56, 56)),
            (70, 98, (56, 112)),
            (3000, 4000, (840, 1148)),
            (6, 1200, (28, 812)),
        ] {
            assert_eq!(smart_resize(h, w, 28, MIN, MAX).unwrap(), right, "{h}x{w}");
        }
    }

    #[test]
    fn an_aspect_ratio_beyond_200_is_refused_in_the_words_of_the_reference() {
        let error = smart_resize(1, 2000, 28, MIN, MAX).unwrap_err();
        assert_eq!(error.to_string(), "absolute aspect ratio must be smaller than 200, got 2000.0");
        let error = smart_resize(3, 1000, 28, MIN, MAX).unwrap_err();
        assert_eq!(error.to_string(), "absolute aspect ratio must be smaller than 200, got 333.3333333333333");
        assert!(smart_resize(1, 200, 28, MIN, MAX).is_ok());
    }

    #[test]
    fn extreme_bounds_give_an_error_or_a_size_never_a_panic() {
        assert_eq!(smart_resize(1, 100, 28, 1, MAX).unwrap(), (28, 28), "rounds to a height of 0, is lifted");
        assert!(smart_resize(0, 5, 28, MIN, MAX).is_err());
        assert!(smart_resize(u32::MAX, u32::MAX, 28, MIN, u64::MAX).is_err());
        assert_eq!(smart_resize(u32::MAX, u32::MAX, 28, MIN, 1).unwrap(), (28, 28));
        assert!(smart_resize(1, 1, 28, u64::MAX, u64::MAX).is_err());
    }
}
