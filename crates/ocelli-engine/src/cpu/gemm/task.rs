//! One product, and one task of it: the loops around the kernel.

use super::PackedMatrix;
use super::finish::{Finish, Out};
use super::kernel::{self, Isa, ROWS};
use super::packed::{F32Line, Line, PANEL, Panels};
use super::plan::{self, Plan};
use super::scratch::{Scratch, flat};
use rayon::prelude::*;
use std::cell::RefCell;
use std::ops::Range;

/// How many rows ahead memory is asked for while a block is copied: short rows far apart are beyond what the
/// hardware foresees.
const ROWS_AHEAD: usize = 4;

#[derive(Default)]
struct Memory {
    rows: Scratch,
    sums: Scratch,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// A product to be computed. Lengths have been checked.
pub(super) struct Product<'a> {
    pub(super) isa: Isa,
    /// `[rows, k]`.
    pub(super) x: &'a [f32],
    pub(super) rows: usize,
    pub(super) w: &'a PackedMatrix,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) finish: Finish<'a>,
    pub(super) out: Out<'a>,
}

impl Product<'_> {
    pub(super) fn run(&self) {
        let threads = if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 };
        let plan = Plan::new(self.rows, self.w.panel_count(), self.w.k(), threads);
        if threads == 1 || plan.tasks() == 1 {
            (0..plan.tasks()).for_each(|task| self.task(&plan, task));
        } else {
            (0..plan.tasks()).into_par_iter().with_max_len(1).for_each(|task| self.task(&plan, task));
        }
    }

    fn task(&self, plan: &Plan, task: usize) {
        let (rows, panels) = plan.task(task);
        MEMORY.with_borrow_mut(|memory| match self.w.panels() {
            Panels::F32(lines) => self.block(memory, lines, rows, panels),
            Panels::Bf16(lines) => self.block(memory, lines, rows, panels),
        });
    }

    /// `rows × panels` of the result.
    fn block<L: Line>(&self, memory: &mut Memory, lines: &[L], rows: Range<usize>, panels: Range<usize>) {
        let (k, depth) = (self.w.k(), plan::depth(self.w.k()));
        let strips = rows.len().div_ceil(ROWS);
        let sums = memory.sums.lines(panels.len() * strips * ROWS);
        for from in (0..k).step_by(depth) {
            let depth = depth.min(k - from);
            let stride = depth.next_multiple_of(PANEL);
            let x = memory.rows.values(rows.len() * stride);
            let row_of = |row: usize| &self.x[row * k + from..][..depth];
            for (copy, row) in x.chunks_exact_mut(stride).zip(rows.clone()) {
                kernel::prefetch(row_of((row + ROWS_AHEAD).min(rows.end - 1)));
                copy[..depth].copy_from_slice(row_of(row));
            }
            let mut tiles = sums.chunks_exact_mut(ROWS);
            for panel in panels.clone() {
                let lines_of = |panel: usize| &lines[panel * k + from..][..depth];
                let next = if panel + 1 < panels.end { lines_of(panel + 1) } else { &[] };
                let mut next = next.chunks(depth.div_ceil(strips));
                for ((strip, x), tile) in (0..strips).zip(x.chunks(ROWS * stride)).zip(&mut tiles) {
                    kernel::prefetch(next.next().unwrap_or_default());
                    kernel::prefetch(tile);
                    let height = ROWS.min(rows.len() - strip * ROWS);
                    let (c, first) = (flat(tile), from == 0);
                    kernel::accumulate(self.isa, height, x, stride, lines_of(panel), c, PANEL, first);
                    if from + depth == k {
                        self.store(&mut tile[..height], rows.start + strip * ROWS, panel);
                    }
                }
            }
        }
    }

    /// Finishes the sums of one tile.
    fn store(&self, tile: &mut [F32Line], row: usize, panel: usize) {
        let columns = self.w.columns(panel);
        // SAFETY: tiles of a product are disjoint, each is in one task and finished once there, and its
        // rows and columns are those of `out`.
        unsafe { self.out.finish(tile, row, &columns, self.bias, self.finish) }
    }
}
