//! Which family implements an architecture: a line each, exact, in no meaningful order.

use crate::config::Config;
use crate::family::Family;
use crate::{ModelError, qwen2_5_vl, qwen2_vl, qwen3_vl};
use ocelli_core::Modality;

/// A line of the registry.
pub(crate) struct Line {
    /// The string in `architectures` of `config.json`.
    pub(crate) architecture: &'static str,
    /// The `model_type` that goes with it.
    pub(crate) model_type: &'static str,
    /// What it encodes.
    pub(crate) modalities: &'static [Modality],
    /// Reads and checks `config.json`.
    pub(crate) read: fn(Config<'_>) -> Result<Box<dyn Family>, ModelError>,
}

/// Every architecture that can be opened.
#[rustfmt::skip]
pub(crate) const LINES: &[Line] = &[
    Line { architecture: "Qwen2VLForConditionalGeneration", model_type: "qwen2_vl", modalities: &[Modality::Image], read: qwen2_vl::read },
    Line { architecture: "Qwen2_5_VLForConditionalGeneration", model_type: "qwen2_5_vl", modalities: &[Modality::Image], read: qwen2_5_vl::read },
    Line { architecture: "Qwen3VLForConditionalGeneration", model_type: "qwen3_vl", modalities: &[Modality::Image], read: qwen3_vl::read },
    Line { architecture: "Qwen3VLMoeForConditionalGeneration", model_type: "qwen3_vl_moe", modalities: &[Modality::Image], read: qwen3_vl::read },
];

/// The line of an architecture.
///
/// # Errors
/// [`ModelError::UnknownArchitecture`] with all that there are, the most similar name first.
pub(crate) fn find(architecture: &str) -> Result<&'static Line, ModelError> {
    LINES.iter().find(|line| line.architecture == architecture).ok_or_else(|| {
        let mut supported: Vec<&'static str> = LINES.iter().map(|line| line.architecture).collect();
        supported.sort_by_cached_key(|name| distance(name, architecture));
        ModelError::UnknownArchitecture { found: architecture.to_owned(), supported }
    })
}

/// Levenshtein distance, of the first 100 characters: the string comes from a file.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(100).collect(), b.chars().take(100).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_architecture_and_model_type_has_one_line() {
        let architectures: BTreeSet<_> = LINES.iter().map(|line| line.architecture).collect();
        let model_types: BTreeSet<_> = LINES.iter().map(|line| line.model_type).collect();
        assert_eq!((architectures.len(), model_types.len()), (LINES.len(), LINES.len()));
    }

    #[test]
    fn an_unknown_architecture_is_answered_with_the_nearest_first() {
        let Err(error) = find("Qwen3VLMoEForConditionalGeneration") else { panic!("found") };
        assert_eq!(
            error.to_string(),
            "the architecture Qwen3VLMoEForConditionalGeneration is not supported; supported are \
             Qwen3VLMoeForConditionalGeneration, Qwen3VLForConditionalGeneration, Qwen2VLForConditionalGeneration, \
             Qwen2_5_VLForConditionalGeneration"
        );
    }
}
