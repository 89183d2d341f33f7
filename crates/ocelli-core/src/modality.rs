//! What kind of medium an item is.

use std::fmt;

/// The kind of an item. The numbers are those of sglang's `Modality` enum, which travel on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Modality {
    /// A still picture.
    Image = 1,
    /// A sequence of frames.
    Video = 2,
    /// A sound clip.
    Audio = 3,
}

impl Modality {
    /// Reads the wire's word, in any case: `IMAGE`, `Video`, …
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Image, Self::Video, Self::Audio].into_iter().find(|m| word.eq_ignore_ascii_case(m.as_str()))
    }

    /// The lower-case word, as metrics and logs have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }

    /// The number that sglang's enum constructor takes.
    pub fn wire_number(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Modality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_any_case_and_nothing_else_is() {
        assert_eq!(Modality::parse("IMAGE"), Some(Modality::Image));
        assert_eq!(Modality::parse("Video"), Some(Modality::Video));
        assert_eq!(Modality::parse("audio"), Some(Modality::Audio));
        assert_eq!(Modality::parse("smell"), None);
        assert_eq!(Modality::parse(""), None);
    }
}
