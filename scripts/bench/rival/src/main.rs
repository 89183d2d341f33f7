//! `llm-multimodal`'s Qwen2-VL processor from encoded pictures to patches, on one thread.
//!
//! `rival [--dump FOLDER] PICTURE...` prints milliseconds (best of 9) and, with `--dump`, writes the float32
//! `pixel_values` beside, to be compared with the reference's.

use llm_multimodal::encoder_inputs::EncoderDtype;
use llm_multimodal::vision::{PreProcessorConfig, VisionPreProcessor, processors::Qwen2VLProcessor};
use llm_multimodal::{Parallelism, configure_parallelism, jpeg_turbo};
use std::hint::black_box;
use std::time::Instant;

const RUNS: usize = 9;

fn best<T>(mut work: impl FnMut() -> T) -> (f64, T) {
    let mut result = work();
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        result = black_box(work());
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    (best, result)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    configure_parallelism(Parallelism::Inline).map_err(|mode| format!("runs with {mode:?}"))?;
    let config = PreProcessorConfig::from_json(
        r#"{"do_resize": true, "min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14,
            "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}"#,
    )?;
    let processor = Qwen2VLProcessor::from_preprocessor_config(&config);
    let mut files = std::env::args().skip(1).peekable();
    let dump = files.next_if(|arg| arg == "--dump").and_then(|_| files.next());
    for file in files {
        let data = std::fs::read(&file)?;
        // Its way: libjpeg-turbo where that is installed, else the `image` crate.
        let decode = || jpeg_turbo::decode_jpeg_rgb(&data).map_or_else(|| image::load_from_memory(&data), Ok);
        let (decode_ms, picture) = best(decode);
        let pictures = [image::DynamicImage::ImageRgb8(picture?.into_rgb8())];
        let (process_ms, inputs) = best(|| processor.preprocess(&pictures, &config));
        let inputs = inputs?;
        let (wire_ms, _) = best(|| processor.preprocess_wire(&pictures, &config, EncoderDtype::BFloat16));
        let turbo = jpeg_turbo::decode_jpeg_rgb(&data).is_some();
        println!(
            "{file}: decode {decode_ms:.2} ms (libjpeg-turbo: {turbo}), preprocess {process_ms:.2} ms (to bfloat16 {wire_ms:.2}), {:?}",
            inputs.encoder_input.shape()
        );
        if let Some(folder) = &dump {
            let name = std::path::Path::new(&file).file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes: Vec<u8> = inputs.encoder_input.flat_f32().iter().flat_map(|value| value.to_le_bytes()).collect();
            std::fs::write(format!("{folder}/{name}.f32"), bytes)?;
        }
    }
    Ok(())
}
