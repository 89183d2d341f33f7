//! Pictures of common sizes to `Prepared`, decoding excluded, on one core: `cargo bench -p ocelli-models`.
//!
//! Prints the best and the median of a number of runs; compare with `scripts/bench/hf_preprocess.py`.

#![expect(clippy::expect_used, reason = "a bench has no input but its own")]

use ocelli_core::RgbImage;
use ocelli_models::Processor;
use ocelli_models::processors::QwenImageProcessor;
use serde_json::json;
use std::hint::black_box;
use std::time::{Duration, Instant};

const SIZES: [(u32, u32); 5] = [(512, 512), (1280, 960), (1920, 1080), (1275, 1650), (4000, 3000)];
const RUNS: usize = 21;

/// Smooth areas and edges; what the pixels are does not matter to the time.
fn picture(width: u32, height: u32) -> RgbImage {
    let pixels = (0..height)
        .flat_map(|y| (0..width).map(move |x| (x, y)))
        .flat_map(|(x, y)| {
            [(x * 255 / width) as u8, (y * 255 / height) as u8, if (x / 16 + y / 16) % 2 == 0 { 240 } else { 16 }]
        })
        .collect();
    RgbImage::new(width, height, pixels).expect("the size fits the pixels")
}

fn main() {
    let processors = [
        ("qwen2_5_vl", json!({"min_pixels": 3136, "max_pixels": 12845056})),
        (
            "qwen3_vl",
            json!({"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16, "image_mean": 0.5, "image_std": 0.5}),
        ),
    ];
    println!(
        "{:<12} {:>11} {:>13} {:>9} {:>9} {:>10}",
        "processor", "picture", "patches", "best ms", "median ms", "images/s"
    );
    for (name, config) in processors {
        let processor = QwenImageProcessor::from_config(&config, None).expect("a published configuration");
        for (width, height) in SIZES {
            let picture = picture(width, height);
            let mut times: Vec<Duration> = (0..RUNS)
                .map(|_| {
                    let start = Instant::now();
                    black_box(processor.image(black_box(&picture)).ok());
                    start.elapsed()
                })
                .collect();
            times.sort();
            let grid = processor.image_grid(width, height).expect("a usual size");
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            println!(
                "{name:<12} {:>11} {:>13} {:>9.2} {:>9.2} {:>10.0}",
                format!("{width}x{height}"),
                format!("{}x{}", grid.h, grid.w),
                ms(times[0]),
                ms(times[RUNS / 2]),
                1e3 / ms(times[RUNS / 2])
            );
        }
    }
}
