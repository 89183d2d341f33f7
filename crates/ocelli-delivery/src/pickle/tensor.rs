//! A torch tensor as torch itself pickles one on the CPU: `_rebuild_tensor_v2` over a storage in torch's
//! legacy file format.

use super::writer::Writer;
use ocelli_core::GridThw;

/// Names the storage within its blob. Any string will do; the original writes an address of this length.
const STORAGE_KEY: &str = "ocelli_storage0";

/// The first three pickles of a legacy file: the magic number 0x1950a86a20f9469cfc6c; protocol version
/// 1001; `{protocol_version: 1001, little_endian: True, type_sizes: {short: 2, int: 4, long: 4}}`.
const LEGACY_HEAD: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\
\x80\x02M\xe9\x03.\
\x80\x02}q\x00(X\x10\x00\x00\x00protocol_versionq\x01M\xe9\x03X\x0d\x00\x00\x00little_endianq\x02\x88\
X\x0a\x00\x00\x00type_sizesq\x03}q\x04(X\x05\x00\x00\x00shortq\x05K\x02X\x03\x00\x00\x00intq\x06K\x04\
X\x04\x00\x00\x00longq\x07K\x04uu.";

/// int64, shape `[n, 3]`: a row (t, h, w) an item.
pub(super) fn grids(writer: &mut Writer, grids: &[GridThw]) {
    writer.global("torch._utils", "_rebuild_tensor_v2");
    writer.op(b'(');
    writer.global("torch.storage", "_load_from_bytes");
    writer.bytes(&storage(grids));
    writer.tuple1();
    call(writer);
    writer.int(0); // offset in the storage
    writer.int_pair(grids.len() as u64, 3); // size
    writer.int_pair(3, 1); // stride
    writer.op(0x89); // requires_grad: False
    writer.global("collections", "OrderedDict"); // backward hooks: none
    writer.op(b')');
    call(writer);
    writer.op(b't');
    writer.memoize();
    call(writer);
}

/// `REDUCE`.
fn call(writer: &mut Writer) {
    writer.op(b'R');
    writer.memoize();
}

fn storage(grids: &[GridThw]) -> Vec<u8> {
    let count = grids.len() * 3;
    let mut blob = Vec::with_capacity(LEGACY_HEAD.len() + 128 + count * 8);
    blob.extend_from_slice(LEGACY_HEAD);
    // ('storage', torch.LongStorage, key, 'cpu', count, None) as a persistent id
    blob.extend_from_slice(b"\x80\x02(X\x07\x00\x00\x00storageq\x00ctorch\nLongStorage\nq\x01");
    key(&mut blob);
    blob.extend_from_slice(b"q\x02X\x03\x00\x00\x00cpuq\x03");
    legacy_int(&mut blob, count);
    blob.extend_from_slice(b"Ntq\x04Q.");
    // the keys of all storages, then each one's count and elements
    blob.extend_from_slice(b"\x80\x02]q\x00");
    key(&mut blob);
    blob.extend_from_slice(b"q\x01a.");
    blob.extend_from_slice(&(count as u64).to_le_bytes());
    for side in grids.iter().flat_map(|grid| [grid.t, grid.h, grid.w]) {
        blob.extend_from_slice(&i64::from(side).to_le_bytes());
    }
    blob
}

fn key(blob: &mut Vec<u8>) {
    blob.push(b'X');
    blob.extend_from_slice(&(STORAGE_KEY.len() as u32).to_le_bytes());
    blob.extend_from_slice(STORAGE_KEY.as_bytes());
}

/// Items are counted in `u32` on their way in, so that `BININT` always suffices.
fn legacy_int(blob: &mut Vec<u8>, value: usize) {
    if let Ok(byte) = u8::try_from(value) {
        blob.extend_from_slice(&[b'K', byte]);
    } else if let Ok(short) = u16::try_from(value) {
        blob.push(b'M');
        blob.extend_from_slice(&short.to_le_bytes());
    } else {
        blob.push(b'J');
        blob.extend_from_slice(&(value as u32).to_le_bytes());
    }
}
