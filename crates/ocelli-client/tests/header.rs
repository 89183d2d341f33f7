//! The parser of header frames: recorded messages, our own, and hostile ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

use ocelli_client::pickle::read;
use ocelli_client::{Content, Dtype, Grids, Header, HeaderError};
use ocelli_core::{GridThw, Modality};
use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|file| file.extension().is_some_and(|e| e == "pickle"));
    assert!(!files.is_empty());
    files
}

fn recorded(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wire_samples").join(name)).unwrap()
}

fn all() -> Vec<Vec<u8>> {
    let paths = files("tests/wire_samples").into_iter().chain(files("crates/ocelli-delivery/tests/snapshots"));
    paths.map(|path| std::fs::read(path).unwrap()).collect()
}

fn header(id: &str, (part_idx, num_parts): (u32, u32), modality: Modality, content: Content) -> Header {
    Header { req_id: id.to_owned(), num_parts, part_idx, modality, content }
}

fn f32_rows(grids: Grids, rows: usize, columns: usize) -> Content {
    Content::Rows { grids, dtype: Dtype::F32, rows, columns, video_timestamps: None, second_per_grid_ts: None }
}

fn thw(t: u32, h: u32, w: u32) -> Grids {
    Grids::Thw(vec![GridThw::new(t, h, w)])
}

/// Right values: `pickletools.dis` of CPython over the recorded files.
#[test]
fn recorded_messages_are_read_as_python_reads_them() {
    let image = header(
        "189ea108edcd4dd8a38edbf6a13c5f75_local_part_0",
        (0, 2),
        Modality::Image,
        f32_rows(thw(1, 14, 20), 70, 192),
    );
    assert_eq!(read(&recorded("qwen3_vl.image.pickle")), Ok(image));

    let mut content = f32_rows(thw(3, 20, 22), 330, 192);
    if let Content::Rows { video_timestamps, .. } = &mut content {
        *video_timestamps = Some(vec![vec![0.25, 1.375, 2.5625]]);
    }
    let video = header("189ea108edcd4dd8a38edbf6a13c5f75_local_part_1", (1, 2), Modality::Video, content);
    assert_eq!(read(&recorded("qwen3_vl.video.pickle")), Ok(video));

    let mut content = f32_rows(thw(3, 22, 26), 429, 64);
    if let Content::Rows { second_per_grid_ts, .. } = &mut content {
        *second_per_grid_ts = Some(vec![1.0]);
    }
    let video = header("9732122de8f14f84925461f7502937e2_local_part_0", (0, 1), Modality::Video, content);
    assert_eq!(read(&recorded("qwen2_5_vl.video.pickle")), Ok(video));

    let content = f32_rows(Grids::Lengths(vec![320]), 42, 64);
    let audio = header("6aa5eaffa84e49f1b720563c4fc1de60_local_part_0", (0, 1), Modality::Audio, content);
    assert_eq!(read(&recorded("qwen3_omni.audio.pickle")), Ok(audio));

    let error = read(&recorded("error.pickle")).unwrap();
    assert_eq!(error.req_id, "abc8d2dc21d441caaac8e02e0d88cd2f_local_part_0");
    let Content::Error { message, code } = error.content else { panic!("not an error") };
    assert_eq!((&message[..22], code), ("Encoder preprocessing ", Some(400)));
}

#[test]
fn every_header_that_delivery_writes_is_read() {
    for path in files("crates/ocelli-delivery/tests/snapshots") {
        let read = read(&std::fs::read(&path).unwrap());
        let name = path.file_stem().unwrap().to_string_lossy();
        let right = match &read.as_ref().unwrap_or_else(|why| panic!("{name}: {why}")).content {
            Content::Error { .. } => name.starts_with("error"),
            Content::Rows { grids: Grids::Thw(grids), rows, columns, dtype, .. } => match &*name {
                "image_f32_two_items" => {
                    *grids == [GridThw::new(1, 14, 20), GridThw::new(1, 4, 6)]
                        && (*rows, *columns, *dtype) == (76, 192, Dtype::F32)
                }
                "image_hundred_items" => grids.len() == 100 && grids[99] == GridThw::new(1, 200, 70_100),
                "large_shape" => (*rows, *columns, *dtype) == (131_072, 1, Dtype::F16),
                _ => grids.len() == 1,
            },
            Content::Rows { .. } => false,
        };
        assert!(right, "{name}");
    }
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|w| w == from).expect("what is to be replaced");
    let mut bytes = bytes.to_vec();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

