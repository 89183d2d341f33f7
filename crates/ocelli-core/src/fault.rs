//! A failure as a value: whose fault it is, which item, what to do. Made where the cause is understood;
//! turned into a status only by the outermost room.

use crate::ItemIdx;
use std::fmt;

/// Who has to change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The sender: the same request fails again.
    Client,
    /// This server or what it runs on.
    Server,
    /// Nobody is wrong; there is no room now. Worth another try.
    Overload,
}

/// The catalogue: each reason has one side and, in the outermost room, one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A field is missing, of a wrong type or out of range.
    BadRequest,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The checkpoint has no encoder for this modality.
    UnsupportedModality,
    /// The item could not be fetched: name, connection, status, time-out.
    MediaUnreachable,
    /// Policy forbids this source: scheme, domain, private address, path.
    MediaRefused,
    /// More bytes or pixels than the limit.
    MediaTooLarge,
    /// Empty, truncated, corrupt, or not what the modality says.
    MediaUndecodable,
    /// The bytes do not have the digest that the client gave.
    HashMismatch,
    /// The processor cannot take it (for example an aspect ratio beyond 200).
    Unprocessable,
    /// A request with this id is being served.
    DuplicateRequest,
    /// The id was released, or is being released.
    NotActive,
    /// No encode with this id began in time.
    UnknownRequest,
    /// Two registrations of one part disagree about how many destinations there are.
    InconsistentReceiveCount,
    /// The destination is not allowed.
    DestinationRefused,
    /// A limit on items, bytes or requests in the system is reached.
    Overloaded,
    /// The server is shutting down.
    Draining,
    /// Not everything was done within the request's time-out.
    EncodeTimeout,
    /// Not all destinations registered in time.
    RegistrationTimeout,
    /// At least one destination could not be served.
    DeliveryFailed,
    /// The device or its backend failed.
    Engine,
    /// The server is not ready yet.
    NotReady,
    /// A bug of ours.
    Internal,
    /// Nobody waits for the result any more.
    Cancelled,
}

impl Reason {
    /// Whose fault it is.
    pub fn side(self) -> Side {
        use Reason::*;
        match self {
            BadRequest
            | BodyTooLarge
            | UnsupportedModality
            | MediaUnreachable
            | MediaRefused
            | MediaTooLarge
            | MediaUndecodable
            | HashMismatch
            | Unprocessable
            | DuplicateRequest
            | NotActive
            | UnknownRequest
            | InconsistentReceiveCount
            | DestinationRefused
            | Cancelled => Side::Client,
            Overloaded | Draining | NotReady => Side::Overload,
            EncodeTimeout | RegistrationTimeout | DeliveryFailed | Engine | Internal => Side::Server,
        }
    }

    /// The word for logs and metrics, in snake case.
    pub fn as_str(self) -> &'static str {
        use Reason::*;
        match self {
            BadRequest => "bad_request",
            BodyTooLarge => "body_too_large",
            UnsupportedModality => "unsupported_modality",
            MediaUnreachable => "media_unreachable",
            MediaRefused => "media_refused",
            MediaTooLarge => "media_too_large",
            MediaUndecodable => "media_undecodable",
            HashMismatch => "hash_mismatch",
            Unprocessable => "unprocessable",
            DuplicateRequest => "duplicate_request",
            NotActive => "not_active",
            UnknownRequest => "unknown_request",
            InconsistentReceiveCount => "inconsistent_receive_count",
            DestinationRefused => "destination_refused",
            Overloaded => "overloaded",
            Draining => "draining",
            EncodeTimeout => "encode_timeout",
            RegistrationTimeout => "registration_timeout",
            DeliveryFailed => "delivery_failed",
            Engine => "engine",
            NotReady => "not_ready",
            Internal => "internal",
            Cancelled => "cancelled",
        }
    }
}

/// A failure that reaches the client. The message says what was wrong with what, and which limit
/// applies; it never holds media or whole URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub reason: Reason,
    /// The item that is to blame, when one is.
    pub item: Option<ItemIdx>,
    /// Lower case, no full stop.
    pub message: String,
}

impl Fault {
    /// A fault of no particular item.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, item: None, message: message.into() }
    }

    /// The same fault, blamed on an item.
    pub fn at(mut self, item: ItemIdx) -> Self {
        self.item = Some(item);
        self
    }

    /// Whose fault it is.
    pub fn side(&self) -> Side {
        self.reason.side()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.item {
            Some(item) => write!(f, "item {item}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Fault {}
