//! PNG: all colour types, 16 bits, interlaced. A wrong checksum of image data is taken, as Pillow takes it;
//! one of the header is not.

use super::ImageLimits;
use super::finish::{Decoded, Samples};
use crate::MediaError;
use ::image::metadata::Orientation;
use ::png::{BitDepth, ColorType, DecodeOptions, Decoder, DecodingError, Transformations};
use std::io::Cursor;

const FORMAT: &str = "PNG";

/// Width and height from IHDR.
pub(super) fn probe(bytes: &[u8]) -> Result<(u32, u32), MediaError> {
    match bytes.get(8..24) {
        Some([_, _, _, _, b'I', b'H', b'D', b'R', w3, w2, w1, w0, h3, h2, h1, h0]) => {
            Ok((u32::from_be_bytes([*w3, *w2, *w1, *w0]), u32::from_be_bytes([*h3, *h2, *h1, *h0])))
        }
        _ => Err(broken("it does not begin with its header")),
    }
}

pub(super) fn decode(bytes: &[u8], limits: &ImageLimits) -> Result<Decoded, MediaError> {
    let (width, height) = probe(bytes)?;
    limits.check(FORMAT, width.into(), height.into())?;
    let samples = match samples(bytes, limits, false) {
        // the header's checksum was right; that of the image data may not be
        Err(Stage::Data) => samples(bytes, limits, true).map_err(|stage| stage.fault("its image data are broken")),
        other => other.map_err(|stage| stage.fault("its header is broken")),
    }?;
    Ok(Decoded { width, height, samples, orientation: orientation(bytes), format: FORMAT })
}

/// Where decoding failed.
enum Stage {
    Header(String),
    Data,
    Unsupported,
}

impl Stage {
    fn fault(self, why: &str) -> MediaError {
        match self {
            Self::Header(detail) => broken(&detail),
            Self::Data => broken(why),
            Self::Unsupported => broken("its colour type is unknown"),
        }
    }
}

fn samples(bytes: &[u8], limits: &ImageLimits, ignore_checksums: bool) -> Result<Samples, Stage> {
    let mut options = DecodeOptions::default();
    options.set_ignore_text_chunk(true);
    options.set_ignore_iccp_chunk(true);
    options.set_ignore_checksums(ignore_checksums);
    let mut decoder = Decoder::new_with_options(Cursor::new(bytes), options);
    decoder.set_transformations(Transformations::EXPAND);
    // rows and one whole picture of 16-bit RGBA
    let room = limits.max_pixels.saturating_mul(8).saturating_add(1 << 20);
    decoder.set_limits(::png::Limits { bytes: usize::try_from(room).unwrap_or(usize::MAX) });
    let header = |why: DecodingError| Stage::Header(why.to_string());
    let mut reader = decoder.read_info().map_err(header)?;
    let source_is_gray16 =
        reader.info().color_type == ColorType::Grayscale && reader.info().bit_depth == BitDepth::Sixteen;
    let mut raw = vec![0; reader.output_buffer_size().ok_or(Stage::Unsupported)?];
    let frame = reader.next_frame(&mut raw).map_err(|_| Stage::Data)?;
    raw.truncate(frame.buffer_size());
    let wide = frame.bit_depth == BitDepth::Sixteen;
    if source_is_gray16 {
        // Pillow ignores the transparent value of 16-bit gray
        let step = if frame.color_type == ColorType::GrayscaleAlpha { 4 } else { 2 };
        let value = |pixel: &[u8]| u16::from_be_bytes([pixel[0], pixel[1]]);
        return Ok(Samples::Gray16(raw.chunks_exact(step).map(value).collect()));
    }
    // 16-bit samples: the high byte, as Pillow has them
    let bytes = if wide { raw.into_iter().step_by(2).collect() } else { raw };
    match frame.color_type {
        ColorType::Rgb => Ok(Samples::Rgb(bytes)),
        ColorType::Rgba => Ok(Samples::Rgba(bytes)),
        ColorType::Grayscale => Ok(Samples::Rgb(bytes.into_iter().flat_map(|v| [v, v, v]).collect())),
        ColorType::GrayscaleAlpha => {
            Ok(Samples::Rgba(bytes.as_chunks::<2>().0.iter().flat_map(|[v, a]| [*v, *v, *v, *a]).collect()))
        }
        ColorType::Indexed => Err(Stage::Unsupported),
    }
}

/// The orientation of the eXIf chunk, wherever it is.
fn orientation(bytes: &[u8]) -> Orientation {
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some(([l3, l2, l1, l0, kind @ ..], body)) = rest.split_at_checked(8) {
        let length = u32::from_be_bytes([*l3, *l2, *l1, *l0]) as usize;
        let Some(data) = body.get(..length) else { break };
        if kind == b"eXIf" {
            return Orientation::from_exif_chunk(data).unwrap_or(Orientation::NoTransforms);
        }
        // behind the data: four bytes of checksum
        let Some(next) = body.get(length.saturating_add(4)..) else { break };
        rest = next;
    }
    Orientation::NoTransforms
}

fn broken(why: &str) -> MediaError {
    MediaError::Undecodable { format: FORMAT, why: why.chars().take(120).collect() }
}
