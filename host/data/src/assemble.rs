//! Arrays of a file to a split: counts, shapes, scaling, and the owner's checks of every row.

use super::array::{Array, Values, elements};
use super::{DataError, DataOptions, Features, InputShape, LabelKind, Labels, Numbers, OnBadRow, Split};
use damper_onnx::graph::DType;

/// The label of a class or token that does not count.
pub(super) const IGNORED: i64 = -100;

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
    let first = raw.features.first().ok_or_else(|| DataError::File("the model has no data input".into()))?;
    let (rows, origin) = (first.rows(), first.origin.clone());
    if rows == 0 || first.shape.is_empty() {
        return Err(DataError::File(format!("{origin}: holds no samples: use a file that does")));
    }
    // A header may declare any number of them in a few bytes.
    if let Some(empty) = raw.features.iter().chain(&raw.labels).find(|array| array.shape.contains(&0)) {
        return Err(DataError::File(format!(
            "{}: its samples have no elements (the shape is {:?}): use a file whose samples have some",
            empty.origin, empty.shape
        )));
    }
    for array in raw.features.iter().skip(1).chain(&raw.labels) {
        if array.shape.first() != Some(&rows) {
            return Err(DataError::File(format!(
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
        return Err(DataError::File(format!(
            "{}: gives {} arrays of features where the model has {} inputs: use npz with an array of each input's name",
            bad.origin,
            raw.features.len(),
            options.inputs.len()
        )));
    }
    let mut features = Vec::with_capacity(raw.features.len());
    for (index, array) in raw.features.into_iter().enumerate() {
        features.push(make_features(array, options.inputs.get(index), options, &mut bad)?);
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
            return Err(DataError::File(format!("{}: {place}: {}", self.origin, fault())));
        }
        self.null.resize(self.rows, false);
        self.null[row] = true;
        Ok(())
    }

    fn is_null(&self, row: usize) -> bool {
        self.null.get(row).copied().unwrap_or(false)
    }

    /// Finds the rows with a value that is not `good`.
    fn check<T>(
        &mut self,
        rows: usize,
        values: &[T],
        good: impl Fn(&T) -> bool,
        fault: impl Fn(&T) -> String,
    ) -> Result<(), DataError> {
        let width = values.len() / rows;
        for row in (0..rows).filter(|_| width > 0) {
            if self.is_null(row) {
                continue;
            }
            if let Some(value) = values[row * width..][..width].iter().find(|value| !good(value)) {
                self.found(row, || format!("{}, or use `on_bad_row` drop", fault(value)))?;
            }
        }
        Ok(())
    }

    fn at(&mut self, origin: &str) {
        if self.lines.is_none() {
            self.origin = origin.into();
        }
    }
}

fn make_features(
    array: Array,
    wanted: Option<&InputShape>,
    options: &DataOptions,
    bad: &mut BadRows,
) -> Result<Features, DataError> {
    let shape = match wanted {
        Some(InputShape { name, shape, .. }) if elements(shape, 1) != elements(array.sample_shape(), 1) => {
            return Err(DataError::File(format!(
                "{}: samples of shape {:?} do not fit the model's input '{name}' of shape {shape:?}: use other data, or \
                 export the model for this shape",
                array.origin,
                array.sample_shape()
            )));
        }
        Some(InputShape { shape, .. }) => shape.clone(),
        None => array.sample_shape().to_vec(),
    };
    bad.at(&array.origin);
    let values = match wanted {
        Some(input) if input.dtype == DType::I64 => Numbers::I64(integers(array, input, bad)?),
        _ => Numbers::F32(floats(array, options, bad)?),
    };
    Ok(Features { shape, values })
}

fn floats(array: Array, options: &DataOptions, bad: &mut BadRows) -> Result<Vec<f32>, DataError> {
    let rows = array.rows();
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
    bad.check(rows, &values, |value| value.is_finite(), |value| format!("a feature is {value}: correct the row"))?;
    Ok(values)
}

/// Whole numbers, neither scaled nor normalized.
fn integers(array: Array, input: &InputShape, bad: &mut BadRows) -> Result<Vec<i64>, DataError> {
    let rows = array.rows();
    let whole = |value: &f64| value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
    let numbers = |values: Vec<f64>, bad: &mut BadRows| {
        let name = &input.name;
        bad.check(rows, &values, whole, |value| {
            format!("a feature is {value} where the model's input '{name}' takes whole numbers: correct the row")
        })?;
        Ok::<_, DataError>(values.iter().map(|value| *value as i64).collect())
    };
    let values: Vec<i64> = match array.values {
        Values::U8(bytes) => bytes.iter().map(|byte| i64::from(*byte)).collect(),
        Values::I64(values) => values,
        Values::F32(values) => numbers(values.iter().map(|value| f64::from(*value)).collect(), bad)?,
        Values::F64(values) => numbers(values, bad)?,
    };
    if let Some(limit) = input.rows {
        let in_table = |value: &i64| usize::try_from(*value).is_ok_and(|value| value < limit);
        bad.check(rows, &values, in_table, |value| {
            format!(
                "a feature is {value} where the model's input '{}' looks up rows 0 to {}: correct the row",
                input.name,
                limit.saturating_sub(1)
            )
        })?;
    }
    Ok(values)
}

fn make_labels(array: Array, kind: &LabelKind, bad: &mut BadRows) -> Result<Labels, DataError> {
    let rows = array.rows();
    bad.at(&array.origin);
    match kind {
        LabelKind::None => Ok(Labels::None),
        LabelKind::Values { shape } => {
            let shape = match shape {
                Some(shape) if elements(shape, 1) != elements(array.sample_shape(), 1) => {
                    return Err(DataError::File(format!(
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
            bad.check(
                rows,
                &values,
                |value| value.is_finite(),
                |value| format!("the label is {value}: correct the row"),
            )?;
            Ok(Labels::Values { shape, values })
        }
        LabelKind::Classes { classes, shape } => {
            let own = array.sample_shape();
            let shape = match shape {
                Some(shape) if elements(shape, 1) != elements(own, 1) => {
                    return Err(DataError::File(format!(
                        "{}: labels of shape {own:?} do not fit the model's output, which has labels of shape {shape:?}: \
                         use class numbers, one for each row of classes (not one-hot rows), or name the axis of the \
                         classes with `class_axis`",
                        array.origin
                    )));
                }
                Some(shape) => shape.clone(),
                None if own.iter().all(|extent| *extent == 1) => vec![],
                None if own.len() == 1 => own.to_vec(),
                None => {
                    return Err(DataError::File(format!(
                        "{}: labels have the shape {:?} where class numbers are [N] or [N, S]: use class numbers, not \
                         one-hot rows",
                        array.origin, array.shape
                    )));
                }
            };
            let numbers: Vec<f64> = match array.values {
                Values::U8(values) => values.iter().map(|value| f64::from(*value)).collect(),
                Values::I64(values) => values.iter().map(|value| *value as f64).collect(),
                Values::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
                Values::F64(values) => values,
            };
            let end = classes.map_or(9_007_199_254_740_992.0, |classes| classes as f64);
            let good =
                |label: &f64| *label == IGNORED as f64 || (*label >= 0.0 && *label < end && label.fract() == 0.0);
            bad.check(rows, &numbers, good, |label| {
                let range = classes.map_or("a class number from 0".into(), |classes| {
                    format!("one of the model's classes 0 to {}", classes.saturating_sub(1))
                });
                format!("the label {label} is not {range}: train a model with more outputs, correct the row")
            })?;
            Ok(Labels::Classes { shape, values: numbers.iter().map(|label| *label as i64).collect() })
        }
    }
}

/// Null samples hold zeros: nothing of a dropped row stays in memory that a runtime reads.
fn blank(split: &mut Split) {
    for row in (0..split.null.len()).filter(|row| split.null[*row]) {
        for features in &mut split.features {
            let width = features.shape.iter().product::<usize>();
            match &mut features.values {
                Numbers::F32(values) => values[row * width..][..width].fill(0.0),
                Numbers::I64(values) => values[row * width..][..width].fill(0),
            }
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
