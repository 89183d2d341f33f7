//! What was typed, and what it means: two types with one validation between them.
//!
//! Flags win over the original's environment variables, those over defaults. Nothing outside this room
//! reads flags or the environment; everything else gets plain values from [`Config`].

pub mod flags;
mod merge;
mod print;
mod source;

pub use flags::{Cli, Command, DemoFlags, ServeFlags};
pub use source::Source;

use clap::Parser;
use ipnet::IpNet;
use ocelli_engine::DType;
use ocelli_media::ReadingMode;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// How embeddings reach the language server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Every scheduler rank registers and gets a copy.
    ZmqToScheduler,
    /// The tokenizer process is named in the request and gets the copy.
    ZmqToTokenizer,
}

impl Backend {
    /// The original's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ZmqToScheduler => "zmq_to_scheduler",
            Self::ZmqToTokenizer => "zmq_to_tokenizer",
        }
    }
}

/// Settings of a server, validated. Sizes in bytes, times as durations.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the checkpoint.
    pub model_path: PathBuf,
    /// Name in `/model_info`; the directory by default.
    pub served_model_name: String,
    /// Element type of weights and rows; `None`: the checkpoint's.
    pub dtype: Option<DType>,
    /// Overrides of the image processor's settings.
    pub image_config: Option<serde_json::Value>,
    /// How pictures are read.
    pub image_reading: ReadingMode,
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0: the system chooses.
    pub port: u16,
    /// Delivery.
    pub backend: Backend,
    /// Networks that embeddings may be sent to; empty: any.
    pub allowed_destinations: Vec<IpNet>,
    /// Hosts that media may be fetched from; empty: any.
    pub allowed_media_domains: Vec<String>,
    /// Folder under which local files may be read; `None`: none may.
    pub allowed_local_media_path: Option<PathBuf>,
    /// Whether media may come from loopback and private addresses.
    pub allow_private_media_addresses: bool,
    /// Most bytes of one fetched medium; 0: only the hard limit of the fetcher.
    pub max_media_bytes: u64,
    /// Time for one fetch.
    pub media_timeout: Duration,
    /// Most pixels of one picture.
    pub max_image_pixels: u64,
    /// Most bytes of one request body.
    pub max_request_body_bytes: u64,
    /// Most items of one request.
    pub max_items_per_request: usize,
    /// Most requests in the system.
    pub max_pending_requests: usize,
    /// Most bytes of media that requests in the system carry.
    pub max_pending_bytes: usize,
    /// Most requests whose items share a forward.
    pub max_batch_requests: usize,
    /// Most patches of a forward; a larger item goes alone.
    pub max_batch_patches: usize,
    /// Threads of a forward.
    pub cpu_threads: usize,
    /// Items that are decoded and processed at a time.
    pub prepare_workers: usize,
    /// From admission to staged rows.
    pub encode_timeout: Duration,
    /// For destinations to register and for each send.
    pub send_timeout: Duration,
    /// How long work may wait without any batch ending before health is 503.
    pub health_stall: Duration,
    /// How long shutdown waits for what is in flight.
    pub drain_timeout: Duration,
    /// Flags that were given, are known to the original, and change nothing here.
    pub ignored: Vec<&'static str>,
    /// Every setting as text, and where it came from.
    pub origins: Vec<Origin>,
}

/// One line of `--print-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The flag, without dashes.
    pub flag: &'static str,
    /// Its value in force.
    pub value: String,
    /// Where that came from.
    pub source: Source,
}

/// Why a command line is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The parser's word; also `--help` and `--version`.
    #[error("{0}")]
    Parse(#[from] clap::Error),
    /// A value that makes no sense, or a feature that is not there.
    #[error("{0}")]
    Invalid(String),
}

impl Config {
    /// Reads the command line of `ocelli serve`, program name first. `environment` looks a variable up.
    ///
    /// # Errors
    /// One sentence on the first flag or variable that is wrong.
    pub fn from_command_line<I, T>(line: I, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError>
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        match Cli::try_parse_from(line)?.command {
            Command::Serve(flags) => Self::from_flags(&flags, environment),
            Command::Demo(_) => Err(ConfigError::Invalid("this is not the command line of `ocelli serve`".into())),
        }
    }

    /// What flags and variables mean.
    ///
    /// # Errors
    /// One sentence on the first that is wrong.
    pub fn from_flags(flags: &ServeFlags, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        merge::merge(flags, environment)
    }

    /// The same with the process's own environment.
    ///
    /// # Errors
    /// One sentence on the first that is wrong.
    pub fn from_process(flags: &ServeFlags) -> Result<Self, ConfigError> {
        Self::from_flags(flags, &|name| std::env::var(name).ok())
    }

    /// The settings in force as text, one a line, with their sources.
    pub fn print(&self) -> String {
        print::print(&self.origins)
    }
}
