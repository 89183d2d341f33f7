//! Items one after another without padding: cumulative lengths, checked once.

use crate::EngineError;
use std::ops::Range;

/// Stretches of packed rows within which attention looks: `cu_seqlens` of the flash-attention
/// convention, starting at 0, ascending. Cheap to share; empty segments are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segments {
    bounds: Vec<usize>,
}

impl Segments {
    /// From cumulative lengths such as `[0, 4, 10]`. Empty segments are dropped.
    ///
    /// # Errors
    /// [`EngineError::Segments`] when they do not start at 0 or go back.
    pub fn from_bounds(bounds: &[usize]) -> Result<Self, EngineError> {
        if let Some(&first) = bounds.first()
            && first != 0
        {
            return Err(EngineError::Segments { index: 0, start: first, end: 0 });
        }
        for (index, pair) in bounds.windows(2).enumerate() {
            if pair[1] < pair[0] {
                return Err(EngineError::Segments { index, start: pair[0], end: pair[1] });
            }
        }
        let mut bounds = bounds.to_vec();
        bounds.dedup();
        Ok(Self { bounds })
    }

    /// From lengths such as `[4, 6]`. Empty segments are dropped.
    pub fn from_lengths(lengths: impl IntoIterator<Item = usize>) -> Self {
        let mut bounds = vec![0];
        let mut end = 0usize;
        for length in lengths.into_iter().filter(|&length| length > 0) {
            end += length;
            bounds.push(end);
        }
        Self { bounds }
    }

    /// Rows of all segments.
    pub fn rows(&self) -> usize {
        self.bounds.last().copied().unwrap_or(0)
    }

    /// How many segments.
    pub fn len(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows of the longest one.
    pub fn longest(&self) -> usize {
        self.iter().map(|rows| rows.len()).max().unwrap_or(0)
    }

    /// The rows of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.bounds.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// The cumulative lengths, the leading 0 included.
    pub fn bounds(&self) -> &[usize] {
        &self.bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_segments_are_left_out() {
        let from_bounds = Segments::from_bounds(&[0, 4, 4, 10]).unwrap();
        assert_eq!(from_bounds, Segments::from_lengths([4, 0, 6]));
        assert_eq!((from_bounds.rows(), from_bounds.len(), from_bounds.longest()), (10, 2, 6));
        assert!(Segments::from_bounds(&[]).unwrap().is_empty());
        assert!(Segments::from_lengths([]).is_empty());
    }

    #[test]
    fn bounds_that_go_back_are_refused() {
        for bad in [&[1, 2][..], &[0, 5, 3]] {
            assert!(matches!(Segments::from_bounds(bad), Err(EngineError::Segments { .. })), "{bad:?}");
        }
    }
}
