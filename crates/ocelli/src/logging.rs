//! Logs on standard error, as text for people or JSON for collectors.

use crate::config::flags::{LogFormat, LoggingFlags};
use std::io::IsTerminal;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;

/// Sets the process's logger.
///
/// # Errors
/// A level that is none.
pub fn init(flags: &LoggingFlags) -> Result<(), String> {
    let level = level(&flags.log_level)?;
    let ansi = std::io::stderr().is_terminal();
    let builder = fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false).with_ansi(ansi);
    let set = match flags.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).try_init(),
    };
    // somebody else's logger is as good
    drop(set);
    Ok(())
}

/// sglang's words (`warning`, `critical`) and tracing's.
fn level(word: &str) -> Result<LevelFilter, String> {
    match word.to_ascii_lowercase().as_str() {
        "trace" => Ok(LevelFilter::TRACE),
        "debug" => Ok(LevelFilter::DEBUG),
        "info" => Ok(LevelFilter::INFO),
        "warn" | "warning" => Ok(LevelFilter::WARN),
        "error" | "critical" => Ok(LevelFilter::ERROR),
        other => Err(format!("--log-level {other}: expected trace, debug, info, warning or error")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_in_both_vocabularies() {
        assert_eq!(level("WARNING"), Ok(LevelFilter::WARN));
        assert_eq!(level("critical"), Ok(LevelFilter::ERROR));
        assert!(level("loud").is_err());
    }
}
