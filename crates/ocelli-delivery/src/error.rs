//! Why a message did not leave.

use ocelli_core::{Fault, Reason};
use std::time::Duration;

/// Why a message did not leave, or why the backend could not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// Neither connected nor taken within the send time-out.
    #[error("not taken within {} s (--send-timeout-ms)", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The connection broke, or was given up, while the message was with libzmq.
    #[error("the connection was lost before everything had left")]
    ConnectionLost,
    /// The host's name has no address.
    #[error("cannot resolve `{host}`: {why}")]
    Resolve {
        /// The name as registered.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// As many messages wait as may.
    #[error("{limit} messages wait already{}", if *.one_destination { " for this destination" } else { "" })]
    QueueFull {
        /// The limit that is reached.
        limit: usize,
        /// Whether it is the limit of one destination or of all.
        one_destination: bool,
    },
    /// As many destinations are being served as may.
    #[error("{0} destinations are being served already")]
    TooManyEndpoints(usize),
    /// Payload and header contradict each other: a bug of the caller.
    #[error("{rows} rows of {dim} columns are {expected} bytes, but {actual} are staged")]
    Shape {
        /// Rows as declared.
        rows: usize,
        /// Columns as declared.
        dim: usize,
        /// Bytes that rows, columns and element type make.
        expected: usize,
        /// Bytes that are staged.
        actual: usize,
    },
    /// The receiver fails on an embedding without rows.
    #[error("an embedding without rows cannot be delivered")]
    NoRows,
    /// The backend is closing or closed.
    #[error("delivery is closed")]
    Closed,
    /// The messaging library or the system refused.
    #[error("{what}: {why}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What was answered.
        why: String,
    },
}

impl DeliveryError {
    /// The reason in the catalogue.
    pub fn reason(&self) -> Reason {
        match self {
            Self::TimedOut(_) | Self::ConnectionLost | Self::Resolve { .. } => Reason::DeliveryFailed,
            Self::QueueFull { .. } | Self::TooManyEndpoints(_) => Reason::Overloaded,
            Self::Closed => Reason::Draining,
            Self::Shape { .. } | Self::NoRows | Self::System { .. } => Reason::Internal,
        }
    }
}

impl From<DeliveryError> for Fault {
    fn from(why: DeliveryError) -> Self {
        Fault::new(why.reason(), why.to_string())
    }
}
