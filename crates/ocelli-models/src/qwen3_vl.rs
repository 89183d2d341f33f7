//! Qwen3-VL (arXiv 2511.21631) and its mixture-of-experts variant, whose tower is the same: learned positions resampled to the
//! picture's grid beside rotary ones, and deepstack: embeddings of inner layers behind the final ones. As transformers'
//! `modeling_qwen3_vl.py`, `Qwen3VLVisionModel`; columns as sglang's `qwen3_vl.py` joins them.

use crate::blocks::geometry::{frames, grids, places};
use crate::blocks::merger::Merger;
use crate::blocks::norm::Norm;
use crate::blocks::patch_embed::PatchEmbed;
use crate::blocks::pos_interp::position_taps;
use crate::blocks::rope2d::rope2d;
use crate::blocks::vit_block::{Mlp, VitBlock};
use crate::config::Config;
use crate::family::{Family, Shape};
use crate::load::Loader;
use crate::{ModelError, Prepared, Tower};
use ocelli_engine::{Activation, DType, EngineError, Ops, Tensor};

/// `vision_config` of a checkpoint.
struct Qwen3Vl {
    shape: Shape,
    depth: usize,
    dim: usize,
    mlp_dim: usize,
    heads: usize,
    head_dim: usize,
    act: Activation,
    out: usize,
    /// Side of the square of learned positions.
    side: usize,
    /// Layers whose output goes into a row beside the final one, ascending.
    deepstack: Vec<usize>,
}

/// Reads the configuration.
pub(crate) fn read(root: Config<'_>) -> Result<Box<dyn Family>, ModelError> {
    let vision = root.section("vision_config")?;
    let (dim, heads) = (vision.size("hidden_size")?, vision.size("num_heads")?);
    let head_dim = vision.head_dim("hidden_size", dim, heads)?;
    let (depth, out) = (vision.size("depth")?, vision.size("out_hidden_size")?);
    let deepstack = vision.layers("deepstack_visual_indexes", depth)?;
    let positions = vision.size("num_position_embeddings")?;
    let side = positions.isqrt();
    if side * side != positions {
        return Err(vision.bad("num_position_embeddings", format!("is {positions}, not a square")));
    }
    Ok(Box::new(Qwen3Vl {
        shape: Shape {
            dim: out * (1 + deepstack.len()),
            channels: vision.size_or("in_channels", 3)?,
            patch_size: vision.size_or("patch_size", 16)?,
            merge_size: vision.size_or("spatial_merge_size", 2)?,
            temporal_patch_size: vision.size_or("temporal_patch_size", 2)?,
        },
        depth,
        dim,
        mlp_dim: vision.size("intermediate_size")?,
        heads,
        head_dim,
        act: if vision.has("hidden_act") { vision.activation()? } else { Activation::GeluTanh },
        out,
        side,
        deepstack,
    }))
}

impl Family for Qwen3Vl {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn load(&self, loader: &Loader<'_>) -> Result<Box<dyn Tower>, ModelError> {
        let group = self.shape.merge_size * self.shape.merge_size;
        let deepstack = self.deepstack.iter().enumerate().map(|(at, &layer)| {
            let name = format!("deepstack_merger_list.{at}");
            let norm = loader.layer_norm(&format!("{name}.norm"), group * self.dim)?;
            Ok((layer, self.merger(loader, &name, norm, true)?))
        });
        Ok(Box::new(Qwen3VlTower {
            merge: self.shape.merge_size as u32,
            side: self.side as u32,
            head_dim: self.head_dim,
            dtype: loader.dtype,
            patch_embed: PatchEmbed::load(loader, "patch_embed.proj", self.dim, true)?,
            positions: loader.table("pos_embed.weight", self.side * self.side, self.dim)?,
            blocks: (0..self.depth).map(|layer| self.block(loader, layer)).collect::<Result<_, _>>()?,
            deepstack: deepstack.collect::<Result<_, ModelError>>()?,
            merger: self.merger(loader, "merger", loader.layer_norm("merger.norm", self.dim)?, false)?,
        }))
    }
}

impl Qwen3Vl {
    fn block(&self, loader: &Loader<'_>, layer: usize) -> Result<VitBlock, ModelError> {
        let at = |name: &str| format!("blocks.{layer}.{name}");
        Ok(VitBlock {
            norm1: loader.layer_norm(&at("norm1"), self.dim)?,
            qkv: loader.linear(&at("attn.qkv"), 3 * self.dim, self.dim)?,
            proj: loader.linear(&at("attn.proj"), self.dim, self.dim)?,
            heads: self.heads,
            norm2: loader.layer_norm(&at("norm2"), self.dim)?,
            mlp: Mlp::Plain {
                fc1: loader.linear(&at("mlp.linear_fc1"), self.mlp_dim, self.dim)?,
                act: self.act,
                fc2: loader.linear(&at("mlp.linear_fc2"), self.dim, self.mlp_dim)?,
            },
        })
    }

    fn merger(
        &self,
        loader: &Loader<'_>,
        name: &str,
        norm: Norm,
        norm_after_grouping: bool,
    ) -> Result<Merger, ModelError> {
        let group = self.shape.merge_size * self.shape.merge_size;
        let grouped = group * self.dim;
        let fc1 = loader.linear(&format!("{name}.linear_fc1"), grouped, grouped)?;
        let fc2 = loader.linear(&format!("{name}.linear_fc2"), self.out, grouped)?;
        Ok(Merger { norm, norm_after_grouping, group, fc1, fc2 })
    }
}

/// The loaded tower.
struct Qwen3VlTower {
    merge: u32,
    side: u32,
    head_dim: usize,
    dtype: DType,
    patch_embed: PatchEmbed,
    /// `[side², dim]`.
    positions: Tensor,
    blocks: Vec<VitBlock>,
    /// By layer, ascending.
    deepstack: Vec<(usize, Merger)>,
    merger: Merger,
}

impl Tower for Qwen3VlTower {
    fn forward(&self, ops: &dyn Ops, batch: &[&Prepared]) -> Result<Tensor, EngineError> {
        let grids = grids(batch, self.merge)?;
        let x = self.patch_embed.forward(ops, batch)?; //                      [n, dim]
        let places = places(&grids, self.merge);
        let taps = position_taps(&grids, &places, self.side);
        let mut x = ops.add_positions(x, &self.positions, &taps)?; //          [n, dim]
        let rope = rope2d(ops, &places, self.head_dim)?; //                    [n, head_dim/2] twice
        let frames = frames(&grids);
        let mut inner = Vec::with_capacity(self.deepstack.len());
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.forward(ops, &x, &rope, &frames)?; //                    [n, dim]
            if let Some((_, merger)) = self.deepstack.iter().find(|(of, _)| *of == layer) {
                inner.push(merger.forward(ops, &x)?); //                       [n/merge², out]
            }
        }
        let last = self.merger.forward(ops, &x)?; //                           [n/merge², out]
        let columns: Vec<&Tensor> = std::iter::once(&last).chain(&inner).collect();
        ops.concat_columns(&columns, self.dtype) //                            [n/merge², out·(1 + deepstack)]
    }
}
