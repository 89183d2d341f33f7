//! How much there may be of what.

use clap::Args;

/// Room.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitFlags {
    /// Largest request body in MiB; bodies carry base64 media, so some are large [default: 512]
    #[arg(long, value_name = "MIB")]
    pub max_request_body_mb: Option<u64>,
    /// Most items of one request [default: 512]
    #[arg(long, value_name = "N")]
    pub max_items_per_request: Option<usize>,
    /// Most requests in the system; more are answered 503 with Retry-After
    /// [default: 2048; environment: SGLANG_ENCODER_MAX_PENDING_REQUESTS]
    #[arg(long, value_name = "N")]
    pub max_pending_requests: Option<usize>,
    /// Most media in MiB that requests in the system carry; more are answered 503 [default: 4096]
    #[arg(long, value_name = "MIB")]
    pub max_pending_mb: Option<usize>,
    /// Items that are decoded and processed at a time
    /// [default: all cores; environment: SGLANG_ENCODER_PREPROC_WORKERS]
    #[arg(long, value_name = "N")]
    pub prepare_workers: Option<usize>,
}
