//! What is done to the sums of a tile before they are stored.

use super::packed::{F32Line, HALF};
use crate::Activation;
use crate::cpu::activation::{self, swish};
use crate::cpu::simd::on_best_simd;
use std::marker::PhantomData;
use std::ops::Range;

/// What follows `x·Wᵀ + b`.
#[derive(Clone, Copy)]
pub enum Epilogue<'a> {
    /// Nothing.
    None,
    /// An activation function.
    Activation(Activation),
    /// The sum with `[m, n]`.
    Residual(&'a [f32]),
}

#[derive(Clone, Copy)]
pub(super) enum Finish<'a> {
    None,
    Activation(Activation),
    Residual(&'a [f32]),
    SwiGlu,
}

impl<'a> From<Epilogue<'a>> for Finish<'a> {
    fn from(epilogue: Epilogue<'a>) -> Self {
        match epilogue {
            Epilogue::None => Self::None,
            Epilogue::Activation(activation) => Self::Activation(activation),
            Epilogue::Residual(residual) => Self::Residual(residual),
        }
    }
}

/// The result, `[rows, columns]`, written by several tasks.
pub(super) struct Out<'a> {
    values: *mut f32,
    len: usize,
    columns: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for a `&mut [f32]`, which may go to other threads; `finish` makes its callers
// promise that no two of them touch the same elements.
unsafe impl Send for Out<'_> {}
// SAFETY: as above.
unsafe impl Sync for Out<'_> {}

impl<'a> Out<'a> {
    pub(super) fn new(values: &'a mut [f32], columns: usize) -> Self {
        Self { values: values.as_mut_ptr(), len: values.len(), columns, borrowed: PhantomData }
    }

    /// Adds the bias to `tile`, whose first row is row `row` of the product and whose half-panels are its
    /// `columns`, applies `finish` and stores the result.
    ///
    /// # Safety
    /// No other thread accesses these rows and columns of the result meanwhile.
    pub(super) unsafe fn finish(
        &self,
        tile: &mut [F32Line],
        row: usize,
        columns: &[Range<usize>; 2],
        bias: Option<&[f32]>,
        finish: Finish<'_>,
    ) {
        if let Some(bias) = bias {
            let mut line = F32Line([0.0; 2 * HALF]);
            for (columns, to) in columns.iter().zip(line.0.chunks_exact_mut(HALF)) {
                to[..columns.len()].copy_from_slice(&bias[columns.clone()]);
            }
            add_line(tile, &line);
        }
        let halves = match finish {
            Finish::SwiGlu => {
                gate(tile);
                &columns[..1]
            }
            Finish::Activation(activation) => {
                activation::apply(super::scratch::flat(tile), activation);
                &columns[..]
            }
            Finish::None | Finish::Residual(_) => &columns[..],
        };
        for (i, line) in tile.iter().enumerate() {
            for (columns, line) in halves.iter().zip(line.0.as_chunks::<HALF>().0) {
                let at = (row + i) * self.columns + columns.start;
                debug_assert!(columns.end <= self.columns && at + columns.len() <= self.len);
                // SAFETY: within the result, as asserted; nobody else has these elements, by this function's contract.
                let out = unsafe { std::slice::from_raw_parts_mut(self.values.add(at), columns.len()) };
                if let Finish::Residual(residual) = finish {
                    let residual = &residual[at..][..columns.len()];
                    for ((out, &sum), &add) in out.iter_mut().zip(line).zip(residual) {
                        *out = sum + add;
                    }
                } else if let Some(out) = out.first_chunk_mut::<HALF>() {
                    *out = *line;
                } else {
                    out.copy_from_slice(&line[..out.len()]);
                }
            }
        }
    }
}

#[inline(always)]
fn add_line_body(tile: &mut [F32Line], line: &F32Line) {
    for sums in tile {
        for (sum, add) in sums.0.iter_mut().zip(&line.0) {
            *sum += add;
        }
    }
}

/// The first half of each line becomes `silu(first)·second`.
#[inline(always)]
fn gate_body(tile: &mut [F32Line]) {
    for line in tile {
        let (gate, up) = line.0.split_at_mut(HALF);
        for (gate, &mut up) in gate.iter_mut().zip(up) {
            *gate = swish(*gate, 1.0) * up;
        }
    }
}

on_best_simd! { fn add_line = add_line_body(tile: &mut [F32Line], line: &F32Line) }
on_best_simd! { fn gate = gate_body(tile: &mut [F32Line]) }
