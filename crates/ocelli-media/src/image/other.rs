//! WebP, GIF, BMP, TIFF: the `image` crate's decoders, under the same limits.

use super::ImageLimits;
use super::finish::{Decoded, Samples};
use crate::MediaError;
use ::image::codecs::{bmp::BmpDecoder, gif::GifDecoder, tiff::TiffDecoder, webp::WebPDecoder};
use ::image::metadata::Orientation;
use ::image::{DynamicImage, ImageDecoder, ImageFormat, ImageResult};
use std::io::Cursor;

/// Bytes that a decoder may take beyond one picture of 16-bit RGBA.
const SLACK_BYTES: u64 = 16 << 20;

/// Width and height from the header.
pub(super) fn probe(bytes: &[u8], format: ImageFormat) -> Result<(u32, u32), MediaError> {
    with_decoder(bytes, format, Probe)
}

pub(super) fn decode(bytes: &[u8], format: ImageFormat, limits: &ImageLimits) -> Result<Decoded, MediaError> {
    with_decoder(bytes, format, Decode { limits: *limits, name: name(format), bytes })
}

/// What is done with the decoder of a container.
trait Use {
    type Output;
    fn with(self, decoder: impl ImageDecoder, name: &'static str) -> Result<Self::Output, MediaError>;
}

fn with_decoder<U: Use>(bytes: &[u8], format: ImageFormat, then: U) -> Result<U::Output, MediaError> {
    let (source, name) = (Cursor::new(bytes), name(format));
    let opened = |why| broken(name, why);
    match format {
        ImageFormat::WebP => then.with(WebPDecoder::new(source).map_err(opened)?, name),
        ImageFormat::Gif => then.with(GifDecoder::new(source).map_err(opened)?, name),
        ImageFormat::Bmp => then.with(BmpDecoder::new(source).map_err(opened)?, name),
        ImageFormat::Tiff => then.with(TiffDecoder::new(source).map_err(opened)?, name),
        _ => Err(MediaError::NotAnImage("JPEG, PNG, WebP, GIF, BMP and TIFF are")),
    }
}

struct Probe;

impl Use for Probe {
    type Output = (u32, u32);
    fn with(self, decoder: impl ImageDecoder, _: &'static str) -> Result<(u32, u32), MediaError> {
        Ok(decoder.dimensions())
    }
}

struct Decode<'a> {
    limits: ImageLimits,
    name: &'static str,
    bytes: &'a [u8],
}

impl Use for Decode<'_> {
    type Output = Decoded;

    fn with(self, mut decoder: impl ImageDecoder, name: &'static str) -> Result<Decoded, MediaError> {
        let (width, height) = decoder.dimensions();
        self.limits.check(name, width.into(), height.into())?;
        let mut allowed = ::image::Limits::default();
        allowed.max_alloc = Some(self.limits.max_pixels.saturating_mul(8).saturating_add(SLACK_BYTES));
        decoder.set_limits(allowed).map_err(|why| broken(name, why))?;
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let samples = match decoder.original_color_type() {
            ::image::ExtendedColorType::Cmyk8 => cmyk_tiff(self.bytes, self.name)?,
            _ => samples(DynamicImage::from_decoder(decoder), name)?,
        };
        Ok(Decoded { width, height, samples, orientation, format: name })
    }
}

fn samples(decoded: ImageResult<DynamicImage>, name: &'static str) -> Result<Samples, MediaError> {
    Ok(match decoded.map_err(|why| broken(name, why))? {
        DynamicImage::ImageLuma16(gray) => Samples::Gray16(gray.into_raw()),
        with_alpha if with_alpha.color().has_alpha() => Samples::Rgba(high_bytes(with_alpha).into_rgba8().into_raw()),
        opaque => Samples::Rgb(high_bytes(opaque).into_rgb8().into_raw()),
    })
}

/// 16-bit samples: the high byte, as Pillow has them, where `image` would round.
fn high_bytes(picture: DynamicImage) -> DynamicImage {
    match picture {
        DynamicImage::ImageRgb16(wide) => {
            let (width, height) = wide.dimensions();
            let bytes = wide.into_raw().into_iter().map(|v| (v >> 8) as u8).collect();
            ::image::RgbImage::from_raw(width, height, bytes)
                .map_or(DynamicImage::new_rgb8(0, 0), DynamicImage::ImageRgb8)
        }
        other => other,
    }
}

/// CMYK by Pillow's formula; `image` has another one.
fn cmyk_tiff(bytes: &[u8], name: &'static str) -> Result<Samples, MediaError> {
    let failed = |why: tiff::TiffError| MediaError::Undecodable { format: name, why: clip(&why.to_string()) };
    let mut decoder = tiff::decoder::Decoder::new(Cursor::new(bytes)).map_err(failed)?;
    match decoder.read_image().map_err(failed)? {
        tiff::decoder::DecodingResult::U8(cmyk) => {
            Ok(Samples::Rgb(cmyk.as_chunks::<4>().0.iter().flat_map(|pixel| cmyk_to_rgb(*pixel)).collect()))
        }
        _ => Err(MediaError::Undecodable { format: name, why: "its samples are not 8 bits".into() }),
    }
}

/// Pillow's `cmyk2rgb` (libImaging/Convert.c), with its division by 255.
pub(super) fn cmyk_to_rgb([c, m, y, k]: [u8; 4]) -> [u8; 3] {
    let not_black = 255 - i32::from(k);
    let channel = |ink: u8| {
        let product = i32::from(ink) * not_black + 128;
        (not_black - (((product >> 8) + product) >> 8)).clamp(0, 255) as u8
    };
    [channel(c), channel(m), channel(y)]
}

fn name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::WebP => "WebP",
        ImageFormat::Gif => "GIF",
        ImageFormat::Bmp => "BMP",
        _ => "TIFF",
    }
}

fn broken(format: &'static str, why: ::image::ImageError) -> MediaError {
    MediaError::Undecodable { format, why: clip(&why.to_string()) }
}

fn clip(text: &str) -> String {
    text.chars().take(120).collect()
}
