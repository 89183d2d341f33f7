//! Hostile bytes to pixels.
//!
//! What this room must not know: a model, a request. Everything that comes in is hostile: addresses are
//! judged before and after names are resolved, sizes before memory is taken.
//!
//! | file | what |
//! | --- | --- |
//! | [`source`] | what an item may be: URL, `data:`, path, base64 |
//! | [`fetch`] | policy, resolver, HTTP, files |
//! | [`image`] | sniff, size from the header, decode; orientation and transparency |
//! | [`hash`], [`error`] | `content_hash`; what can be wrong |

pub mod error;
pub mod fetch;
pub mod hash;
pub mod image;
pub mod source;

pub use error::MediaError;
pub use fetch::{FetchPolicy, Fetcher};
pub use hash::verify_content_hash;
pub use image::{ImageLimits, ReadingMode, decode_image, probe_image};
pub use source::Source;
