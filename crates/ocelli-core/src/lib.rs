//! The pure heart of Ocelli: names, arithmetic, faults, the lifecycle of a request and the decisions
//! about what runs next.
//!
//! What this room must not know: I/O, an async runtime, a clock (time comes in as an argument), a
//! device, a wire format. It holds no unsafe code. Everything here can be tested with a seed.
#![forbid(unsafe_code)]

pub mod fault;
pub mod grid;
pub mod ids;
pub mod lifecycle;
pub mod modality;
pub mod picture;
pub mod scheduler;
mod sync;

pub use fault::{Fault, Reason, Side};
pub use grid::GridThw;
pub use ids::{Destination, ItemIdx, ReqId};
pub use modality::Modality;
pub use picture::RgbImage;
