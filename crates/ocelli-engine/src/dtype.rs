//! Element types of weights and outputs.

use std::fmt;

/// What the elements of a tensor are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE 754 binary32.
    F32,
    /// The upper half of a binary32.
    BF16,
    /// IEEE 754 binary16.
    F16,
}

impl DType {
    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 => 2,
        }
    }

    /// PyTorch's name for it, as `config.json` and sglang's `--dtype` spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::BF16 => "bfloat16",
            Self::F16 => "float16",
        }
    }

    /// The type of that name (`float32`, `bfloat16`, `float16`; sglang's short `float` and `half` too).
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "float32" | "float" => Some(Self::F32),
            "bfloat16" => Some(Self::BF16),
            "float16" | "half" => Some(Self::F16),
            _ => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_name("float8_e4m3fn"), None);
    }
}
