//! Bytes that came with the request. As strict as the reference: standard alphabet, right padding, no
//! white space, no percent signs. Bounded by the limit of the body, so by no limit of their own.

use crate::MediaError;
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;

/// The reference does not look at the bits that the last letter has to spare.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Decodes what stands after `data:`. The type is not believed, and `;base64` not asked for: the bytes tell.
pub(crate) fn data_url(rest: &str) -> Result<Bytes, MediaError> {
    let (_, body) =
        rest.split_once(',').ok_or_else(|| MediaError::Source("is no data: URL: it has no comma".into()))?;
    base64(body)
}

/// Decodes a whole string.
pub(crate) fn base64(text: &str) -> Result<Bytes, MediaError> {
    if text.is_empty() {
        return Err(MediaError::Source("is empty".into()));
    }
    match BASE64.decode(text) {
        Ok(bytes) => Ok(bytes.into()),
        Err(why) => Err(MediaError::Source(format!("is neither an address nor valid base64: {}", place(&why)))),
    }
}

/// What is wrong, without the letters themselves.
fn place(why: &base64::DecodeError) -> String {
    use base64::DecodeError::{InvalidByte, InvalidLastSymbol, InvalidLength, InvalidPadding};
    match why {
        InvalidByte(at, _) | InvalidLastSymbol(at, _) => format!("wrong character at offset {at}"),
        InvalidLength(length) => format!("its length is {length}"),
        InvalidPadding => "wrong padding".into(),
    }
}
