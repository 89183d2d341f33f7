//! Joins the patches of a merge group into one output row.

use super::norm::Norm;
use ocelli_engine::{Activation, EngineError, Epilogue, Linear, Ops, Tensor};

/// Weights of a merger: norm, `fc1`, GELU (erf), `fc2`.
pub(crate) struct Merger {
    pub norm: Norm,
    /// Whether the norm sees a whole group (`use_postshuffle_norm`) instead of each patch.
    pub norm_after_grouping: bool,
    /// Patches of a group.
    pub group: usize,
    /// `[group·dim, group·dim]`.
    pub fc1: Linear,
    /// `[out, group·dim]`.
    pub fc2: Linear,
}

impl Merger {
    /// `[n, dim]` → `[n/group, out]`.
    pub(crate) fn forward(&self, ops: &dyn Ops, x: &Tensor) -> Result<Tensor, EngineError> {
        let groups = x.rows() / self.group;
        let x = if self.norm_after_grouping {
            self.norm.forward(ops, &x.view_rows(groups)?)?
        } else {
            self.norm.forward(ops, x)?.view_rows(groups)?
        }; //                                                                       [n/group, group·dim]
        let x = ops.linear(&x, &self.fc1, Epilogue::Activation(Activation::GeluErf))?;
        ops.linear(&x, &self.fc2, Epilogue::None) //                                [n/group, out]
    }
}
