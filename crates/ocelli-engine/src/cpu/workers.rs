//! The threads that compute, and when they are worth waking.

use crate::EngineError;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Elements below which an elementwise operation stays on the calling thread: waking another one
/// costs some 10 µs, in which one core passes over about that many.
const INLINE_ELEMENTS: usize = 32 * 1024;
/// Multiplications below which a product stays on the calling thread; the kernels have the same limit.
const INLINE_PRODUCTS: usize = 2 << 20;
/// Pieces for each thread, so that a delayed thread does not hold up the others.
const PIECES_PER_THREAD: usize = 4;

/// A pool, or nothing where one thread does it all.
pub(crate) struct Workers {
    pool: Option<ThreadPool>,
    threads: usize,
}

impl Workers {
    pub(crate) fn new(threads: usize) -> Result<Self, EngineError> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            threads => threads,
        };
        if threads == 1 {
            return Ok(Self { pool: None, threads });
        }
        let builder = ThreadPoolBuilder::new().num_threads(threads).thread_name(|n| format!("ocelli-cpu-{n}"));
        let pool = builder.build().map_err(|why| EngineError::Threads { threads, why: why.to_string() })?;
        Ok(Self { pool: Some(pool), threads })
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `body`, which makes that many steps of a few cycles and spreads them itself, in the pool if that
    /// gains anything.
    pub(crate) fn run<R: Send>(&self, products: usize, body: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) if products >= INLINE_PRODUCTS => pool.install(body),
            _ => body(),
        }
    }

    /// `body(first_row, rows)` over pieces of `out`, whose rows have `cols` elements.
    pub(crate) fn for_rows<T: Send>(&self, out: &mut [T], cols: usize, body: impl Fn(usize, &mut [T]) + Sync) {
        if cols == 0 || out.is_empty() {
            return;
        }
        match &self.pool {
            Some(pool) if out.len() > INLINE_ELEMENTS => {
                let rows = (out.len() / cols).div_ceil(self.threads * PIECES_PER_THREAD).max(1);
                pool.install(|| {
                    out.par_chunks_mut(rows * cols).enumerate().for_each(|(piece, out)| body(piece * rows, out));
                });
            }
            _ => body(0, out),
        }
    }
}
