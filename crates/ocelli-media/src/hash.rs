//! `content_hash`: the client's word for the bytes, checked.

use crate::MediaError;
use sha2::{Digest, Sha256};

/// Checks bytes against `sha256:<64 hex digits>`.
///
/// # Errors
/// `HashForm` and `HashMismatch`.
pub fn verify_content_hash(bytes: &[u8], given: &str) -> Result<(), MediaError> {
    let hex = given.strip_prefix("sha256:").filter(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let hex = hex.ok_or(MediaError::HashForm)?;
    let actual: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if hex.eq_ignore_ascii_case(&actual) {
        return Ok(());
    }
    Err(MediaError::HashMismatch { given: given.to_owned(), actual: format!("sha256:{actual}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1: SHA-256 of "abc".
    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_digest_is_checked_in_either_case_and_its_form_too() {
        assert_eq!(verify_content_hash(b"abc", ABC), Ok(()));
        assert_eq!(verify_content_hash(b"abc", &format!("sha256:{}", ABC[7..].to_uppercase())), Ok(()));
        assert!(matches!(verify_content_hash(b"abd", ABC), Err(MediaError::HashMismatch { .. })));
        for bad in ["", "sha256:", "md5:00", &ABC[7..], &ABC[..70], "sha256:zz"] {
            assert_eq!(verify_content_hash(b"abc", bad), Err(MediaError::HashForm), "{bad}");
        }
    }
}
