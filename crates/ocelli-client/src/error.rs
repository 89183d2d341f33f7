//! What can go wrong between a client and an encode server.

use crate::HeaderError;
use std::time::Duration;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The server's address is not `http://host:port`.
    #[error("`{0}` is not http://host:port")]
    Url(String),
    /// No connection, or it broke.
    #[error("{what}: {why}")]
    Connection {
        /// What was being done.
        what: &'static str,
        /// What was answered.
        why: String,
    },
    /// The server answered with an error.
    #[error("status {code}: {message}")]
    Status {
        /// The HTTP status.
        code: u16,
        /// Its `message`, or the body's beginning.
        message: String,
    },
    /// The server delivered an error in place of rows.
    #[error("delivered error {}: {message}", .code.map_or_else(|| "without code".to_owned(), |c| c.to_string()))]
    Delivered {
        /// The status that the language server would pass on.
        code: Option<u16>,
        /// What it says.
        message: String,
    },
    /// The header frame is not one of the shapes that it may have.
    #[error("header frame: {0}")]
    Header(#[from] HeaderError),
    /// Not two frames with rows, or not one with an error.
    #[error("{0} frames where {1} were due")]
    Frames(usize, usize),
    /// The second frame is not as long as the header says.
    #[error("{actual} bytes of rows where the header says {expected}")]
    Length {
        /// Rows × columns × element size.
        expected: usize,
        /// What came.
        actual: usize,
    },
    /// Nothing came in time.
    #[error("nothing came within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
}

impl ClientError {
    pub(crate) fn connection(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Self {
        move |why| Self::Connection { what, why: why.to_string() }
    }
}
