//! Arrays of a file to a split: counts, shapes, scaling, and the owner's checks of every row.

use super::array::{Array, Values, elements};
use super::{DataError, DataOptions, Features, LabelKind, Labels, OnBadRow, Split};

/// The label of a class or token that does not count.
const IGNORED: i64 = -100;

/// The arrays of a split as a file holds them.
pub(super) struct Raw {
    /// One a model input.
    pub features: Vec<Array>,
    pub labels: Option<Array>,
    /// Rows that a reader could not make numbers of, ascending, and why.
    pub unreadable: Vec<(usize, String)>,
    /// What messages call a row: the line of the file, or nothing for its index.
    pub lines: Option<Vec<u64>>,
}

impl Raw {
    pub fn new(features: Vec<Array>, labels: Option<Array>) -> Self {
        Self { features, labels, unreadable: Vec::new(), lines: None }
    }
}

pub(super) fn assemble(raw: Raw, options: &DataOptions) -> Result<Split, DataError> {
    let first = raw.features.first().ok_or_else(|| DataError("the model has no data input".into()))?;
    let (rows, origin) = (first.rows(), first.origin.clone());
    if rows == 0 || first.shape.is_empty() {
        return Err(DataError(format!("{origin}: holds no samples: use a file that does")));
    }
    for array in raw.features.iter().skip(1).chain(&raw.labels) {
        if array.shape.first() != Some(&rows) {
            return Err(DataError(format!(
                "{}: has the shape {:?} where {origin} has {rows} rows: use files that belong together",
                array.origin, array.shape
            )));
        }
    }

    let mut bad = BadRows { policy: options.on_bad_row, origin, lines: raw.lines, rows, null: Vec::new() };
    for (row, fault) in raw.unreadable {
        bad.found(row, || fault)?;
    }
    if !options.inputs.is_empty() && options.inputs.len() != raw.features.len() {
        return Err(DataError(format!(
            "{}: gives {} arrays of features where the model has {} inputs: use npz with an array of each input's name",
            bad.origin,
            raw.features.len(),
            options.inputs.len()
        )));
    }
    let mut features = Vec::with_capacity(raw.features.len());
    for (index, array) in raw.features.into_iter().enumerate() {
        let wanted = options.inputs.get(index).map(|input| (input.name.as_str(), &input.shape[..]));
        features.push(make_features(array, wanted, options, &mut bad)?);
    }
    let labels = match raw.labels {
        Some(array) => make_labels(array, &options.labels, &mut bad)?,
        None => Labels::None,
    };
    let mut split = Split { rows, features, labels, null: bad.null };
    blank(&mut split);
    Ok(split)
}

/// Keeps account of bad rows, or refuses the first.
struct BadRows {
    policy: OnBadRow,
    origin: String,
    lines: Option<Vec<u64>>,
    rows: usize,
    null: Vec<bool>,
}

impl BadRows {
    fn found(&mut self, row: usize, fault: impl FnOnce() -> String) -> Result<(), DataError> {
        if self.policy == OnBadRow::Error {
            let place = match self.lines.as_ref().and_then(|lines| lines.get(row)) {
                Some(line) => format!("line {line}"),
                None => format!("row {row} (counted from 0)"),
            };
            return Err(DataError(format!("{}: {place}: {}", self.origin, fault())));
        }
        self.null.resize(self.rows, false);
        self.null[row] = true;
        Ok(())
    }

    fn is_null(&self, row: usize) -> bool {
        self.null.get(row).copied().unwrap_or(false)
    }

    fn at(&mut self, origin: &str) {
        if self.lines.is_none() {
            self.origin = origin.into();
        }
    }
}

fn make_features(
    array: Array,
    wanted: Option<(&str, &[usize])>,
    options: &DataOptions,
    bad: &mut BadRows,
) -> Result<Features, DataError> {
    let rows = array.rows();
    let shape = match wanted {
        Some((name, shape)) if elements(shape, 1) != elements(array.sample_shape(), 1) => {
            return Err(DataError(format!(
                "{}: samples of shape {:?} do not fit the model's input `{name}` of shape {shape:?}: use other data, or \
                 export the model for this shape",
                array.origin,
                array.sample_shape()
            )));
        }
        Some((_, shape)) => shape.to_vec(),
        None => array.sample_shape().to_vec(),
    };
    let mut values: Vec<f32> = match array.values {
        Values::U8(bytes) if options.raw_bytes => bytes.iter().map(|byte| f32::from(*byte)).collect(),
        Values::U8(bytes) => bytes.iter().map(|byte| f32::from(*byte) / 255.0).collect(),
        Values::I64(values) => values.iter().map(|value| *value as f32).collect(),
        Values::F32(values) => values,
        Values::F64(values) => values.iter().map(|value| *value as f32).collect(),
    };
    if let Some((mean, std)) = options.normalize {
        for value in &mut values {
            *value = (*value - mean) / std;
        }
    }
    let width = values.len() / rows;
    bad.at(&array.origin);
    for row in 0..rows {
        if bad.is_null(row) {
            continue;
        }
        if let Some(value) = values[row * width..][..width].iter().find(|value| !value.is_finite()) {
            bad.found(row, || format!("a feature is {value}: correct the row, or use --on-bad-row drop"))?;
        }
    }
    Ok(Features { shape, values })
}

