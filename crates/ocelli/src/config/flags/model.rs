//! The checkpoint and how it is computed.

use clap::Args;
use std::path::PathBuf;

/// Which model, on which device, in which precision.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelFlags {
    /// Directory of the checkpoint: config.json, preprocessor_config.json, safetensors
    #[arg(long, visible_alias = "model", value_name = "DIR")]
    pub model_path: PathBuf,
    /// Name in /model_info [default: the directory]
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Option<String>,
    /// Device: auto, cpu (cuda is not in this version) [default: auto]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Element type of weights and rows: auto (the checkpoint's), float32, bfloat16 [default: auto]
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<String>,
    /// Threads of a forward; more make it faster and leave less for decoding [default: all cores]
    #[arg(long, value_name = "N")]
    pub cpu_threads: Option<usize>,
    /// Overrides of the processor's settings, over preprocessor_config.json:
    /// '{"vision_config":{"image":{"max_pixels":1003520}}}'
    #[arg(long, value_name = "JSON")]
    pub mm_process_config: Option<String>,
    /// Which of the reference's resizers is followed: auto, torchvision (pil is not in this version)
    /// [default: auto = torchvision, as the original]
    #[arg(long, value_name = "NAME")]
    pub image_processor_backend: Option<String>,
}
