//! Logs, on standard error.

use clap::{Args, ValueEnum};

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One object a line
    Json,
}

/// Logs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub struct LoggingFlags {
    /// trace, debug, info, warning, error; one line a request at info [default: info]
    #[arg(long, value_name = "LEVEL", default_value = "info", hide_default_value = true)]
    pub log_level: String,
    /// text or json [default: text]
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text", hide_default_value = true)]
    pub log_format: LogFormat,
}
