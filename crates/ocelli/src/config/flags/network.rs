//! Where the server listens.

use clap::Args;

/// HTTP.
#[derive(Debug, Args)]
#[command(next_help_heading = "Network")]
pub struct NetworkFlags {
    /// Address to listen on; 0.0.0.0 or :: for all [default: 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Port to listen on; 0 lets the system choose [default: 30000]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}
