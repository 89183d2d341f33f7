//! From a picture to patches: rows resized two at a time into a ring of planar rows, columns resized from
//! the ring straight into the patches they belong to. No resized picture exists in between.

#[cfg(target_arch = "x86_64")]
use super::axis::Axis;
use super::isa::{Isa, column};
use super::memory;
use super::ring::Ring;
use super::runs::Runs;

/// An interleaved 8-bit RGB picture, row-major without padding.
#[derive(Debug, Clone, Copy)]
pub struct RgbView<'a> {
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// `height·width·3` bytes.
    pub pixels: &'a [u8],
}

/// How a picture is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatchLayout {
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Side of a merge group in patches. The patches of a group follow one another.
    pub merge: usize,
}

/// What these functions cannot take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PixelError {
    /// The bytes are not those of a picture of that size.
    #[error("{width}x{height} pixels need {} bytes, got {got}", width.saturating_mul(*height).saturating_mul(3))]
    Source {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// Bytes there are.
        got: usize,
    },
    /// The output does not divide into whole merge groups.
    #[error("{width}x{height} pixels do not divide into groups of {group}x{group}")]
    Layout {
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
        /// Side of a merge group in pixels.
        group: usize,
    },
    /// More than fits the address space, or than there is memory for.
    #[error("a side or an area is beyond what can be addressed or allocated")]
    TooLarge,
}

/// Resizes to `width`×`height` pixels (bicubic, antialiased, as ATen for `uint8`) and cuts into patches.
///
/// The result is `[patches, 3·patch·patch]` bytes: patches in the order (group row, group column, row in
/// the group, column in the group), bytes of a patch in the order (channel, row, column).
///
/// # Errors
/// A picture whose bytes do not fit its size; an output size that does not divide into merge groups.
pub fn resize_to_patches(
    picture: RgbView<'_>,
    width: usize,
    height: usize,
    layout: PatchLayout,
) -> Result<Vec<u8>, PixelError> {
    resize_with(Isa::detect(), picture, width, height, layout)
}

fn resize_with(
    isa: Isa,
    picture: RgbView<'_>,
    width: usize,
    height: usize,
    layout: PatchLayout,
) -> Result<Vec<u8>, PixelError> {
    let PatchLayout { patch, merge } = layout;
    let area = picture.width.checked_mul(picture.height).and_then(|area| area.checked_mul(3));
    if area != Some(picture.pixels.len()) || picture.pixels.is_empty() {
        let RgbView { width, height, pixels } = picture;
        return Err(PixelError::Source { width, height, got: pixels.len() });
    }
    let group = patch.checked_mul(merge).ok_or(PixelError::TooLarge)?;
    if group == 0 || width == 0 || height == 0 || !width.is_multiple_of(group) || !height.is_multiple_of(group) {
        return Err(PixelError::Layout { width, height, group });
    }
    if [picture.width, picture.height, width, height].iter().any(|&side| side > i32::MAX as usize) {
        return Err(PixelError::TooLarge);
    }
    let bytes = width.checked_mul(height).and_then(|area| area.checked_mul(3)).ok_or(PixelError::TooLarge)?;

    let across = Axis::bicubic(picture.width, width);
    let down = Axis::bicubic(picture.height, height);
    let mut ring = Ring::new(isa, picture, &across, most_rows_of_a_band(&down, patch));
    let mut out = memory::for_bytes(bytes).map_err(|_| PixelError::TooLarge)?;
    let room = &mut out.spare_capacity_mut()[..bytes];
    let plane = patch * patch;
    let mut runs = Runs::new(width / patch, layout);
    let mut taps: Vec<&[u8]> = Vec::with_capacity(down.taps);

    for band in 0..height / patch {
        runs.of_band(band);
        ring.fill_up_to(down.ends[(band + 1) * patch - 1] as usize);
        for y in 0..patch {
            let row = band * patch + y;
            for channel in 0..3 {
                // The slices borrow the ring only for this row, hence a new vector in the old memory.
                let mut rows = recycle(taps);
                rows.extend((down.starts[row]..down.ends[row]).map(|from| ring.plane(from as usize, channel)));
                let room = &mut room[channel * plane + y * patch..];
                column(isa, &rows, down.pairs_of(row), down.precision, patch, &runs, room);
                taps = recycle(rows);
            }
        }
    }
    // SAFETY: the loops have written every byte: each band × row × channel wrote `patch` bytes of each of
    // its patches, and the bands' places are a permutation of all patches.
    unsafe { out.set_len(bytes) };
    Ok(out)
}

