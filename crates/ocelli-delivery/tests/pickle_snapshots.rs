//! The header, byte for byte: against files kept here, and against messages recorded from the original.
//!
//! `OCELLI_WRITE_SNAPSHOTS=1` writes the files anew; what changed has then to be shown to the real receiver
//! (`scripts/check_pickle.py`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

use ocelli_core::{GridThw, Modality, ReqId};
use ocelli_delivery::{Embedding, Failure, Message, Part, Staged, WireDtype, pickle};
use std::path::{Path, PathBuf};

fn part(id: &str, modality: Modality, part_idx: u32, num_parts: u32) -> Part {
    Part { req_id: ReqId::new(id).unwrap(), num_parts, part_idx, modality }
}

fn rows(part: Part, grid: &[(u32, u32, u32)], dtype: WireDtype, rows: usize, dim: usize) -> Message {
    let grid = grid.iter().map(|&(t, h, w)| GridThw::new(t, h, w)).collect();
    let payload = Staged::new(vec![0u8; rows * dim * dtype.size()]);
    Message::Embedding(part, Embedding { grid, dtype, rows, dim, payload })
}

fn error(part: Part, message: &str, code: u16) -> Message {
    Message::Error(part, Failure { message: message.to_owned(), code })
}

fn in_repo(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Each names a case that takes another path through the writer.
fn cases() -> Vec<(&'static str, Message)> {
    let image = |id| part(id, Modality::Image, 0, 1);
    let many: Vec<(u32, u32, u32)> = (1..=100).map(|i| (1, 2 * i, 70_000 + i)).collect();
    vec![
        ("image_bf16", rows(image("req0_local_part_0"), &[(1, 4, 4)], WireDtype::BF16, 4, 8)),
        ("image_f16", rows(image("req0_local_part_0"), &[(1, 4, 4)], WireDtype::F16, 4, 8)),
        ("image_f32_two_items", rows(image("r"), &[(1, 14, 20), (1, 4, 6)], WireDtype::F32, 76, 192)),
        ("image_hundred_items", rows(image("r"), &many, WireDtype::BF16, 300, 2)),
        ("video", rows(part("r_local_part_1", Modality::Video, 1, 2), &[(3, 20, 22)], WireDtype::F32, 330, 192)),
        ("large_shape", rows(part("r", Modality::Image, 300, 70_000), &[(1, 512, 1024)], WireDtype::F16, 131_072, 1)),
        ("long_req_id", rows(image(&"x".repeat(300)), &[(1, 2, 2)], WireDtype::F32, 1, 1)),
        ("error_short", error(image("req0_local_part_0"), "Failed to process mm items: bad", 400)),
        ("error_long_unicode", error(image("é"), &"größe ☃ ".repeat(40), 503)),
        ("error_empty", error(image("r"), "", 200)),
    ]
}

#[test]
fn headers_are_those_of_the_snapshots() {
    for (name, message) in cases() {
        let path = in_repo("tests/snapshots").join(format!("{name}.pickle"));
        let bytes = pickle::encode(&message);
        if std::env::var_os("OCELLI_WRITE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        let kept = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        assert!(kept == bytes, "{name} differs from its snapshot");
    }
}

/// Every occurrence of the recorded storage key (an address) becomes ours, which is as long.
fn with_our_key(mut recorded: Vec<u8>) -> Vec<u8> {
    let before = b"q\x01X\x0f\x00\x00\x00";
    let at = recorded.windows(before.len()).position(|w| w == before).expect("a key of 15 characters") + before.len();
    let theirs = recorded[at..at + 15].to_vec();
    while let Some(at) = recorded.windows(15).position(|w| w == theirs) {
        recorded[at..at + 15].copy_from_slice(b"ocelli_storage0");
    }
    recorded
}

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(in_repo("../../tests/wire_samples").join(name)).unwrap()
}

#[test]
fn an_image_is_byte_for_byte_what_the_original_sends() {
    let part = part("189ea108edcd4dd8a38edbf6a13c5f75_local_part_0", Modality::Image, 0, 2);
    let ours = pickle::encode(&rows(part, &[(1, 14, 20)], WireDtype::F32, 70, 192));
    assert!(ours == with_our_key(recorded("qwen3_vl.image.pickle")));
}

#[test]
fn an_error_is_byte_for_byte_what_the_original_sends() {
    let theirs = recorded("error.pickle");
    let text = String::from_utf8_lossy(&theirs);
    let message = &text[text.find("Encoder preprocessing").unwrap()..];
    let message = &message[..message.find("0x7eff4a7b7b00>").unwrap() + "0x7eff4a7b7b00>".len()];
    let part = part("abc8d2dc21d441caaac8e02e0d88cd2f_local_part_0", Modality::Image, 0, 1);
    assert!(pickle::encode(&error(part, message, 400)) == theirs);
}

#[test]
fn a_payload_that_contradicts_its_header_is_refused() {
    let Message::Embedding(part, good) = rows(part("r", Modality::Image, 0, 1), &[(1, 4, 4)], WireDtype::BF16, 4, 8)
    else {
        unreachable!()
    };
    let with = |change: fn(&mut Embedding)| {
        let mut embedding = good.clone();
        change(&mut embedding);
        Message::Embedding(part.clone(), embedding).check().map_err(|why| why.to_string())
    };
    assert_eq!(with(|_| ()), Ok(()));
    let refused = with(|e| e.payload = e.payload.slice(0..63));
    assert_eq!(refused, Err("4 rows of 8 columns are 64 bytes, but 63 are staged".to_owned()));
    assert!(with(|e| e.rows = usize::MAX).is_err());
    let none = with(|e| (e.rows, e.payload) = (0, e.payload.slice(0..0)));
    assert_eq!(none, Err("an embedding without rows cannot be delivered".to_owned()));
}
