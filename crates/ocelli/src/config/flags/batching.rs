//! What shares a forward.

use clap::Args;

/// Forwards.
#[derive(Debug, Args)]
#[command(next_help_heading = "Batching")]
pub struct BatchingFlags {
    /// Most requests whose items share a forward; more use the device better and make small requests wait
    /// longer [default: 8, the original's; environment: SGLANG_ENCODER_MAX_BATCH_SIZE]
    #[arg(long, visible_alias = "encoder-max-batch-size", value_name = "N")]
    pub max_batch_size: Option<usize>,
    /// Most patches of a forward; bounds its memory; an item that alone is larger goes alone
    /// [default: 32768]
    #[arg(long, value_name = "PATCHES")]
    pub max_batch_patches: Option<usize>,
}
