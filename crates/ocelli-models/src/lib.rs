//! What a checkpoint means.
//!
//! Knows operations, not devices; pixels, not files of pixels. It must not know requests, media
//! containers, HTTP or any backend of [`ocelli_engine::Ops`].
#![forbid(unsafe_code)]

//!
//! | file | what |
//! | --- | --- |
//! | [`open()`] | from a directory to a card, a processor and, on a device, a tower |
//! | `registry` | which family implements an architecture, a line each |
//! | [`family`], [`prepared`] | what a server sees of any family; what passes from its processor to its tower |
//! | `qwen2_vl`, `qwen2_5_vl`, `qwen3_vl` | a family each: configuration, names of weights, forward |
//! | `blocks` | pieces that families share |
//! | [`processors`] | from pixels to packed input |

mod blocks;
mod config;
mod error;
pub mod family;
mod load;
mod open;
pub mod prepared;
pub mod processors;
mod qwen2_5_vl;
mod qwen2_vl;
mod qwen3_vl;
mod registry;

pub use error::ModelError;
pub use family::{Card, Processor, Tower};
pub use open::{OpenOptions, Opened, open};
pub use prepared::{Patches, Prepared};
