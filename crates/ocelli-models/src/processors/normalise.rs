//! From bytes to the reference's float values.

use crate::prepared::{Patches, Prepared};

/// `(byte - mean) / std`, a channel each: rescaling and normalising in one, as the reference folds them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Normalisation {
    /// In levels (0 to 255 when bytes are rescaled by 1/255).
    pub mean: [f32; 3],
    /// In levels.
    pub std: [f32; 3],
}

impl Normalisation {
    /// Folds a rescale factor and (mean, std) of rescaled values, in the order and precision of the
    /// reference's torchvision backend: `f32(mean) · f32(1 / factor)`. Without either, bytes stay as they are.
    pub fn folded(rescale: Option<f64>, statistics: Option<([f32; 3], [f32; 3])>) -> Self {
        let levels = rescale.map_or(1.0, |factor| (1.0 / factor) as f32);
        let (mean, std) = statistics.unwrap_or(([0.0; 3], [1.0; 3]));
        Self { mean: mean.map(|mean| mean * levels), std: std.map(|std| std * levels) }
    }

    /// The value of a byte of a channel.
    pub fn value(&self, channel: usize, byte: u8) -> f32 {
        (f32::from(byte) - self.mean[channel]) / self.std[channel]
    }

    /// The values of all bytes of all channels.
    pub fn table(&self) -> [[f32; 256]; 3] {
        std::array::from_fn(|channel| std::array::from_fn(|byte| self.value(channel, byte as u8)))
    }
}

/// The reference's `pixel_values` of an item: `[patches, 3·temporal_patch_size·patch²]`, bit for bit.
///
/// A still picture's bytes are normalised and repeated for each frame of a patch; 8 times the memory.
pub fn normalised(prepared: &Prepared, normalisation: &Normalisation, temporal_patch_size: u32) -> Vec<f32> {
    let bytes = match &prepared.patches {
        Patches::Normalised(values) => return values.clone(),
        Patches::Still(bytes) => bytes,
    };
    let table = normalisation.table();
    // Bytes of a channel of a patch.
    let plane = bytes.len() / prepared.grid.patches().max(1) / 3;
    let mut values = Vec::with_capacity(bytes.len() * temporal_patch_size as usize);
    for (i, plane) in bytes.chunks_exact(plane.max(1)).enumerate() {
        for _ in 0..temporal_patch_size {
            values.extend(plane.iter().map(|&byte| table[i % 3][usize::from(byte)]));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use ocelli_core::GridThw;

    #[test]
    fn frames_are_repeated_within_a_channel() {
        let grid = GridThw::new(1, 1, 1);
        let prepared = Prepared { grid, patches: Patches::Still(vec![0, 255, 255, 0, 51, 51]) };
        let normalisation = Normalisation::folded(Some(1.0 / 255.0), Some(([0.0; 3], [1.0; 3])));
        let values = normalised(&prepared, &normalisation, 2);
        assert_eq!(values, [0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.2, 0.2, 0.2, 0.2]);
    }

    #[test]
    fn without_rescaling_and_normalising_bytes_stay() {
        assert_eq!(Normalisation::folded(None, None).value(1, 200), 200.0);
    }
}
