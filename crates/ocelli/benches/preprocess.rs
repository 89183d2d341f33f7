//! JPEG bytes to patches on one thread, as the server does it. Prints JSON, milliseconds.
//!
//! `cargo bench -p ocelli --bench preprocess -- PICTURE.jpg…`

#![expect(clippy::expect_used, reason = "a bench has no input but its own")]

use ocelli_media::{ImageLimits, ReadingMode, decode_image};
use ocelli_models::Processor;
use ocelli_models::processors::{QwenImageProcessor, normalised};
use serde_json::{Map, json};
use std::time::Instant;

const RUNS: usize = 15;

fn main() {
    let config = json!({
        "min_pixels": 3136, "max_pixels": 12_845_056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
    });
    let processor = QwenImageProcessor::from_config(&config, None).expect("settings");
    let mut out = Map::new();
    for file in std::env::args().skip(1).filter(|arg| arg != "--bench") {
        let bytes = std::fs::read(&file).expect("a picture");
        let (mut decode, mut process, mut values, mut both) = (vec![], vec![], vec![], vec![]);
        for _ in 0..=RUNS {
            let began = Instant::now();
            let picture = decode_image(&bytes, &ImageLimits::default(), ReadingMode::AsViewed).expect("decodes");
            let decoded = Instant::now();
            let prepared = processor.image(&picture).expect("patches");
            let processed = Instant::now();
            // what the reference hands over, for comparison: float32, every frame twice
            std::hint::black_box(normalised(&prepared, processor.normalisation(), processor.temporal_patch_size()));
            let expanded = Instant::now();
            let ms = |from: Instant, to: Instant| (to - from).as_secs_f64() * 1e3;
            decode.push(ms(began, decoded));
            process.push(ms(decoded, processed));
            both.push(ms(began, processed));
            values.push(ms(began, expanded));
        }
        let median = |times: &mut Vec<f64>| {
            times.remove(0);
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        let line = json!({
            "decode_ms": median(&mut decode),
            "process_ms": median(&mut process),
            "both_ms": median(&mut both),
            "to_float32_ms": median(&mut values),
        });
        out.insert(file, line);
    }
    println!("{}", json!(out));
}
