//! Where media may come from and how they are read.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// How pictures are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ImageReading {
    /// What a viewer shows: EXIF orientation applied, transparency on white, 16-bit gray scaled
    AsViewed,
    /// Exactly as the original reads them: none of these
    AsSglang,
}

/// Fetching and reading.
#[derive(Debug, Args)]
#[command(next_help_heading = "Media")]
pub struct MediaFlags {
    /// How pictures are read [default: as-viewed]
    #[arg(long, value_enum, value_name = "MODE")]
    pub image_reading: Option<ImageReading>,
    /// Host names that media may be fetched from, exactly; redirects too [default: any public]
    #[arg(long, value_name = "HOST", num_args = 1..)]
    pub allowed_media_domains: Vec<String>,
    /// Fetch from loopback, private and link-local addresses as well; off, since anybody who reaches the
    /// port could read internal services through this server
    #[arg(long)]
    pub allow_private_media_addresses: bool,
    /// Folder under which file:// URLs and absolute paths may be read [default: none may]
    #[arg(long, value_name = "DIR")]
    pub allowed_local_media_path: Option<PathBuf>,
    /// Largest fetched medium in MiB; 0: the fetcher's hard limit only [default: 64, the original's]
    #[arg(long, value_name = "MIB")]
    pub media_url_max_file_size_mb: Option<u64>,
    /// Time for one fetch in seconds [default: 3, the original's for images; environment: REQUEST_TIMEOUT]
    #[arg(long, value_name = "SECONDS")]
    pub media_timeout_s: Option<f64>,
    /// Most pixels of a picture, checked in its header [default: 178956970, Pillow's limit]
    #[arg(long, value_name = "PIXELS")]
    pub max_image_pixels: Option<u64>,
}