/// A row: what is wrong, the bytes, the refusal.
#[test]
fn what_is_not_a_header_is_refused_for_what_it_is() {
    let good = recorded("qwen3_vl.image.pickle");
    let change = |from: &[u8], to: &[u8]| replaced(&good, from, to);
    let trailing = [&good[..], b"N"].concat();
    let huge = vec![b'N'; (1 << 20) + 1];
    let table: Vec<(&str, Vec<u8>, HeaderError)> = vec![
        ("nothing", vec![], HeaderError::Truncated(0)),
        ("cut", good[..700].to_vec(), HeaderError::Truncated(696)),
        ("more behind it", trailing, HeaderError::Trailing(1)),
        ("too long", huge, HeaderError::TooLong { limit: 1 << 20, actual: (1 << 20) + 1 }),
        ("a shell", b"cos\nsystem\n(S'id'\ntR.".to_vec(), HeaderError::Opcode { opcode: b'c', at: 0 }),
        (
            "a shell in protocol 4",
            b"\x80\x04\x8c\x02os\x8c\x06system\x93.".to_vec(),
            HeaderError::Global("os.system".into()),
        ),
        (
            "a callable that the original allows",
            b"\x80\x04\x8c\x09functools\x8c\x07partial\x93.".to_vec(),
            HeaderError::Global("functools.partial".into()),
        ),
        ("a number", b"\x80\x04K\x01.".to_vec(), HeaderError::Class),
        ("an unknown opcode", b"\x80\x04\xff.".to_vec(), HeaderError::Opcode { opcode: 0xff, at: 2 }),
        ("a list of itself", b"\x80\x04]\x94h\x00a.".to_vec(), HeaderError::Class),
        ("an empty stack", b"\x80\x04.".to_vec(), HeaderError::Operand { opcode: b'.', at: 2 }),
        ("an unknown attribute", change(b"send_time", b"sand_time"), HeaderError::Attribute("sand_time".into())),
        ("a repeated attribute", change(b"send_time", b"error_msg"), HeaderError::Attribute("error_msg".into())),
        (
            "part_idx beyond num_parts",
            change(b"part_idx\x94K\x00", b"part_idx\x94K\x02"),
            HeaderError::Value("part_idx"),
        ),
        (
            "an unknown modality",
            change(b"K\x01\x85\x94R\x94\x8c\x09emb", b"K\x09\x85\x94R\x94\x8c\x09emb"),
            HeaderError::Value("modality"),
        ),
        (
            "another storage",
            change(b"LongStorage", b"LingStorage"),
            HeaderError::Tensor("its storage is not torch's legacy file"),
        ),
        (
            "a column-major grid",
            change(b"K\x03K\x01\x86\x94\x89", b"K\x01K\x01\x86\x94\x89"),
            HeaderError::Tensor("it is not a row-major tensor of one or two dimensions"),
        ),
        (
            "a grid beyond its storage",
            change(b"K\x00K\x01K\x03\x86", b"K\x01K\x01K\x03\x86"),
            HeaderError::Tensor("it reaches beyond its storage"),
        ),
    ];
    let wrong = table.into_iter().filter_map(|(what, bytes, refusal)| {
        let got = read(&bytes);
        (got != Err(refusal)).then_some((what, got))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), []);
}

/// Splitmix64: enough to be different each time and the same each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

#[test]
fn no_mutation_makes_it_panic() {
    const SEED: u64 = 3;
    println!("seed {SEED}");
    let (mut chance, seeds, mut refused) = (Chance(SEED), all(), 0);
    for _ in 0..100_000 {
        let mut bytes = seeds[chance.below(seeds.len())].clone();
        for _ in 0..=chance.below(4) {
            let at = chance.below(bytes.len());
            match chance.below(5) {
                0 => bytes[at] = chance.below(256) as u8,
                1 => bytes[at] ^= 1 << chance.below(8),
                2 => bytes.truncate(at + 1),
                3 => drop(bytes.remove(at)),
                _ => {
                    // a stretch of another message, anywhere
                    let other = &seeds[chance.below(seeds.len())];
                    let from = chance.below(other.len());
                    let to = (from + 1 + chance.below(64)).min(other.len());
                    drop(bytes.splice(at..at, other[from..to].iter().copied()));
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        refused += usize::from(read(&bytes).is_err());
    }
    assert!(refused > 50_000, "only {refused} were refused");
}

#[test]
fn a_list_that_is_referred_to_many_times_stays_small() {
    let good = recorded("qwen3_vl.video.pickle");
    let text = b"\x8c\x10video_timestamps\x94";
    let at = good.windows(text.len()).position(|w| w == text).unwrap() + text.len();
    let end = good.windows(3).position(|w| w == b"ea\x8c").unwrap() + 2;
    // one list of 1,000 numbers, and a list that has it 10,000 times
    let mut bomb = good[..at].to_vec();
    bomb.extend_from_slice(b"]\x94](");
    (0..1000).for_each(|_| bomb.extend_from_slice(b"G\0\0\0\0\0\0\0\0"));
    bomb.extend_from_slice(b"e\x94a(");
    (0..10_000).for_each(|_| bomb.extend_from_slice(b"h\x2e"));
    bomb.push(b'e');
    bomb.extend_from_slice(&good[end..]);
    assert_eq!(read(&bomb), Err(HeaderError::Value("video_timestamps")));
}
