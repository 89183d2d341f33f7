//! Why an item cannot be had. Each variant knows whose fault it is and names the limit that applies;
//! messages hold no media and no query strings.

use ocelli_core::{Fault, Reason};
use thiserror::Error;

/// What can be wrong with an item, its address or its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MediaError {
    /// The string is no URL, path, `data:` URL or base64.
    #[error("{0}")]
    Source(String),
    /// Policy forbids the address.
    #[error("{0}")]
    Refused(String),
    /// The other side did not give it: name, connection, status, time-out.
    #[error("{0}")]
    Unreachable(String),
    /// More bytes than allowed.
    #[error("is larger than {limit_mib} MiB (--media-url-max-file-size-mb)")]
    TooManyBytes {
        /// The limit.
        limit_mib: u64,
    },
    /// More pixels than allowed, by its header.
    #[error("{format} declares {width}x{height} pixels; the limit is {limit} (--max-image-pixels)")]
    TooManyPixels {
        /// The container.
        format: &'static str,
        /// Declared width.
        width: u64,
        /// Declared height.
        height: u64,
        /// The limit, in pixels.
        limit: u64,
    },
    /// Not a picture of a known format, or none at all.
    #[error("is not a picture in a supported format ({0})")]
    NotAnImage(&'static str),
    /// A picture that cannot be decoded.
    #[error("{format} cannot be decoded: {why}")]
    Undecodable {
        /// The container.
        format: &'static str,
        /// The decoder's word.
        why: String,
    },
    /// The bytes do not have the digest that the client gave.
    #[error("content_hash is {given}, the bytes have {actual}")]
    HashMismatch {
        /// The client's.
        given: String,
        /// Ours.
        actual: String,
    },
    /// The digest is not `sha256:` and 64 hexadecimal digits.
    #[error("content_hash must be sha256: and 64 hexadecimal digits")]
    HashForm,
    /// The HTTP client could not be made.
    #[error("the client for media cannot be made: {0}")]
    Client(String),
}

impl MediaError {
    /// The reason in the catalogue.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Source(_) | Self::HashForm => Reason::BadRequest,
            Self::Refused(_) => Reason::MediaRefused,
            Self::Unreachable(_) => Reason::MediaUnreachable,
            Self::TooManyBytes { .. } | Self::TooManyPixels { .. } => Reason::MediaTooLarge,
            Self::NotAnImage(_) | Self::Undecodable { .. } => Reason::MediaUndecodable,
            Self::HashMismatch { .. } => Reason::HashMismatch,
            Self::Client(_) => Reason::Internal,
        }
    }
}

impl From<MediaError> for Fault {
    fn from(why: MediaError) -> Self {
        Fault::new(why.reason(), why.to_string())
    }
}
