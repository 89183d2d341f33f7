//! The two norms of these towers.

use ocelli_engine::{EngineError, Ops, Tensor};

/// Epsilon of every norm here: the constant in transformers' modelling code. `rms_norm_eps` of
/// `config.json` is the language model's.
const EPS: f32 = 1e-6;

/// Weights of a norm, each `[1, dim]`.
pub(crate) enum Norm {
    Layer { weight: Tensor, bias: Tensor },
    Rms { weight: Tensor },
}

impl Norm {
    /// `[n, dim]` → `[n, dim]`.
    pub(crate) fn forward(&self, ops: &dyn Ops, x: &Tensor) -> Result<Tensor, EngineError> {
        match self {
            Self::Layer { weight, bias } => ops.layer_norm(x, weight, bias, EPS),
            Self::Rms { weight } => ops.rms_norm(x, weight, EPS),
        }
    }
}