fn make_labels(array: Array, kind: &LabelKind, bad: &mut BadRows) -> Result<Labels, DataError> {
    let rows = array.rows();
    bad.at(&array.origin);
    match kind {
        LabelKind::None => Ok(Labels::None),
        LabelKind::Values { shape } => {
            let shape = match shape {
                Some(shape) if elements(shape, 1) != elements(array.sample_shape(), 1) => {
                    return Err(DataError(format!(
                        "{}: labels of shape {:?} do not fit the model's output of shape {shape:?}: use other labels, or \
                         another loss",
                        array.origin,
                        array.sample_shape()
                    )));
                }
                Some(shape) => shape.clone(),
                None => array.sample_shape().to_vec(),
            };
            let values: Vec<f32> = match array.values {
                Values::U8(values) => values.iter().map(|value| f32::from(*value)).collect(),
                Values::I64(values) => values.iter().map(|value| *value as f32).collect(),
                Values::F32(values) => values,
                Values::F64(values) => values.iter().map(|value| *value as f32).collect(),
            };
            let width = values.len() / rows;
            for row in 0..rows {
                if bad.is_null(row) {
                    continue;
                }
                if let Some(value) = values[row * width..][..width].iter().find(|value| !value.is_finite()) {
                    bad.found(row, || format!("the label is {value}: correct the row, or use --on-bad-row drop"))?;
                }
            }
            Ok(Labels::Values { shape, values })
        }
        LabelKind::Classes { classes } => {
            let mut shape = array.sample_shape().to_vec();
            if shape.iter().all(|extent| *extent == 1) {
                shape.clear();
            }
            if shape.len() > 1 {
                return Err(DataError(format!(
                    "{}: labels have the shape {:?} where class numbers are [N] or [N, S]: use class numbers, not one-hot \
                     rows",
                    array.origin, array.shape
                )));
            }
            let numbers: Vec<f64> = match array.values {
                Values::U8(values) => values.iter().map(|value| f64::from(*value)).collect(),
                Values::I64(values) => values.iter().map(|value| *value as f64).collect(),
                Values::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
                Values::F64(values) => values,
            };
            let width = numbers.len() / rows;
            let end = classes.map_or(9_007_199_254_740_992.0, |classes| classes as f64);
            let good = |label: f64| label == IGNORED as f64 || (label >= 0.0 && label < end && label.fract() == 0.0);
            for row in 0..rows {
                if bad.is_null(row) {
                    continue;
                }
                if let Some(label) = numbers[row * width..][..width].iter().find(|label| !good(**label)) {
                    bad.found(row, || {
                        let range = classes.map_or("a class number from 0".into(), |classes| {
                            format!("one of the model's classes 0 to {}", classes.saturating_sub(1))
                        });
                        format!(
                            "the label {label} is not {range}: correct the row or use --on-bad-row drop, or train a model \
                             with more outputs"
                        )
                    })?;
                }
            }
            Ok(Labels::Classes { shape, values: numbers.iter().map(|label| *label as i64).collect() })
        }
    }
}

/// Null samples hold zeros: nothing of a dropped row stays in memory that a runtime reads.
fn blank(split: &mut Split) {
    for row in (0..split.null.len()).filter(|row| split.null[*row]) {
        for features in &mut split.features {
            let width = features.values.len() / split.rows;
            features.values[row * width..][..width].fill(0.0);
        }
        match &mut split.labels {
            Labels::Classes { values, .. } => {
                let width = values.len() / split.rows;
                values[row * width..][..width].fill(0);
            }
            Labels::Values { values, .. } => {
                let width = values.len() / split.rows;
                values[row * width..][..width].fill(0.0);
            }
            Labels::None => {}
        }
    }
}
