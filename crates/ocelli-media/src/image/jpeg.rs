//! JPEG, by libjpeg-turbo's code: islow transform and fancy upsampling, bit for bit what Pillow decodes.
//!
//! The library mends what is broken: it makes up the missing end of a truncated file. Pillow refuses
//! such a file, and so do we: an end marker must be there. Garbage inside the scan is taken by both.

use super::ImageLimits;
use super::finish::{Decoded, Samples};
use crate::MediaError;
use ::image::metadata::Orientation;
use mozjpeg::{ColorSpace, Decompress};
use std::panic::{AssertUnwindSafe, catch_unwind};

const FORMAT: &str = "JPEG";
/// Progressive files are decoded a scan at a time over all coefficients: a few kilobytes could ask for
/// hours. Encoders write about ten.
const MAX_SCANS: usize = 200;

/// What the markers before the first scan say.
struct Header {
    width: u32,
    height: u32,
    components: u8,
    orientation: Orientation,
    /// Where the first scan begins.
    scan: usize,
}

/// Width and height from the frame header.
pub(super) fn probe(bytes: &[u8]) -> Result<(u32, u32), MediaError> {
    header(bytes).map(|header| (header.width, header.height))
}

pub(super) fn decode(bytes: &[u8], limits: &ImageLimits) -> Result<Decoded, MediaError> {
    let header = header(bytes)?;
    limits.check(FORMAT, header.width.into(), header.height.into())?;
    let rest = bytes.get(header.scan..).unwrap_or_default();
    let pairs = || rest.windows(2);
    if !pairs().rev().any(|pair| pair == [0xff, 0xd9]) {
        return Err(broken("it is truncated"));
    }
    if pairs().filter(|pair| *pair == [0xff, 0xda]).count() > MAX_SCANS {
        return Err(broken(&format!("it has more than {MAX_SCANS} scans")));
    }
    // the library's errors unwind through it, by its wrapper's design, and end here
    let decoded = catch_unwind(AssertUnwindSafe(|| pixels(bytes, &header)));
    let pixels = decoded.unwrap_or_else(|payload| Err(std::io::Error::other(reason(payload.as_ref()))));
    let pixels = pixels.map_err(|why| broken(why.to_string().trim_start_matches("libjpeg fatal error: ")))?;
    let (width, height, orientation) = (header.width, header.height, header.orientation);
    Ok(Decoded { width, height, samples: Samples::Rgb(pixels), orientation, format: FORMAT })
}

fn pixels(bytes: &[u8], header: &Header) -> std::io::Result<Vec<u8>> {
    let decompress = Decompress::new_mem(bytes)?;
    if decompress.size() != (header.width as usize, header.height as usize) {
        return Err(std::io::Error::other("it has two frame headers"));
    }
    if header.components == 4 {
        let mut started = decompress.to_colorspace(ColorSpace::JCS_CMYK)?;
        let cmyk: Vec<[u8; 4]> = started.read_scanlines()?;
        return Ok(cmyk.into_iter().flat_map(inverted_cmyk_to_rgb).collect());
    }
    let mut started = decompress.rgb()?;
    let rgb: Vec<[u8; 3]> = started.read_scanlines()?;
    Ok(rgb.into_flattened())
}

/// Four components are inverted CMYK, as Adobe writes them and Pillow always assumes; then Pillow's
/// `cmyk2rgb` (libImaging/Convert.c) with its division by 255.
fn inverted_cmyk_to_rgb([c, m, y, k]: [u8; 4]) -> [u8; 3] {
    super::other::cmyk_to_rgb([255 - c, 255 - m, 255 - y, 255 - k])
}

fn broken(why: &str) -> MediaError {
    MediaError::Undecodable { format: FORMAT, why: why.chars().take(120).collect() }
}

fn reason(payload: &(dyn std::any::Any + Send)) -> String {
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "the decoder failed".to_owned())
}

/// Walks the markers up to the first scan.
fn header(bytes: &[u8]) -> Result<Header, MediaError> {
    let (mut at, mut frame, mut orientation) = (2usize, None, Orientation::NoTransforms);
    let short = || broken("its header is cut off");
    loop {
        let marker = *bytes.get(at..).and_then(|rest| rest.iter().find(|b| **b != 0xff)).ok_or_else(short)?;
        if bytes.get(at) != Some(&0xff) {
            return Err(broken("its header is garbled"));
        }
        while bytes.get(at) == Some(&0xff) {
            at += 1;
        }
        at += 1;
        if matches!(marker, 0x01 | 0xd0..=0xd8) {
            continue;
        }
        if marker == 0xd9 {
            return Err(broken("it holds no picture"));
        }
        let length = match bytes.get(at..at + 2) {
            Some([high, low]) => usize::from(*high) << 8 | usize::from(*low),
            _ => return Err(short()),
        };
        let segment = bytes.get(at + 2..at + length.max(2)).ok_or_else(short)?;
        match marker {
            // SOF0 to SOF15 without DHT, JPG and DAC
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => match segment {
                [_, h1, h0, w1, w0, components, ..] => {
                    let pair = |high: u8, low: u8| u32::from(high) << 8 | u32::from(low);
                    frame = Some((pair(*w1, *w0), pair(*h1, *h0), *components));
                }
                _ => return Err(short()),
            },
            0xe1 => {
                if let Some(exif) = segment.strip_prefix(b"Exif\0\0".as_slice()) {
                    orientation = Orientation::from_exif_chunk(exif).unwrap_or(orientation);
                }
            }
            0xda => {
                let (width, height, components) = frame.ok_or_else(|| broken("it has no frame header"))?;
                return Ok(Header { width, height, components, orientation, scan: at + length.max(2) });
            }
            _ => {}
        }
        at += length.max(2);
    }
}
