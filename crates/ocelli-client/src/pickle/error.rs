//! The ways in which a header can be wrong.

/// Why a header frame was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Longer than any header.
    #[error("{actual} bytes; the limit is {limit}")]
    TooLong {
        /// The limit.
        limit: usize,
        /// What came.
        actual: usize,
    },
    /// It ends within an instruction.
    #[error("it ends early, at byte {0}")]
    Truncated(usize),
    /// Something follows the end.
    #[error("{0} bytes follow the end")]
    Trailing(usize),
    /// An instruction that no header needs.
    #[error("opcode {opcode:#04x} at byte {at} is not allowed")]
    Opcode {
        /// The instruction.
        opcode: u8,
        /// Where it stands.
        at: usize,
    },
    /// A name that no header needs.
    #[error("global `{0}` is not allowed")]
    Global(String),
    /// An instruction that finds something else than it needs.
    #[error("opcode {opcode:#04x} at byte {at} does not fit what is before it")]
    Operand {
        /// The instruction.
        opcode: u8,
        /// Where it stands.
        at: usize,
    },
    /// A text that is not UTF-8.
    #[error("text at byte {0} is not UTF-8")]
    Utf8(usize),
    /// It is not an `EmbeddingData`.
    #[error("not an EmbeddingData")]
    Class,
    /// An attribute that a header does not have, or has twice.
    #[error("attribute `{0}` is unknown or repeated")]
    Attribute(String),
    /// An attribute that is missing or of another type than it must be.
    #[error("attribute `{0}` is missing or not of its type")]
    Value(&'static str),
    /// A tensor that is not made as torch makes one on the CPU.
    #[error("tensor: {0}")]
    Tensor(&'static str),
}
