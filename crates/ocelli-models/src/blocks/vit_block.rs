//! A layer of a vision transformer: attention and MLP, each on normalised input, each added to what it got.

use super::norm::Norm;
use ocelli_engine::{Activation, EngineError, Epilogue, Linear, Ops, Rope, Segments, Tensor};

/// Weights of a layer.
pub(crate) struct VitBlock {
    pub norm1: Norm,
    /// `[3·dim, dim]`: queries, keys, values, each by head.
    pub qkv: Linear,
    pub proj: Linear,
    pub heads: usize,
    pub norm2: Norm,
    pub mlp: Mlp,
}

/// What follows attention.
pub(crate) enum Mlp {
    /// `fc2(act(fc1(x)))`.
    Plain { fc1: Linear, act: Activation, fc2: Linear },
    /// `down(silu(gate(x))·up(x))`; `gate_up` is both projections, stacked.
    Gated { gate_up: Linear, down: Linear },
}

impl VitBlock {
    /// `[n, dim]` → `[n, dim]`; attention looks within `segments`.
    pub(crate) fn forward(
        &self,
        ops: &dyn Ops,
        x: &Tensor,
        rope: &Rope,
        segments: &Segments,
    ) -> Result<Tensor, EngineError> {
        let y = self.norm1.forward(ops, x)?; //                           [n, dim]
        let qkv = ops.linear(&y, &self.qkv, Epilogue::None)?; //          [n, 3·dim]
        let y = ops.attention(qkv, rope, segments, self.heads)?; //       [n, dim]
        let x = ops.linear(&y, &self.proj, Epilogue::Residual(x))?; //    [n, dim]
        let y = self.norm2.forward(ops, &x)?; //                          [n, dim]
        match &self.mlp {
            Mlp::Plain { fc1, act, fc2 } => {
                let y = ops.linear(&y, fc1, Epilogue::Activation(*act))?; // [n, mlp]
                ops.linear(&y, fc2, Epilogue::Residual(&x)) //            [n, dim]
            }
            Mlp::Gated { gate_up, down } => {
                let y = ops.swiglu(&y, gate_up)?; //                      [n, mlp]
                ops.linear(&y, down, Epilogue::Residual(&x)) //           [n, dim]
            }
        }
    }
}
