//! Scaling by public constants: of bytes, of all values, of channels or of columns.

use crate::Normalize;
use damper_onnx::SettingError;

/// Scaling of the values of a sample.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Scaling {
    bytes: f32,
    constants: Vec<(f64, f64)>,
    /// Number of consecutive values with the same constants.
    run: usize,
}

impl Scaling {
    /// Creates the scaling for samples of `shape`. Bytes are divided by 255 unless they are `raw`.
    pub fn new(normalize: Option<&Normalize>, shape: &[usize], raw: bool) -> Result<Self, SettingError> {
        let bytes = if raw { 1.0 } else { 255.0 };
        let Some(normalize @ Normalize { means, stds }) = normalize else {
            return Ok(Self { bytes, constants: vec![], run: 1 });
        };
        let constants: Vec<_> = means.iter().copied().zip(stds.iter().copied()).collect();
        let values = shape.iter().product::<usize>();
        let run = match (constants.len(), shape) {
            (1, _) => 1,
            (count, [channels, rest @ ..]) if count == *channels => rest.iter().product(),
            // Channels on the last axis, or the columns of a table for any input shape.
            (count, [.., last]) if count == *last || count == values => 1,
            (count, _) => {
                let problem = format!(
                    "{count} means for samples of shape {shape:?}; give one for all, or one for each of the {}",
                    match shape {
                        [columns] => format!("{columns} columns"),
                        [channels, ..] => format!("{channels} channels"),
                        [] => "samples".into(),
                    }
                );
                return Err(SettingError::new("normalize", normalize, problem));
            }
        };
        Ok(Self { bytes, constants, run })
    }

    pub fn is_identity(&self) -> bool {
        self.constants.is_empty()
    }

    /// Converts a byte to a float, before the constants.
    pub fn byte(&self, byte: u8) -> f32 {
        f32::from(byte) / self.bytes
    }

    /// Returns the mean and the standard deviation for the value at index `place` of a sample, if it is scaled.
    pub fn constants(&self, place: usize) -> Option<(f64, f64)> {
        match &*self.constants {
            [] => None,
            constants => Some(constants[place / self.run.max(1) % constants.len()]),
        }
    }

    /// Applies `scaled(value, mean, std)` to whole samples of `width` values.
    fn each(&self, samples: &mut [f32], width: usize, scaled: impl Fn(&f32, f64, f64) -> f32) {
        match &*self.constants {
            [] => {}
            [(mean, std)] => samples.iter_mut().for_each(|value| *value = scaled(value, *mean, *std)),
            constants => {
                for sample in samples.chunks_exact_mut(width.max(1)) {
                    let runs = sample.chunks_mut(self.run.max(1));
                    for (run, (mean, std)) in runs.zip(constants.iter().cycle()) {
                        run.iter_mut().for_each(|value| *value = scaled(value, *mean, *std));
                    }
                }
            }
        }
    }

    /// Applies the constants in float64 to whole samples of `width` values, and rounds each result once.
    pub fn apply(&self, samples: &mut [f32], width: usize) {
        self.each(samples, width, |value, mean, std| ((f64::from(*value) - mean) / std) as f32);
    }

    /// Applies the constants in float32, to bytes that [`Self::byte`] converted.
    pub fn apply_to_bytes(&self, samples: &mut [f32], width: usize) {
        self.each(samples, width, |value, mean, std| byte_scaled(*value, mean, std));
    }

    /// Returns true if scaled bytes are always finite.
    pub fn keeps_bytes_finite(&self) -> bool {
        let ends = [0, 255].map(|byte| self.byte(byte));
        self.constants.iter().all(|(mean, std)| ends.iter().all(|end| byte_scaled(*end, *mean, *std).is_finite()))
    }
}

fn byte_scaled(value: f32, mean: f64, std: f64) -> f32 {
    (value - mean as f32) / std as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(means: &[f64], shape: &[usize], values: &[f32]) -> Vec<f32> {
        let normalize = Normalize { means: means.to_vec(), stds: vec![2.0; means.len()] };
        let mut scaled = values.to_vec();
        let scaling = Scaling::new(Some(&normalize), shape, false).unwrap();
        scaling.apply(&mut scaled, shape.iter().product());
        let width = shape.iter().product::<usize>();
        for (place, (before, after)) in values.iter().zip(&scaled).enumerate() {
            let (mean, std) = scaling.constants(place % width).unwrap();
            assert_eq!(((f64::from(*before) - mean) / std) as f32, *after);
        }
        scaled
    }

    #[test]
    fn constants_follow_channels_or_columns() {
        let zeros = [0.0; 8];
        assert_eq!(apply(&[2.0], &[2, 2], &zeros), [-1.0; 8]);
        assert_eq!(apply(&[2.0, 4.0], &[2, 2, 1], &zeros), [-1.0, -1.0, -2.0, -2.0, -1.0, -1.0, -2.0, -2.0]);
        assert_eq!(apply(&[2.0, 4.0], &[2], &zeros[..4]), [-1.0, -2.0, -1.0, -2.0]);
        assert_eq!(apply(&[2.0, 4.0], &[4, 1, 2], &zeros), [-1.0, -2.0, -1.0, -2.0, -1.0, -2.0, -1.0, -2.0]);
        let three = Normalize { means: vec![0.0; 3], stds: vec![1.0; 3] };
        let message = Scaling::new(Some(&three), &[2, 2], false).unwrap_err().to_string();
        assert!(message.contains("3 means") && message.contains("2 channels"), "{message}");
    }
}
