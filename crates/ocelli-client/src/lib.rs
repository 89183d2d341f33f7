//! The language server's side in Rust: asks an encode server, receives what it delivers, and makes load.
//! Used by the demo, tests and benches, and by whoever likes.
//!
//! What this room must not know: how Ocelli works inside. It speaks the wire protocol with any encoder.
//!
//! Invariants:
//! - nothing that came over the network is executed: the header is read by a parser of the few shapes
//!   that it may have, and everything else is refused;
//! - every wait has a limit that the caller gives.
#![forbid(unsafe_code)]

pub mod error;
pub mod exchange;
pub mod http;
pub mod load;
pub mod pickle;
pub mod receiver;

pub use error::ClientError;
pub use exchange::{Backend, encode_and_receive};
pub use http::{EncodeClient, EncodeRequest};
pub use load::{LoadOptions, LoadReport, Until};
pub use pickle::{Content, Dtype, Grids, Header, HeaderError};
pub use receiver::{Received, Receiver, Receivers};
