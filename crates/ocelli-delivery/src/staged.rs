//! Finished rows in host memory, shared without copying.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A slice of memory that somebody else owns: an engine's buffer, a cache entry, a vector. A clone is one
/// more count on the owner; the memory is given back when the last slice of it is gone.
#[derive(Clone)]
pub struct Staged {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Staged {
    /// All bytes of `owner`, which must give the same bytes each time.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let range = 0..owner.as_ref().len();
        Self { owner: Arc::new(owner), range }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.owner.as_ref().as_ref().get(self.range.clone()).unwrap_or_default()
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// A part of this slice; `range` counts from its start. Shares the memory.
    ///
    /// # Panics
    /// When `range` is not within the slice, as slicing does.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} is not within 0..{}", self.len());
        let start = self.range.start;
        Self { owner: self.owner.clone(), range: start + range.start..start + range.end }
    }

    /// All parts, one after another. Parts that lie so in one owner's memory, as the items of one batch do,
    /// are joined without copying; others are copied into a new buffer, once.
    pub fn join(parts: Vec<Staged>) -> Self {
        let mut rest = parts.iter();
        let Some(first) = rest.next() else { return Self::new(Vec::new()) };
        let mut whole = first.clone();
        if rest.all(|part| whole.extend_over(part)) {
            return whole;
        }
        let mut bytes = Vec::with_capacity(parts.iter().map(Staged::len).sum());
        parts.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        Self::new(bytes)
    }

    fn extend_over(&mut self, next: &Staged) -> bool {
        let adjacent = Arc::ptr_eq(&self.owner, &next.owner) && self.range.end == next.range.start;
        if adjacent {
            self.range.end = next.range.end;
        }
        adjacent
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staged({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_share_the_memory_of_their_owner() {
        let all = Staged::new((0..10u8).collect::<Vec<_>>());
        let middle = all.slice(2..8).slice(1..3);
        assert_eq!(middle.as_bytes(), [3, 4]);
        assert_eq!(middle.as_bytes().as_ptr(), all.as_bytes()[3..].as_ptr());
    }

    #[test]
    fn neighbours_are_joined_in_place_and_strangers_are_copied() {
        let all = Staged::new(vec![1u8, 2, 3, 4]);
        let joined = Staged::join(vec![all.slice(0..1), all.slice(1..3), all.slice(3..4)]);
        assert_eq!(joined.as_bytes(), [1, 2, 3, 4]);
        assert_eq!(joined.as_bytes().as_ptr(), all.as_bytes().as_ptr());

        let apart = Staged::join(vec![all.slice(2..4), all.slice(0..1), Staged::new(vec![9u8])]);
        assert_eq!(apart.as_bytes(), [3, 4, 1, 9]);
        assert!(Staged::join(Vec::new()).is_empty());
    }
}
