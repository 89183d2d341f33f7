//! From decoded samples to the picture that a model gets: the one place where the reading modes differ.

use super::ReadingMode;
use crate::MediaError;
use ::image::metadata::Orientation;
use ::image::{DynamicImage, RgbImage as ImageRgb};
use ocelli_core::RgbImage;

/// Samples as a container has them.
pub(super) enum Samples {
    /// Three bytes a pixel.
    Rgb(Vec<u8>),
    /// Four bytes a pixel.
    Rgba(Vec<u8>),
    /// One value of 16 bits a pixel.
    Gray16(Vec<u16>),
}

/// A decoded frame.
pub(super) struct Decoded {
    pub width: u32,
    pub height: u32,
    pub samples: Samples,
    pub orientation: Orientation,
    /// For messages.
    pub format: &'static str,
}

pub(super) fn finish(decoded: Decoded, mode: ReadingMode) -> Result<RgbImage, MediaError> {
    let Decoded { width, height, samples, orientation, format } = decoded;
    let pixels = match (samples, mode) {
        (Samples::Rgb(pixels), _) => pixels,
        (Samples::Rgba(pixels), ReadingMode::AsSglang) => drop_alpha(&pixels),
        (Samples::Rgba(pixels), ReadingMode::AsViewed) => on_white(&pixels),
        // Pillow clips 16-bit gray instead of scaling it
        (Samples::Gray16(values), ReadingMode::AsSglang) => gray(values.into_iter().map(|v| v.min(255) as u8)),
        (Samples::Gray16(values), ReadingMode::AsViewed) => {
            gray(values.into_iter().map(|v| ((u32::from(v) * 255 + 32767) / 65535) as u8))
        }
    };
    let broken = || MediaError::Undecodable { format, why: "its pixels are not as many as its header says".into() };
    if mode == ReadingMode::AsSglang || orientation == Orientation::NoTransforms {
        return RgbImage::new(width, height, pixels).ok_or_else(broken);
    }
    let mut upright = DynamicImage::ImageRgb8(ImageRgb::from_raw(width, height, pixels).ok_or_else(broken)?);
    upright.apply_orientation(orientation);
    let upright = upright.into_rgb8();
    RgbImage::new(upright.width(), upright.height(), upright.into_raw()).ok_or_else(broken)
}

fn gray(values: impl Iterator<Item = u8>) -> Vec<u8> {
    values.flat_map(|v| [v, v, v]).collect()
}

fn drop_alpha(rgba: &[u8]) -> Vec<u8> {
    rgba.as_chunks::<4>().0.iter().flat_map(|[r, g, b, _]| [*r, *g, *b]).collect()
}

/// Pillow's `Image.alpha_composite` over opaque white (libImaging/AlphaComposite.c), to the bit: its
/// division by 255 is two shifts.
fn on_white(rgba: &[u8]) -> Vec<u8> {
    let over = |value: u8, alpha: u8| {
        let (value, alpha) = (u32::from(value), u32::from(alpha));
        let scaled = (value * alpha + 255 * (255 - alpha) + 0x80) << 7;
        ((((scaled >> 8) + scaled) >> 8) >> 7) as u8
    };
    let blend = |[r, g, b, a]: &[u8; 4]| match a {
        0 => [255; 3],
        255 => [*r, *g, *b],
        a => [over(*r, *a), over(*g, *a), over(*b, *a)],
    };
    rgba.as_chunks::<4>().0.iter().flat_map(blend).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(samples: Samples) -> Decoded {
        Decoded { width: 2, height: 1, samples, orientation: Orientation::NoTransforms, format: "test" }
    }

    #[test]
    fn sixteen_bit_gray_is_scaled_for_viewers_and_clipped_as_pillow_does() {
        let pixels = |mode| finish(decoded(Samples::Gray16(vec![65535, 257])), mode).unwrap().pixels().to_vec();
        assert_eq!(pixels(ReadingMode::AsViewed), [255, 255, 255, 1, 1, 1]);
        assert_eq!(pixels(ReadingMode::AsSglang), [255; 6]);
    }

    #[test]
    fn transparency_lies_on_white_for_viewers_and_is_dropped_as_sglang_does() {
        let samples = || Samples::Rgba(vec![10, 20, 30, 0, 0, 100, 200, 128]);
        let pixels = |mode| finish(decoded(samples()), mode).unwrap().pixels().to_vec();
        assert_eq!(pixels(ReadingMode::AsSglang), [10, 20, 30, 0, 100, 200]);
        assert_eq!(pixels(ReadingMode::AsViewed), [255, 255, 255, 127, 177, 227]);
    }
}
