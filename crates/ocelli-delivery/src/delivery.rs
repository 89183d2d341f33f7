//! What every backend does, so that callers need not know which one is configured.

use crate::{DeliveryError, Message};
use ocelli_core::Destination;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// What is known of a message that has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendReport {
    /// Bytes of all frames.
    pub bytes: usize,
    /// From the call to the moment when the backend let go of the rows.
    pub waited: Duration,
}

/// The answer of [`Delivery::send`].
pub type SendFuture<'a> = Pin<Box<dyn Future<Output = Result<SendReport, DeliveryError>> + Send + 'a>>;

/// A way to get messages to destinations.
pub trait Delivery: Send + Sync {
    /// Sends one message to one destination and resolves when the backend no longer needs the rows: the
    /// kernel has them. That the peer has read them is not known.
    ///
    /// Dropping the future is safe at any point: a message that has not left yet is then skipped, one that
    /// is leaving goes on, and nothing else is disturbed.
    fn send<'a>(&'a self, to: &'a Destination, message: Message) -> SendFuture<'a>;
}
