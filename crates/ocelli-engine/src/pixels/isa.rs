//! Which of the inner loops this machine runs.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::portable;
use super::runs::Runs;
use std::mem::MaybeUninit;

/// Which of the two inner loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isa {
    Portable,
    /// Made only by [`Isa::detect`].
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// The fastest that this machine has.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return Self::Avx2;
        }
        Self::Portable
    }
}

/// One output row of one plane: the weighted sum of `rows`, written as runs of `patch` bytes.
pub(super) fn column(
    isa: Isa,
    rows: &[&[u8]],
    pairs: &[i32],
    precision: u32,
    patch: usize,
    runs: &Runs,
    out: &mut [MaybeUninit<u8>],
) {
    match (isa, patch) {
        // SAFETY: `Isa::Avx2` exists only where it was detected.
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, 14) => unsafe { avx2::column::<14>(rows, pairs, precision, runs, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, 16) => unsafe { avx2::column::<16>(rows, pairs, precision, runs, out) },
        _ => portable::column(rows, pairs, precision, patch, runs, out),
    }
}
