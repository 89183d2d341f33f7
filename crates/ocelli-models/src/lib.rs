//! What a checkpoint means.
//!
//! Knows operations, not devices; pixels, not files of pixels. It must not know requests, media
//! containers, HTTP or any backend of [`ocelli_engine::Ops`].
#![forbid(unsafe_code)]

pub mod family;
pub mod prepared;
pub mod processors;

pub use family::{Card, Processor, Tower};
pub use prepared::{Patches, Prepared};
