//! Qwen2-VL (arXiv 2409.12191): a ViT with 2D rotary positions at native resolution, each frame attending to itself,
//! 2×2 patches joined into a row. As transformers' `modeling_qwen2_vl.py`, `Qwen2VisionTransformerPretrainedModel`.

use crate::blocks::geometry::{frames, grids, places};
use crate::blocks::merger::Merger;
use crate::blocks::patch_embed::PatchEmbed;
use crate::blocks::rope2d::rope2d;
use crate::blocks::vit_block::{Mlp, VitBlock};
use crate::config::Config;
use crate::family::{Family, Shape};
use crate::load::Loader;
use crate::{ModelError, Prepared, Tower};
use ocelli_engine::{Activation, DType, EngineError, Ops, Tensor};

/// `vision_config` of a checkpoint.
struct Qwen2Vl {
    shape: Shape,
    depth: usize,
    dim: usize,
    mlp_dim: usize,
    heads: usize,
    head_dim: usize,
    act: Activation,
}

/// Reads the configuration.
pub(crate) fn read(root: Config<'_>) -> Result<Box<dyn Family>, ModelError> {
    let vision = root.section("vision_config")?;
    let (dim, heads) = (vision.size("embed_dim")?, vision.size("num_heads")?);
    let head_dim = vision.head_dim("embed_dim", dim, heads)?;
    Ok(Box::new(Qwen2Vl {
        shape: Shape {
            dim: vision.size("hidden_size")?,
            channels: vision.size_or("in_channels", 3)?,
            patch_size: vision.size_or("patch_size", 14)?,
            merge_size: vision.size_or("spatial_merge_size", 2)?,
            temporal_patch_size: vision.size_or("temporal_patch_size", 2)?,
        },
        depth: vision.size("depth")?,
        dim,
        mlp_dim: dim * vision.size_or("mlp_ratio", 4)?,
        heads,
        head_dim,
        act: if vision.has("hidden_act") { vision.activation()? } else { Activation::QuickGelu },
    }))
}

impl Family for Qwen2Vl {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn load(&self, loader: &Loader<'_>) -> Result<Box<dyn Tower>, ModelError> {
        let group = self.shape.merge_size * self.shape.merge_size;
        let grouped = group * self.dim;
        Ok(Box::new(Qwen2VlTower {
            merge: loader.pixels.shape.merge_size as u32,
            head_dim: self.head_dim,
            dtype: loader.dtype,
            patch_embed: PatchEmbed::load(loader, "patch_embed.proj", self.dim, false)?,
            blocks: (0..self.depth).map(|layer| self.block(loader, layer)).collect::<Result<_, _>>()?,
            merger: Merger {
                norm: loader.layer_norm("merger.ln_q", self.dim)?,
                norm_after_grouping: false,
                group,
                fc1: loader.linear("merger.mlp.0", grouped, grouped)?,
                fc2: loader.linear("merger.mlp.2", self.shape.dim, grouped)?,
            },
        }))
    }
}

impl Qwen2Vl {
    fn block(&self, loader: &Loader<'_>, layer: usize) -> Result<VitBlock, ModelError> {
        let at = |name: &str| format!("blocks.{layer}.{name}");
        Ok(VitBlock {
            norm1: loader.layer_norm(&at("norm1"), self.dim)?,
            qkv: loader.linear(&at("attn.qkv"), 3 * self.dim, self.dim)?,
            proj: loader.linear(&at("attn.proj"), self.dim, self.dim)?,
            heads: self.heads,
            norm2: loader.layer_norm(&at("norm2"), self.dim)?,
            mlp: Mlp::Plain {
                fc1: loader.linear(&at("mlp.fc1"), self.mlp_dim, self.dim)?,
                act: self.act,
                fc2: loader.linear(&at("mlp.fc2"), self.dim, self.mlp_dim)?,
            },
        })
    }
}

/// The loaded tower.
struct Qwen2VlTower {
    merge: u32,
    head_dim: usize,
    dtype: DType,
    patch_embed: PatchEmbed,
    blocks: Vec<VitBlock>,
    merger: Merger,
}

impl Tower for Qwen2VlTower {
    fn forward(&self, ops: &dyn Ops, batch: &[&Prepared]) -> Result<Tensor, EngineError> {
        let grids = grids(batch, self.merge)?;
        let mut x = self.patch_embed.forward(ops, batch)?; //                  [n, dim]
        let rope = rope2d(ops, &places(&grids, self.merge), self.head_dim)?; // [n, head_dim/2] twice
        let frames = frames(&grids);
        for block in &self.blocks {
            x = block.forward(ops, &x, &rope, &frames)?; //                    [n, dim]
        }
        let rows = self.merger.forward(ops, &x)?; //                           [n/merge², out]
        ops.concat_columns(&[&rows], self.dtype)
    }
}
