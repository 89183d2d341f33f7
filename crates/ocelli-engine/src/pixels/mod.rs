//! 8-bit pixels on the CPU: resizing a picture and cutting it into patches, in one pass over memory.
//!
//! The numbers are those of ATen's `_upsample_bicubic2d_aa` for `uint8` (what torchvision's `resize` calls
//! with `antialias=True`): rows first, rounded and clipped to 8 bits, then columns; 16-bit weights.
//! It must not know models or files; sizes come in decided.
//!
//! | file | what |
//! | --- | --- |
//! | `axis` | which pixels weigh how much in which output pixel, along one side |
//! | `patches` | the driver: bands of rows through a ring, written as patches |
//! | `ring` | rows between the two passes |
//! | `runs` | where the bytes of an output row belong |
//! | `memory` | large buffers without a page fault every 4 KiB |
//! | `isa`, `portable`, `avx2` | the two inner loops, twice; equal to the bit; which one runs |

#[cfg(target_arch = "x86_64")]
mod avx2;
mod axis;
mod isa;
mod memory;
mod patches;
mod portable;
mod ring;
mod runs;

pub use patches::{PatchLayout, PixelError, RgbView, resize_to_patches};
