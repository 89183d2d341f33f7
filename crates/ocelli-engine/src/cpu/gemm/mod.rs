//! Matrix products `x·Wᵀ + b` with what follows them, `W` packed once when it is loaded.
//!
//! What this room must not know: tensors, layers, threads other than the pool it is called in.
//!
//! The loops are those of Goto and van de Geijn: a block of `x` stays in L2, a panel of `W` in L1, a
//! tile of 6 × 16 sums in registers. Partial sums of a block of `k` go to scratch memory in tile order;
//! the last block adds bias and epilogue while the tile is warm.
//!
//! Invariant: a row of the result depends on that row of `x` only. How `k` is cut depends on `k`
//! alone, and each element is one chain of additions a cut, so neither the rows of a batch nor the
//! number of threads changes a bit.
//!
//! | file | what |
//! | --- | --- |
//! | [`packed`] | the weight in panels, float32 or bfloat16 |
//! | [`plan`] | how a product is cut into blocks and tasks |
//! | [`task`] | one task: the loops around the kernel |
//! | [`finish`] | bias, activation, residual, SwiGLU; the store |
//! | [`kernel`] | the 6 × 16 tile: portable, and AVX2 with FMA |
//! | [`scratch`] | memory that a thread keeps for its tasks |

mod finish;
pub(in crate::cpu) mod kernel;
pub(in crate::cpu) mod packed;
mod plan;
pub(in crate::cpu) mod scratch;
mod task;

#[cfg(test)]
mod tests;

pub use finish::Epilogue;
pub use packed::PackedMatrix;

use finish::{Finish, Out};
use kernel::Isa;
use task::Product;

/// `epilogue(x·Wᵀ + b)`: `x` is `[m, k]`, `w` packed from `[n, k]`, `bias` `[n]`, `out` `[m, n]`.
///
/// Runs on the rayon pool that it is called in; a small product, or a call from outside any pool, runs
/// on the calling thread.
///
/// # Panics
/// The lengths do not fit each other.
pub fn gemm(x: &[f32], w: &PackedMatrix, bias: Option<&[f32]>, epilogue: Epilogue<'_>, out: &mut [f32]) {
    run(Isa::detect(), x, w, bias, epilogue.into(), out);
}

/// `silu(x·W₁ᵀ + b₁)·(x·W₂ᵀ + b₂)`: `w` is a pair `[W₁; W₂]` of `[n/2, k]` each, `bias` `[n]`, `out` `[m, n/2]`.
///
/// Runs where [`gemm`] does.
///
/// # Panics
/// The lengths do not fit each other, or `w` was not packed as a pair.
pub fn gemm_swiglu(x: &[f32], w: &PackedMatrix, bias: Option<&[f32]>, out: &mut [f32]) {
    assert!(w.is_pair(), "swiglu needs a weight packed as a pair");
    run(Isa::detect(), x, w, bias, Finish::SwiGlu, out);
}

fn run(isa: Isa, x: &[f32], w: &PackedMatrix, bias: Option<&[f32]>, finish: Finish<'_>, out: &mut [f32]) {
    let (n, k) = (w.n(), w.k());
    let columns = if matches!(finish, Finish::SwiGlu) { n / 2 } else { n };
    let rows = x.len() / k;
    assert_eq!(x.len(), rows * k, "x has no whole rows of {k}");
    assert_eq!(out.len(), rows * columns, "out is not [{rows}, {columns}]");
    assert!(bias.is_none_or(|bias| bias.len() == n), "bias is not [{n}]");
    if let Finish::Residual(residual) = finish {
        assert_eq!(residual.len(), out.len(), "the residual has another shape than the result");
    }
    if out.is_empty() {
        return;
    }
    Product { isa, x, rows, w, bias, finish, out: Out::new(out, columns) }.run();
}
