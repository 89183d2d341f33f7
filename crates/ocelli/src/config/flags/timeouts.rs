//! How long is waited for what. All in seconds.

use clap::Args;

/// Patience.
#[derive(Debug, Args)]
#[command(next_help_heading = "Time-outs")]
pub struct TimeoutFlags {
    /// From admission to rows; then 504 [default: 180; environment: SGLANG_ENCODER_REQ_TIMEOUT]
    #[arg(long, value_name = "SECONDS")]
    pub encode_timeout_s: Option<f64>,
    /// For all destinations to register, and for each send; then 504 or 502
    /// [default: 180; environment: SGLANG_ENCODER_SEND_TIMEOUT]
    #[arg(long, value_name = "SECONDS")]
    pub send_timeout_s: Option<f64>,
    /// How long work may wait without any forward ending before /health is 503; a forward that may take
    /// longer needs more [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub health_stall_s: Option<f64>,
    /// How long SIGTERM waits for what is in flight before failing it [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub drain_timeout: Option<f64>,
}
