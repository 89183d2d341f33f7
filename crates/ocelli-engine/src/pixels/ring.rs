//! The rows of a picture between the two passes.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::axis::Axis;
use super::isa::Isa;
use super::patches::RgbView;
use super::portable;

/// The last rows of the picture, resized along the row and split into planes.
pub(super) struct Ring<'a> {
    isa: Isa,
    picture: RgbView<'a>,
    across: &'a Axis,
    /// Bytes of a plane: the padded width and what the loops may read behind it.
    stride: usize,
    /// Row `y` is at `y % capacity`; the last one is for what nobody needs.
    rows: Vec<Vec<u8>>,
    capacity: usize,
    /// The first row not yet in the ring.
    next: usize,
    /// Bytes that the loop reads of a row of the picture.
    #[cfg(target_arch = "x86_64")]
    reach: usize,
    /// Copies of the picture's last rows, with room behind them.
    #[cfg(target_arch = "x86_64")]
    padded: [Vec<u8>; 2],
}

impl<'a> Ring<'a> {
    /// Bytes behind the last pixel of a plane.
    const SLACK: usize = 32;

    /// For bands that need up to `band` rows of the picture.
    pub(super) fn new(isa: Isa, picture: RgbView<'a>, across: &'a Axis, band: usize) -> Self {
        let stride = across.len.next_multiple_of(Axis::PAD) + Self::SLACK;
        // Rows are made two at a time, so one more than the band needs may be in.
        let capacity = (band + 1).max(2);
        let rows = vec![vec![0u8; 3 * stride]; capacity + 1];
        Self {
            isa,
            picture,
            across,
            stride,
            rows,
            capacity,
            next: 0,
            #[cfg(target_arch = "x86_64")]
            reach: avx2::reach(across),
            #[cfg(target_arch = "x86_64")]
            padded: [const { Vec::new() }; 2],
        }
    }

    /// Makes all rows before `end`.
    pub(super) fn fill_up_to(&mut self, end: usize) {
        while self.next < end {
            match self.isa {
                Isa::Portable => self.make_one(),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => self.make_two(),
            }
        }
    }

    fn make_one(&mut self) {
        let bytes = 3 * self.picture.width;
        let source = &self.picture.pixels[self.next * bytes..][..bytes];
        portable::row(source, self.across, &mut self.rows[self.next % self.capacity], self.stride);
        self.next += 1;
    }

    #[cfg(target_arch = "x86_64")]
    fn make_two(&mut self) {
        let (y, reach) = (self.next, self.reach);
        let second = (y + 1).min(self.picture.height - 1);
        let bytes = 3 * self.picture.width;
        let mut sources = [y, second].map(|y| &self.picture.pixels[y * bytes..]);
        for (source, padded) in sources.iter_mut().zip(&mut self.padded) {
            if source.len() < reach {
                padded.clear();
                padded.extend_from_slice(source);
                padded.resize(reach, 0);
                *source = padded;
            }
        }
        // At the picture's odd end the second row is made for nobody.
        let spare = if second == y { self.capacity } else { second % self.capacity };
        if let Ok([above, below]) = self.rows.get_disjoint_mut([y % self.capacity, spare]) {
            // SAFETY: `Isa::Avx2` exists only where it was detected; `reach` is that of the axis.
            unsafe { avx2::rows(sources, self.across, reach, [above, below], self.stride) };
        }
        self.next = second + 1;
    }

    /// One plane of a row that is in the ring, [`Ring::SLACK`] included.
    pub(super) fn plane(&self, y: usize, channel: usize) -> &[u8] {
        debug_assert!(y < self.next && y + self.capacity >= self.next, "row {y} is not in the ring");
        &self.rows[y % self.capacity][channel * self.stride..(channel + 1) * self.stride]
    }
}
