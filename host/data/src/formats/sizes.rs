//! Public sizes of a data set, from headers, column names, folder names and the tokenizer's file. They size a network
//! that has no file. Only the size of pictures in folders comes from a sample: all must have it.

#[cfg(feature = "parquet")]
use super::parquet;
#[cfg(feature = "text")]
use super::text;
use super::{cifar, csv, find, idx, images, shapes};
use crate::{DataError, DataOptions, InputShape};
use damper_onnx::DType;

/// Sizes of a data set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleSizes {
    /// Extents of a sample without the batch.
    pub sample: Vec<usize>,
    /// Number of the tokenizer's tokens, for texts.
    pub tokens: Option<usize>,
    /// Number of classes, if names of the files declare it.
    pub classes: Option<usize>,
}

/// Returns the sizes of the data set `KIND:PATH`.
///
/// # Errors
///
/// The files do not declare them, or cannot be read.
pub fn sample_sizes(spec: &str, options: &DataOptions) -> Result<SampleSizes, DataError> {
    let (format, path) = find(spec, options)?;
    let classes = options.classes.as_ref().map(Vec::len);
    let of_sample = |sample| SampleSizes { sample, tokens: None, classes };
    Ok(match format.names[0] {
        "csv" => of_sample(vec![csv::width(path, options)?]),
        "idx" => of_sample(idx::extents(path)?),
        "cifar" => {
            let (sample, own) = cifar::sizes(path, options);
            SampleSizes { classes: classes.or(own), ..of_sample(sample) }
        }
        "images" => {
            let (sample, own) = images::sizes(path, options)?;
            SampleSizes { classes: classes.or(Some(own)), ..of_sample(sample) }
        }
        #[cfg(feature = "parquet")]
        "parquet" => of_sample(parquet::extents(path, options)?),
        #[cfg(feature = "text")]
        "text" => {
            let (length, tokens) = text::sizes(options)?;
            SampleSizes { tokens: Some(tokens), ..of_sample(vec![length]) }
        }
        _ => {
            let input = InputShape { name: "x".into(), shape: vec![], dtype: DType::F32, rows: None };
            let options = DataOptions { inputs: vec![input], ..options.clone() };
            let unknown = || DataError::File(format!("{spec}: declares no shape: give an exported model"));
            of_sample(shapes(spec, &options).and_then(|mut all| all.pop()).ok_or_else(unknown)?)
        }
    })
}
