//! The header frame: a Python pickle that the receiver's restricted unpickler admits.
//!
//! What it must not do: read a pickle, or write any global beside those of the recorded messages. The
//! output is that of CPython's `pickle.dumps` at protocol 4, opcode for opcode, because the receiver's
//! allow-list was made for exactly that; only the storage key in a tensor differs, which the original
//! fills with an address.

mod embedding_data;
mod tensor;
mod writer;

pub use embedding_data::encode;
