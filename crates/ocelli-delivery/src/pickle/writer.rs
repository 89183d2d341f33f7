//! The opcodes of protocol 4 that a header needs, with CPython's choices of the shortest form.

/// Writes one pickle in one frame. Everything is memoized, as CPython does, and nothing is written twice,
/// so the numbers in the memo need not be known.
pub(super) struct Writer {
    out: Vec<u8>,
}

/// `PROTO 4`, then `FRAME` and its length, filled in at the end.
const HEAD: [u8; 11] = [0x80, 4, 0x95, 0, 0, 0, 0, 0, 0, 0, 0];

impl Writer {
    pub(super) fn new() -> Self {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(&HEAD);
        Self { out }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.op(b'.');
        let framed = (self.out.len() - HEAD.len()) as u64;
        self.out[3..HEAD.len()].copy_from_slice(&framed.to_le_bytes());
        self.out
    }

    pub(super) fn op(&mut self, opcode: u8) {
        self.out.push(opcode);
    }

    /// `MEMOIZE`: the object on top of the stack gets the next number.
    pub(super) fn memoize(&mut self) {
        self.op(0x94);
    }

    pub(super) fn none(&mut self) {
        self.op(b'N');
    }

    pub(super) fn int(&mut self, value: u64) {
        if let Ok(byte) = u8::try_from(value) {
            self.out.extend_from_slice(&[b'K', byte]);
        } else if let Ok(short) = u16::try_from(value) {
            self.op(b'M');
            self.out.extend_from_slice(&short.to_le_bytes());
        } else if let Ok(int) = i32::try_from(value) {
            self.op(b'J');
            self.out.extend_from_slice(&int.to_le_bytes());
        } else {
            self.long(value);
        }
    }

    /// `LONG1`: little-endian two's complement, as short as its sign allows.
    fn long(&mut self, value: u64) {
        let used = 8 - value.leading_zeros() as usize / 8;
        let bytes = value.to_le_bytes();
        let sign_needs_room = bytes[used - 1] >= 0x80;
        self.out.extend_from_slice(&[0x8a, (used + usize::from(sign_needs_room)) as u8]);
        self.out.extend_from_slice(&bytes[..used]);
        if sign_needs_room {
            self.op(0);
        }
    }

    pub(super) fn str(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(short) => self.out.extend_from_slice(&[0x8c, short]),
            Err(_) => {
                self.op(b'X');
                self.out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            }
        }
        self.out.extend_from_slice(text.as_bytes());
        self.memoize();
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(short) => self.out.extend_from_slice(&[b'C', short]),
            Err(_) => {
                self.op(b'B');
                self.out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            }
        }
        self.out.extend_from_slice(bytes);
        self.memoize();
    }

    /// `STACK_GLOBAL`.
    pub(super) fn global(&mut self, module: &str, name: &str) {
        self.str(module);
        self.str(name);
        self.op(0x93);
        self.memoize();
    }

    /// `TUPLE1` over the object on top.
    pub(super) fn tuple1(&mut self) {
        self.op(0x85);
        self.memoize();
    }

    /// A tuple of two numbers.
    pub(super) fn int_pair(&mut self, a: u64, b: u64) {
        self.int(a);
        self.int(b);
        self.op(0x86);
        self.memoize();
    }

    /// A list of two numbers.
    pub(super) fn int_list(&mut self, values: [u64; 2]) {
        self.op(b']');
        self.memoize();
        self.op(b'(');
        values.into_iter().for_each(|value| self.int(value));
        self.op(b'e');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(value: u64) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.int(value);
        writer.finish()[HEAD.len()..].to_vec()
    }

    /// Right values: `pickle.dumps(n, 4)` of CPython 3.11, without head.
    #[test]
    fn numbers_take_the_form_that_python_gives_them() {
        let table: [(u64, &[u8]); 8] = [
            (0, b"K\x00."),
            (255, b"K\xff."),
            (256, b"M\x00\x01."),
            (65535, b"M\xff\xff."),
            (65536, b"J\x00\x00\x01\x00."),
            (0x7fff_ffff, b"J\xff\xff\xff\x7f."),
            (0x8000_0000, b"\x8a\x05\x00\x00\x00\x80\x00."),
            (0x1_0000_0000, b"\x8a\x05\x00\x00\x00\x00\x01."),
        ];
        for (value, right) in table {
            assert_eq!(ints(value), right, "{value}");
        }
    }

    #[test]
    fn strings_of_256_bytes_take_the_long_form() {
        let mut writer = Writer::new();
        writer.str(&"a".repeat(255));
        writer.str(&"b".repeat(256));
        let bytes = writer.finish();
        assert_eq!(bytes[11..13], [0x8c, 255]);
        assert_eq!(bytes[11 + 2 + 255 + 1..][..5], [b'X', 0, 1, 0, 0]);
    }
}
