//! Pieces that several families share, each as transformers' modelling code has it.
//!
//! They know shapes and operations; not the names of a family's tensors, nor a device.

pub(crate) mod geometry;
pub(crate) mod merger;
pub(crate) mod norm;
pub(crate) mod patch_embed;
pub(crate) mod pos_interp;
pub(crate) mod rope2d;
pub(crate) mod vit_block;
pub(crate) mod window;
