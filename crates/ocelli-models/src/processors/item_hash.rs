//! The identities that sglang 0.5.23 gives to features and media. Its peers compare them, so they are what
//! they are there: truncated SHA-256 over raw bytes, without shape, model or settings.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// Prefix of the digest that placeholder tokens come from.
const PAD_TAG: &[u8] = b"sglang-mm-wide-pad-v1";
/// Placeholder tokens start above every vocabulary.
const PAD_SHIFT: u64 = 1_000_000;
const PAD_MASK: u64 = (1 << 62) - 1;
/// First part of a digest that puts an item's hash into a namespace.
const NAMESPACE_TAG: &[u8] = b"multimodal-feature-v1";

/// SHA-256, shown as `sha256:<hex>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentDigest(pub [u8; 32]);

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl ContentDigest {
    /// Digest of a medium's bytes as they were fetched.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Digest of a torch tensor: its dtype as torch prints it (`torch.float32`), shape, contiguous bytes.
    pub fn of_torch(dtype: &str, shape: &[usize], bytes: &[u8]) -> Self {
        Self::of_parts(&[b"torch", dtype.as_bytes(), json_list(shape).as_bytes(), bytes])
    }

    /// Digest of a numpy array: its `dtype.str` (`<f4`), shape, contiguous bytes.
    pub fn of_numpy(dtype: &str, shape: &[usize], bytes: &[u8]) -> Self {
        Self::of_parts(&[b"numpy", dtype.as_bytes(), json_list(shape).as_bytes(), bytes])
    }

    /// Digest of a decoded RGB picture, which has neither palette nor transparency.
    pub fn of_rgb(picture: &ocelli_core::RgbImage) -> Self {
        let size = json_list(&[picture.width() as usize, picture.height() as usize]);
        Self::of_parts(&[b"pil", b"RGB", size.as_bytes(), b"", b"", b"none", picture.pixels()])
    }

    /// Each part with its length before it, 8 bytes, big endian.
    fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

/// Hash of a processed feature: the bytes of its tensors one after another.
pub fn feature_hash<'a>(tensors: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash = Sha256::new();
    for bytes in tensors {
        hash.update(bytes);
    }
    first_u64(&hash.finalize().into())
}

/// Hash of a decoded array before any processing (`hash_raw_encoder_item`).
pub fn raw_item_hash(dtype: &str, shape: &[usize], bytes: &[u8]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(dtype);
    hash.update(python_tuple(shape));
    hash.update(bytes);
    first_u64(&hash.finalize().into())
}

/// The four token ids that stand for an item in a prompt; `pad_value` is the first.
pub fn pad_values(item_hash: u64) -> [u64; 4] {
    let digest: [u8; 32] = Sha256::new().chain_update(PAD_TAG).chain_update(item_hash.to_be_bytes()).finalize().into();
    let (words, _) = digest.as_chunks::<8>();
    std::array::from_fn(|i| PAD_SHIFT + (u64::from_be_bytes(words[i]) & PAD_MASK))
}

/// An item's hash within a namespace, as caches that several models share have it.
pub fn namespaced(item_hash: u64, namespace: &ContentDigest) -> u64 {
    let bytes = item_hash.to_be_bytes();
    // Without leading zeros, but at least one byte.
    let skipped = (item_hash.leading_zeros() as usize / 8).min(7);
    first_u64(&ContentDigest::of_parts(&[NAMESPACE_TAG, &namespace.0, &bytes[skipped..]]).0)
}

fn first_u64(digest: &[u8; 32]) -> u64 {
    digest[..8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn joined(shape: &[usize]) -> String {
    shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn json_list(shape: &[usize]) -> String {
    format!("[{}]", joined(shape))
}

fn python_tuple(shape: &[usize]) -> String {
    let comma = if shape.len() == 1 { "," } else { "" };
    format!("({}{comma})", joined(shape))
}
