//! Bytes to an RGB picture: sniff the container, take the size from its header, decode, then apply what a
//! viewer applies, or what the original does not.
//!
//! The container is told by its first bytes, never by a name. Nothing is allocated for pixels before the
//! header's size was judged. ICC profiles are ignored.

mod finish;
mod jpeg;
mod other;
mod png;

use crate::MediaError;
use ocelli_core::RgbImage;

/// How pictures are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingMode {
    /// What a viewer shows: EXIF orientation applied, transparency on white, 16-bit gray scaled.
    AsViewed,
    /// As sglang's encoder reads them (`Image.open`, `convert("RGB")`): none of these.
    AsSglang,
}

/// What a picture may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    /// Pixels, by the header.
    pub max_pixels: u64,
}

impl Default for ImageLimits {
    /// Pillow's limit: twice its `MAX_IMAGE_PIXELS`.
    fn default() -> Self {
        Self { max_pixels: 178_956_970 }
    }
}

impl ImageLimits {
    /// Judges a declared size.
    fn check(&self, format: &'static str, width: u64, height: u64) -> Result<(), MediaError> {
        if width == 0 || height == 0 {
            let why = format!("it declares {width}x{height} pixels");
            return Err(MediaError::Undecodable { format, why });
        }
        if width.saturating_mul(height) > self.max_pixels {
            return Err(MediaError::TooManyPixels { format, width, height, limit: self.max_pixels });
        }
        Ok(())
    }
}

/// Containers that are told apart by their first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Jpeg,
    Png,
    Other(::image::ImageFormat),
}

fn sniff(bytes: &[u8]) -> Result<Container, MediaError> {
    use ::image::ImageFormat::{Bmp, Gif, Tiff, WebP};
    if bytes.is_empty() {
        return Err(MediaError::NotAnImage("it is empty"));
    }
    match bytes {
        [0xff, 0xd8, 0xff, ..] => Ok(Container::Jpeg),
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Ok(Container::Png),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Ok(Container::Other(Gif)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Ok(Container::Other(WebP)),
        [b'B', b'M', ..] => Ok(Container::Other(Bmp)),
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => Ok(Container::Other(Tiff)),
        _ => Err(MediaError::NotAnImage("JPEG, PNG, WebP, GIF, BMP and TIFF are")),
    }
}

/// Width and height from the header, before orientation.
///
/// # Errors
/// Not a picture, or a header that cannot be read.
pub fn probe_image(bytes: &[u8]) -> Result<(u32, u32), MediaError> {
    match sniff(bytes)? {
        Container::Jpeg => jpeg::probe(bytes),
        Container::Png => png::probe(bytes),
        Container::Other(format) => other::probe(bytes, format),
    }
}

/// Decodes a picture; of several frames the first. Takes time: not for an I/O thread.
///
/// # Errors
/// `NotAnImage`, `TooManyPixels`, `Undecodable`.
pub fn decode_image(bytes: &[u8], limits: &ImageLimits, mode: ReadingMode) -> Result<RgbImage, MediaError> {
    let decoded = match sniff(bytes)? {
        Container::Jpeg => jpeg::decode(bytes, limits)?,
        Container::Png => png::decode(bytes, limits)?,
        Container::Other(format) => other::decode(bytes, format, limits)?,
    };
    finish::finish(decoded, mode)
}
