//! What runs next, and whether there is room: decisions without side effects.
//!
//! | file | what |
//! | --- | --- |
//! | [`queue`] | items that wait for a device, oldest first, and what shares the next forward |
//! | [`admission`] | room in the system, given back by dropping |

pub mod admission;
pub mod queue;

pub use admission::{Admission, AdmissionLimits, InUse, Permit};
pub use queue::{BatchLimits, Queue, Work};
