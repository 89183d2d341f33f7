//! What may be typed, a file a topic. Each flag is defined once, with its help, default and where that
//! comes from.

mod batching;
mod compat;
mod delivery;
mod limits;
mod logging;
mod media;
mod model;
mod network;
mod timeouts;

pub use batching::BatchingFlags;
pub use compat::CompatFlags;
pub use delivery::DeliveryFlags;
pub use limits::LimitFlags;
pub use logging::{LogFormat, LoggingFlags};
pub use media::{ImageReading, MediaFlags};
pub use model::ModelFlags;
pub use network::NetworkFlags;
pub use timeouts::TimeoutFlags;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// The program.
#[derive(Debug, Parser)]
#[command(
    name = "ocelli",
    version,
    about = "The encode stage of multimodal language models, as a server",
    long_about = "Runs the vision tower of a checkpoint, turns images into embeddings and delivers them to the \
                  language servers that asked. Takes the place of `python -m sglang.launch_server --encoder-only`.",
    after_help = "Example:\n  ocelli serve --model-path /models/Qwen2.5-VL-7B-Instruct --host 0.0.0.0 --port 30000",
    max_term_width = 100
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a checkpoint until SIGTERM
    Serve(Box<ServeFlags>),
    /// Serve a small checkpoint, encode a photograph, check the rows, say where the time went
    Demo(DemoFlags),
}

/// Everything that `ocelli serve` takes.
#[derive(Debug, Args)]
pub struct ServeFlags {
    /// Checkpoint.
    #[command(flatten)]
    pub model: ModelFlags,
    /// HTTP.
    #[command(flatten)]
    pub network: NetworkFlags,
    /// Sending.
    #[command(flatten)]
    pub delivery: DeliveryFlags,
    /// Fetching and reading.
    #[command(flatten)]
    pub media: MediaFlags,
    /// Room.
    #[command(flatten)]
    pub limits: LimitFlags,
    /// Forwards.
    #[command(flatten)]
    pub batching: BatchingFlags,
    /// Patience.
    #[command(flatten)]
    pub timeouts: TimeoutFlags,
    /// Logs.
    #[command(flatten)]
    pub logging: LoggingFlags,
    /// The original's flags.
    #[command(flatten)]
    pub compat: CompatFlags,
    /// Print every setting with its source and exit
    #[arg(long, help_heading = "Help")]
    pub print_config: bool,
}

/// Everything that `ocelli demo` takes.
#[derive(Debug, Args)]
pub struct DemoFlags {
    /// Directory of a small checkpoint
    #[arg(long, value_name = "DIR", default_value = "tests/golden/checkpoints/qwen2_5_vl")]
    pub model_path: PathBuf,
    /// The photograph
    #[arg(long, value_name = "FILE", default_value = "demo/photo.jpg")]
    pub photo: PathBuf,
    /// Its right rows, computed by transformers: safetensors with `embeddings` and `grid_thw`
    #[arg(long, value_name = "FILE", default_value = "demo/photo.safetensors")]
    pub expect: PathBuf,
}
