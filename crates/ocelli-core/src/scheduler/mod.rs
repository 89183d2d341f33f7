//! What runs next, and whether there is room: decisions without side effects.
//!
//! | file | what |
//! | --- | --- |
//! | [`queue`] | items that wait for a device, oldest first |
//! | [`batch`] | which of them share the next forward |
//! | [`admission`] | room in the system, given back by dropping |

pub mod admission;
pub mod batch;
pub mod queue;

pub use admission::{Admission, AdmissionLimits, InUse, Permit};
pub use batch::{BatchLimits, Work};
pub use queue::Queue;
