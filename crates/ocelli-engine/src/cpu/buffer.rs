//! Host memory of tensors, used again: a forward makes the same few sizes layer after layer, and
//! fresh pages cost more than the arithmetic of a small operation.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Buffers that are kept for the next operation; a forward has about six alive or freed at a time.
const KEPT_BUFFERS: usize = 8;
/// Largest buffer that is kept. 256 MiB holds the widest activation of 16,384 patches (2·3420 columns float32: 427 MiB)
/// no longer; such batches are rare enough to pay for their pages.
const KEPT_BUFFER_BYTES: usize = 256 << 20;
/// Bytes of all kept buffers.
const KEPT_BYTES: usize = 512 << 20;

/// Elements of a tensor in host memory.
pub(crate) enum CpuBuffer {
    /// Float32.
    F32(F32Buffer),
    /// Bits of bfloat16 or float16.
    Half(Vec<u16>),
}

impl CpuBuffer {
    /// Little-endian bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::F32(values) => values.iter().map(|value| value.to_le_bytes()).collect::<Vec<_>>().into_flattened(),
            Self::Half(bits) => bits.iter().map(|bits| bits.to_le_bytes()).collect::<Vec<_>>().into_flattened(),
        }
    }
}

/// Used buffers, a few of them.
#[derive(Default)]
pub(crate) struct Recycler {
    // a lock, because a tensor may be dropped by another thread than the one that computes
    kept: Mutex<Vec<Vec<f32>>>,
}

/// Float32 elements that go back to their recycler when dropped. A fresh one holds old values.
pub(crate) struct F32Buffer {
    values: Vec<f32>,
    used: usize,
    home: Arc<Recycler>,
}

impl F32Buffer {
    /// The smallest kept buffer that is large enough, else a new one.
    pub(crate) fn take(home: &Arc<Recycler>, len: usize) -> Self {
        let mut kept = home.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = kept.iter().enumerate().filter(|(_, values)| values.len() >= len);
        let best = fits.min_by_key(|(_, values)| values.len()).map(|(at, _)| at);
        let values = best.map(|at| kept.swap_remove(at));
        drop(kept);
        let values = values.unwrap_or_else(|| vec![0.0; len]);
        Self { values, used: len, home: home.clone() }
    }
}

impl Drop for F32Buffer {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        if values.is_empty() || values.len() * size_of::<f32>() > KEPT_BUFFER_BYTES {
            return;
        }
        let mut kept = self.home.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(values);
        let bytes = |kept: &[Vec<f32>]| kept.iter().map(|values| values.len() * size_of::<f32>()).sum::<usize>();
        while kept.len() > KEPT_BUFFERS || bytes(&kept) > KEPT_BYTES {
            // the smallest is the cheapest to make again
            let smallest = kept.iter().enumerate().min_by_key(|(_, values)| values.len()).map(|(at, _)| at);
            smallest.map(|at| kept.swap_remove(at));
        }
    }
}

impl Deref for F32Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[..self.used]
    }
}

impl DerefMut for F32Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again_and_the_store_is_bounded() {
        let home = Arc::new(Recycler::default());
        let first = F32Buffer::take(&home, 1000);
        let address = first.as_ptr();
        drop(first);
        let again = F32Buffer::take(&home, 500);
        assert_eq!((again.as_ptr(), again.len()), (address, 500));
        let many: Vec<_> = (0..100).map(|_| F32Buffer::take(&home, 10)).collect();
        drop(many);
        assert_eq!(home.kept.lock().unwrap().len(), KEPT_BUFFERS);
    }
}
