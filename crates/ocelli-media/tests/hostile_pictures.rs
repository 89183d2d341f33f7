//! Pictures that are cut off, flipped or lying about their size: an error or a picture, never a panic, and
//! never memory for what is only declared.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used)] // a test fails by panicking

use ocelli_core::{Fault, Reason};
use ocelli_media::{ImageLimits, MediaError, ReadingMode, decode_image, probe_image};
use std::path::{Path, PathBuf};

fn media() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/media")
}

fn medium(name: &str) -> Vec<u8> {
    std::fs::read(media().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn decode(bytes: &[u8]) -> Result<(u32, u32), MediaError> {
    let as_viewed = decode_image(bytes, &ImageLimits::default(), ReadingMode::AsViewed);
    decode_image(bytes, &ImageLimits::default(), ReadingMode::AsSglang)?;
    as_viewed.map(|picture| (picture.width(), picture.height()))
}

const ONE_OF_EACH: &[&str] = &[
    "jpeg_baseline_420.jpg",
    "jpeg_progressive_420.jpg",
    "jpeg_cmyk.jpg",
    "png_rgb.png",
    "png_interlaced.png",
    "png_palette_trns.png",
    "png_gray16.png",
    "webp_lossy.webp",
    "webp_lossless.webp",
    "webp_alpha.webp",
    "gif_interlaced.gif",
    "bmp_24.bmp",
    "tiff_lzw.tif",
    "tiff_cmyk.tif",
];

/// Q35.
#[test]
fn a_picture_that_is_cut_off_anywhere_is_the_clients_error() {
    for name in ONE_OF_EACH {
        let whole = medium(name);
        decode(&whole).unwrap_or_else(|e| panic!("{name}: {e}"));
        for part in 0..20 {
            let cut = &whole[..whole.len() * part / 20];
            // formats that are complete before their end may still decode; most must not
            if let Err(why) = decode(cut) {
                let fault = Fault::from(why);
                assert_eq!(fault.reason, Reason::MediaUndecodable, "{name} at {part}/20: {fault}");
                assert!(fault.message.len() < 250, "{name}: {fault}");
            } else {
                assert!(part >= 10, "{name}: a file cut at {part}/20 was taken");
            }
        }
    }
}

#[test]
fn flipped_bits_give_a_picture_or_an_error_and_never_a_panic() {
    let limits = ImageLimits { max_pixels: 4_000_000 };
    for name in ONE_OF_EACH {
        let whole = medium(name);
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        for _ in 0..60 {
            let mut bytes = whole.clone();
            for _ in 0..3 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let at = (seed % bytes.len() as u64) as usize;
                bytes[at] ^= 1 << (seed >> 60 & 7);
            }
            let _ = probe_image(&bytes);
            for mode in [ReadingMode::AsViewed, ReadingMode::AsSglang] {
                let _ = decode_image(&bytes, &limits, mode);
            }
        }
    }
}

/// Q38: a few kilobytes that declare gigabytes are refused by their header, with limit and flag.
#[test]
fn declared_sizes_are_judged_before_memory_is_taken() {
    for name in
        ["bad/bomb_header.jpg", "bad/bomb_header_60000.png", "bad/bomb_header_max.png", "bad/bomb_valid_14000.png"]
    {
        let why = decode(&medium(name)).expect_err(name);
        assert!(matches!(why, MediaError::TooManyPixels { .. }), "{name}: {why}");
        assert!(why.to_string().contains("the limit is 178956970 (--max-image-pixels)"), "{why}");
    }
    let small = ImageLimits { max_pixels: 100 };
    for name in ONE_OF_EACH {
        let why = decode_image(&medium(name), &small, ReadingMode::AsViewed).expect_err(name);
        assert!(matches!(why, MediaError::TooManyPixels { limit: 100, .. }), "{name}: {why}");
    }
}

#[test]
fn the_size_from_the_header_is_the_size_that_is_decoded() {
    for name in ONE_OF_EACH {
        let bytes = medium(name);
        let picture = decode_image(&bytes, &ImageLimits::default(), ReadingMode::AsSglang).unwrap();
        assert_eq!(probe_image(&bytes), Ok((picture.width(), picture.height())), "{name}");
    }
}

#[test]
fn what_is_no_picture_is_said_to_be_none() {
    for (bytes, word) in
        [(&b""[..], "empty"), (b"<html></html>", "supported format"), (b"\0\0\0\x20ftypheic", "supported format")]
    {
        let why = decode(bytes).expect_err("refused");
        assert!(matches!(why, MediaError::NotAnImage(_)) && why.to_string().contains(word), "{why}");
    }
}