/// An empty vector with the memory of another whose slices may live shorter.
fn recycle<'a>(mut rows: Vec<&[u8]>) -> Vec<&'a [u8]> {
    rows.clear();
    rows.into_iter().map(|_| -> &'a [u8] { &[] }).collect()
}

/// The most rows between the first that a band of `patch` output rows needs and the last.
fn most_rows_of_a_band(down: &Axis, patch: usize) -> usize {
    let bands = (0..down.len).step_by(patch);
    bands.map(|y| (down.ends[y + patch - 1] - down.starts[y]) as usize).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(width: usize, height: usize) -> Vec<u8> {
        let mut state = (width * 7919 + height) as u32 | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            // Hard edges, so that overshoots are clipped.
            if state & 3 == 0 { (state >> 8) as u8 } else { ((state >> 4 & 1) * 255) as u8 }
        };
        (0..width * height * 3).map(|_| next()).collect()
    }

    /// The definition, without a ring: every row, then every column, then the cut.
    fn plainly(src: RgbView<'_>, width: usize, height: usize, layout: PatchLayout) -> Vec<u8> {
        let convolve = |axis: &Axis, i: usize, at: &dyn Fn(usize) -> u8| {
            let mut sum = 1i64 << axis.precision >> 1;
            for (tap, from) in (axis.starts[i]..axis.ends[i]).enumerate() {
                let (low, high) = Axis::split(axis.pairs_of(i)[tap / 2]);
                sum += i64::from(at(from as usize)) * i64::from(if tap % 2 == 0 { low } else { high });
            }
            (sum >> axis.precision).clamp(0, 255) as u8
        };
        let (across, down) = (Axis::bicubic(src.width, width), Axis::bicubic(src.height, height));
        let mut between = vec![0u8; width * src.height * 3];
        for (i, to) in between.iter_mut().enumerate() {
            let (y, x, c) = (i / 3 / width, i / 3 % width, i % 3);
            *to = convolve(&across, x, &|from| src.pixels[(y * src.width + from) * 3 + c]);
        }
        let (p, m) = (layout.patch, layout.merge);
        let mut out = Vec::new();
        for group in 0..(width / p / m) * (height / p / m) {
            for inside in 0..m * m {
                let column = group % (width / p / m) * m + inside % m;
                let row = group / (width / p / m) * m + inside / m;
                for (c, i) in (0..3).flat_map(|c| (0..p * p).map(move |i| (c, i))) {
                    let (x, y) = (column * p + i % p, row * p + i / p);
                    out.push(convolve(&down, y, &|from| between[(from * width + x) * 3 + c]));
                }
            }
        }
        out
    }

    #[test]
    fn every_loop_gives_the_bytes_of_the_definition() {
        let sizes = [
            (1, 1, 56, 56),
            (1, 31, 28, 336),
            (3, 2, 56, 28),
            (28, 28, 28, 28),
            (29, 28, 28, 28),
            (28, 41, 28, 28),
            (57, 83, 56, 84),
            (90, 61, 28, 56),
            (64, 31, 112, 84),
            (300, 7, 28, 28),
            (7, 301, 56, 56),
            (131, 130, 140, 112),
        ];
        for (w, h, out_w, out_h) in sizes {
            let pixels = noise(w, h);
            let src = RgbView { width: w, height: h, pixels: &pixels };
            for patch in [14usize, 16, 7] {
                let (out_w, out_h) = (out_w / 28 * 2 * patch, out_h / 28 * 2 * patch);
                let layout = PatchLayout { patch, merge: 2 };
                let right = plainly(src, out_w, out_h, layout);
                let found = resize_to_patches(src, out_w, out_h, layout).unwrap();
                assert!(found == right, "{w}x{h} to {out_w}x{out_h}, fastest loop");
                let portable = resize_with(Isa::Portable, src, out_w, out_h, layout).unwrap();
                assert!(portable == right, "{w}x{h} to {out_w}x{out_h}, portable loop");
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let pixels = [0u8; 12];
        let layout = PatchLayout { patch: 14, merge: 2 };
        let src = RgbView { width: 2, height: 2, pixels: &pixels };
        let wrong = RgbView { width: 2, height: 3, pixels: &pixels };
        assert_eq!(resize_to_patches(wrong, 28, 28, layout), Err(PixelError::Source { width: 2, height: 3, got: 12 }));
        let refused = Err(PixelError::Layout { width: 28, height: 14, group: 28 });
        assert_eq!(resize_to_patches(src, 28, 14, layout), refused);
        assert!(resize_to_patches(src, 0, 28, layout).is_err());
        assert!(resize_to_patches(src, 28, 28, PatchLayout { patch: usize::MAX, merge: 2 }).is_err());
        assert_eq!(resize_to_patches(src, usize::MAX / 28 * 28, 28, layout), Err(PixelError::TooLarge));
    }
}
