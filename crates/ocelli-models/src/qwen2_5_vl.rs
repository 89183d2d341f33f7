//! Qwen2.5-VL (arXiv 2502.13923): as Qwen2-VL, with RMS norms, gated MLPs, and attention within windows in
//! all but a few layers. As transformers' `modeling_qwen2_5_vl.py`, `Qwen2_5_VisionTransformerPretrainedModel`.

use crate::blocks::geometry::{frames, grids, places};
use crate::blocks::merger::Merger;
use crate::blocks::patch_embed::PatchEmbed;
use crate::blocks::rope2d::rope2d;
use crate::blocks::vit_block::{Mlp, VitBlock};
use crate::blocks::window::Windows;
use crate::config::Config;
use crate::family::{Family, Shape};
use crate::load::Loader;
use crate::{ModelError, Prepared, Tower};
use ocelli_engine::{DType, EngineError, Ops, Tensor};

/// `vision_config` of a checkpoint.
struct Qwen2_5Vl {
    shape: Shape,
    depth: usize,
    dim: usize,
    mlp_dim: usize,
    heads: usize,
    head_dim: usize,
    /// Side of a window in merge groups.
    window: u32,
    full_layers: Vec<usize>,
}

/// Reads the configuration.
pub(crate) fn read(root: Config<'_>) -> Result<Box<dyn Family>, ModelError> {
    let vision = root.section("vision_config")?;
    let (dim, heads) = (vision.size("hidden_size")?, vision.size("num_heads")?);
    let head_dim = vision.head_dim("hidden_size", dim, heads)?;
    if vision.has("hidden_act") && vision.text("hidden_act")? != "silu" {
        return Err(vision.bad("hidden_act", format!("is {}; silu is supported", vision.text("hidden_act")?)));
    }
    let shape = Shape {
        dim: vision.size("out_hidden_size")?,
        channels: vision.size_or("in_channels", 3)?,
        patch_size: vision.size_or("patch_size", 14)?,
        merge_size: vision.size_or("spatial_merge_size", 2)?,
        temporal_patch_size: vision.size_or("temporal_patch_size", 2)?,
    };
    let window_pixels = vision.size_or("window_size", 112)?;
    let window = window_pixels / shape.merge_size / shape.patch_size;
    if window == 0 {
        return Err(vision.bad("window_size", format!("is {window_pixels}, smaller than a merge group")));
    }
    let depth = vision.size("depth")?;
    let full_layers = vision.layers("fullatt_block_indexes", depth)?;
    let (mlp_dim, window) = (vision.size("intermediate_size")?, window as u32);
    Ok(Box::new(Qwen2_5Vl { shape, depth, dim, mlp_dim, heads, head_dim, window, full_layers }))
}

impl Family for Qwen2_5Vl {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn load(&self, loader: &Loader<'_>) -> Result<Box<dyn Tower>, ModelError> {
        let group = self.shape.merge_size * self.shape.merge_size;
        let grouped = group * self.dim;
        Ok(Box::new(Qwen2_5VlTower {
            merge: self.shape.merge_size as u32,
            window: self.window,
            full_layers: self.full_layers.clone(),
            head_dim: self.head_dim,
            dtype: loader.dtype,
            patch_embed: PatchEmbed::load(loader, "patch_embed.proj", self.dim, false)?,
            blocks: (0..self.depth).map(|layer| self.block(loader, layer)).collect::<Result<_, _>>()?,
            merger: Merger {
                norm: loader.rms_norm("merger.ln_q", self.dim)?,
                norm_after_grouping: false,
                group,
                fc1: loader.linear("merger.mlp.0", grouped, grouped)?,
                fc2: loader.linear("merger.mlp.2", self.shape.dim, grouped)?,
            },
        }))
    }
}

impl Qwen2_5Vl {
    fn block(&self, loader: &Loader<'_>, layer: usize) -> Result<VitBlock, ModelError> {
        let at = |name: &str| format!("blocks.{layer}.{name}");
        let (gate, up) = (at("mlp.gate_proj"), at("mlp.up_proj"));
        Ok(VitBlock {
            norm1: loader.rms_norm(&at("norm1"), self.dim)?,
            qkv: loader.linear(&at("attn.qkv"), 3 * self.dim, self.dim)?,
            proj: loader.linear(&at("attn.proj"), self.dim, self.dim)?,
            heads: self.heads,
            norm2: loader.rms_norm(&at("norm2"), self.dim)?,
            mlp: Mlp::Gated {
                gate_up: loader.swiglu(&gate, &up, self.mlp_dim, self.dim)?,
                down: loader.linear(&at("mlp.down_proj"), self.dim, self.mlp_dim)?,
            },
        })
    }
}

/// The loaded tower.
struct Qwen2_5VlTower {
    merge: u32,
    window: u32,
    full_layers: Vec<usize>,
    head_dim: usize,
    dtype: DType,
    patch_embed: PatchEmbed,
    blocks: Vec<VitBlock>,
    merger: Merger,
}

impl Tower for Qwen2_5VlTower {
    fn forward(&self, ops: &dyn Ops, batch: &[&Prepared]) -> Result<Tensor, EngineError> {
        let grids = grids(batch, self.merge)?;
        let x = self.patch_embed.forward(ops, batch)?; //                      [n, dim]
        let (n, group) = (x.rows(), (self.merge * self.merge) as usize);

        let windows = Windows::new(&grids, self.merge, self.window);
        let frames = frames(&grids);
        let places = windows.reorder(&places(&grids, self.merge), group);
        let rope = rope2d(ops, &places, self.head_dim)?; //                    [n, head_dim/2] twice
        let groups = x.view_rows(n / group)?; //                               [n/merge², merge²·dim]
        let mut x = ops.gather_rows(&groups, &windows.order)?.view_rows(n)?; // [n, dim], window by window
        for (layer, block) in self.blocks.iter().enumerate() {
            let segments = if self.full_layers.contains(&layer) { &frames } else { &windows.segments };
            x = block.forward(ops, &x, &rope, segments)?; //                   [n, dim]
        }
        let rows = self.merger.forward(ops, &x)?; //                           [n/merge², out]
        let rows = ops.gather_rows(&rows, &windows.back)?; //                  [n/merge², out], in order again
        ops.concat_columns(&[&rows], self.dtype)
    }
}
