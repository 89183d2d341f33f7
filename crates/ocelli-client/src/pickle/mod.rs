//! Reads the header frame without trusting it. Pickle is a language that can call anything; this is a
//! parser for the few words of it that a header needs. It builds a tree and calls nothing, knows seven kinds
//! of global by name, and refuses whatever else there is.
//!
//! Invariants: no input makes it panic, recurse or take more than a small multiple of the input's size.

mod error;
mod header;
mod machine;
mod storage;
mod tensor;

pub use error::HeaderError;
pub use header::{Content, Dtype, Grids, Header, read};
