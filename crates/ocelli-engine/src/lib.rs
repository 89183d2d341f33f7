//! Numbers on a device: tensors, checked weights, and the coarse operations that a model may call.
//!
//! What this room must not know: a request, a medium, a model. Shapes are `[rows, columns]`; items of
//! any lengths lie one after another in the rows ([`Segments`]), never padded.
//!
//! | file | what |
//! | --- | --- |
//! | [`ops`] | the trait of operations: all that a model may call |
//! | [`tensor`], [`dtype`], [`packed`] | values on a device, their element type, the stretches they consist of |
//! | [`weights`] | safetensors: mapped, checked, taken by name |
//! | [`cpu`] | the operations on the CPU, one file each; the oracle of every other backend |
//! | [`pixels`] | resizing and patchifying 8-bit pictures |

pub mod cpu;
pub mod dtype;
pub mod error;
pub mod ops;
pub mod packed;
pub mod pixels;
pub mod tensor;
pub mod weights;

pub use cpu::CpuOps;
pub use dtype::DType;
pub use error::EngineError;
pub use ops::{Activation, Epilogue, Linear, Ops, PixelScale, PositionTaps, Rope};
pub use packed::Segments;
pub use tensor::Tensor;
pub use weights::{WeightView, Weights};
