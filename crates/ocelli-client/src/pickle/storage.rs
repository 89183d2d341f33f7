//! torch's legacy file of one storage: five small pickles, of which four are always the same but for names
//! and a count. Compared with what they must be, not interpreted.

use super::HeaderError;

/// What a storage holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Elements<'a> {
    /// Eight bytes each, little-endian.
    Int64(&'a [u8]),
    /// Four bytes each, little-endian.
    Float32(&'a [u8]),
}

/// Magic number; protocol version 1001; the dictionary of the machine that wrote it.
const HEAD: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\
\x80\x02M\xe9\x03.\
\x80\x02}q\x00(X\x10\x00\x00\x00protocol_versionq\x01M\xe9\x03X\x0d\x00\x00\x00little_endianq\x02\x88\
X\x0a\x00\x00\x00type_sizesq\x03}q\x04(X\x05\x00\x00\x00shortq\x05K\x02X\x03\x00\x00\x00intq\x06K\x04\
X\x04\x00\x00\x00longq\x07K\x04uu.";

pub(super) fn read(blob: &[u8]) -> Result<Elements<'_>, HeaderError> {
    let mut rest = Rest(blob);
    rest.expect(HEAD)?;
    rest.expect(b"\x80\x02(X\x07\x00\x00\x00storageq\x00ctorch\n")?;
    let long = rest.expect(b"LongStorage\nq\x01").is_ok();
    if !long {
        rest.expect(b"FloatStorage\nq\x01")?;
    }
    let key = rest.key()?;
    rest.expect(b"q\x02X\x03\x00\x00\x00cpuq\x03")?;
    let declared = rest.count()?;
    rest.expect(b"Ntq\x04Q.\x80\x02]q\x00")?;
    if rest.key()? != key {
        return Err(HeaderError::Tensor("its storage has two names"));
    }
    rest.expect(b"q\x01a.")?;
    let count = u64::from_le_bytes(rest.array()?);
    let size = if long { 8 } else { 4 };
    if count != declared || count.checked_mul(size) != Some(rest.0.len() as u64) {
        return Err(HeaderError::Tensor("its storage is not as long as declared"));
    }
    Ok(if long { Elements::Int64(rest.0) } else { Elements::Float32(rest.0) })
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn expect(&mut self, what: &[u8]) -> Result<(), HeaderError> {
        self.0 = self.0.strip_prefix(what).ok_or(HeaderError::Tensor("its storage is not torch's legacy file"))?;
        Ok(())
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], HeaderError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(HeaderError::Tensor("its storage ends early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        self.take(N)?.try_into().map_err(|_| HeaderError::Tensor("its storage ends early"))
    }

    /// Any name will do.
    fn key(&mut self) -> Result<&'a [u8], HeaderError> {
        self.expect(b"X")?;
        let len = u32::from_le_bytes(self.array()?);
        self.take(len as usize)
    }

    fn count(&mut self) -> Result<u64, HeaderError> {
        let [opcode] = self.array()?;
        match opcode {
            b'K' => self.array().map(|[byte]| u64::from(byte)),
            b'M' => Ok(u16::from_le_bytes(self.array()?).into()),
            b'J' => u64::try_from(i32::from_le_bytes(self.array()?))
                .map_err(|_| HeaderError::Tensor("its storage is not as long as declared")),
            _ => Err(HeaderError::Tensor("its storage is not torch's legacy file")),
        }
    }
}
