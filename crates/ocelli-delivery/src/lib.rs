//! Staged embeddings to other machines.
//!
//! What this room must not know: HTTP, a model, a device, when a request may be forgotten. It takes a
//! [`Message`] and a destination and answers when the message has left, or why it did not.
//!
//! Invariants:
//! - the rows are never copied here: every send holds one count on the [`Staged`] slice and the backend
//!   reads from it in place;
//! - a destination that is dead, slow or never reads delays no other one;
//! - messages to one destination leave in the order in which they were accepted;
//! - a message is handed over at most once: the receiver takes a repeat for an error, so there are no retries.

pub mod delivery;
pub mod error;
pub mod message;
pub mod pickle;
pub mod staged;
pub mod zmq;

pub use self::zmq::{ZmqDelivery, ZmqOptions, ZmqStats};
pub use delivery::{Delivery, SendFuture, SendReport};
pub use error::DeliveryError;
pub use message::{Embedding, Failure, Message, Part, WireDtype};
pub use staged::Staged;
