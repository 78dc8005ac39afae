//! Assembles a split from the arrays of a file: counts, shapes, scaling, and the owner's checks of every row.

mod bad_rows;
mod labels;

use super::array::Array;
use super::fit_shape::{Fit, fit, to_front};
use super::line_of_row::LineNumbers;
use crate::dataset::{Scaling, Stored, StoredKind};
use crate::numbers::{Element, Held, Number, Room, Sink, Values, rounded};
use crate::options::check;
use crate::{DataError, DataOptions, Features, InputShape, Labels, Numbers, Split};
use bad_rows::{BadRows, place};
use damper_onnx::SettingError;
use damper_onnx::graph::DType;

/// The arrays of a split, as stored in a file.
pub(crate) struct RawSplit {
    /// One array per model input.
    pub features: Vec<Array>,
    pub labels: Option<Array>,
    /// Rows that a reader could not convert to numbers, ascending, with reasons.
    pub unreadable: Vec<(usize, String)>,
    /// The lines of the rows, for messages. `None` if messages use row indices.
    pub lines: Option<LineNumbers>,
    /// True if the features have the model's type, with all constants applied.
    pub is_scaled: bool,
    /// The public constants of the label column.
    pub label_scale: Option<(f64, f64)>,
}

impl RawSplit {
    pub fn new(features: Vec<Array>, labels: Option<Array>) -> Self {
        Self { features, labels, unreadable: Vec::new(), lines: None, is_scaled: false, label_scale: None }
    }
}

pub(crate) fn assemble(raw: RawSplit, options: &DataOptions) -> Result<Split, DataError> {
    let first = raw.features.first().ok_or_else(|| DataError::File("the model has no data input".into()))?;
    let (rows, origin) = (first.rows(), first.origin.clone());
    if rows == 0 || first.shape.is_empty() {
        return Err(DataError::File(format!("{origin}: holds no samples: use a file that does")));
    }
    // A header of a few bytes may declare any number of empty samples.
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

    let mut bad = BadRows {
        policy: options.on_bad_row,
        file: origin.clone(),
        origin,
        lines: raw.lines,
        rows,
        null: Vec::new(),
        first: None,
    };
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
    let are_bytes = raw.features.iter().map(|array| matches!(array.values, Values::U8(_))).collect();
    for (index, array) in raw.features.into_iter().enumerate() {
        features.push(make_features(array, raw.is_scaled, options.inputs.get(index), options, &mut bad)?);
    }
    let label_scale = match raw.label_scale {
        None if !raw.is_scaled => of_array(options)?,
        given => given,
    };
    let labels = match raw.labels {
        Some(array) => labels::make(array, label_scale, options, &mut bad)?,
        None => Labels::None,
    };
    bad.refuse_many()?;
    let mut split = Split { rows, features, labels, null: bad.null, held: None, are_bytes, label_scale };
    blank(&mut split, options.stratify);
    Ok(split)
}

/// Returns the public constants of labels in an array, which is called `labels`.
fn of_array(options: &DataOptions) -> Result<Option<(f64, f64)>, DataError> {
    options.scale.iter().try_fold(None, |before, (wanted, mean, std)| {
        check::scale(wanted, *mean, *std)?;
        if wanted == "labels" {
            return Ok(Some(check::label_scale(options, wanted, before, (*mean, *std))?));
        }
        let problem = "these samples have no columns; use `normalize`, or labels=MEAN,STD for the labels";
        Err(SettingError::new("scale", wanted, problem).into())
    })
}

fn make_features(
    array: Array,
    is_scaled: bool,
    wanted: Option<&InputShape>,
    options: &DataOptions,
    bad: &mut BadRows,
) -> Result<Features, DataError> {
    let own = array.sample_shape();
    let shape = wanted.map_or(own, |input| &input.shape);
    let fit = fit(own, shape, options.layout).map_err(|remedy| {
        let input = wanted.map_or(String::new(), |input| format!("'{}' ", input.name));
        DataError::File(format!(
            "{}: samples of shape {own:?} do not fit the model's input {input}of shape {shape:?}: {remedy}",
            array.origin
        ))
    })?;
    let shape = shape.to_vec();
    bad.at(&array.origin);
    let room = &options.room();
    let width = shape.iter().product();
    let values = match wanted {
        Some(input) if input.dtype == DType::I64 => integers(array, width, fit, input, room, bad)?,
        _ => {
            let normalize = options.normalize.as_ref().filter(|_| !is_scaled);
            let scaling = Scaling::new(normalize, &shape, options.raw_bytes)?;
            floats(array, width, fit, scaling, options.unrounded, room, bad)?
        }
    };
    Ok(Features { shape, values })
}

/// Returns `values` with the channels on the model's axis.
fn placed<T: Copy>(values: &[T], width: usize, fit: Fit) -> Vec<T> {
    match fit {
        Fit::AsIs => values.to_vec(),
        Fit::ChannelsFirst(channels) => to_front(values, width, channels),
    }
}

fn floats(
    array: Array,
    width: usize,
    fit: Fit,
    scaling: Scaling,
    unrounded: bool,
    room: &Room,
    bad: &mut BadRows,
) -> Result<Numbers, DataError> {
    let values = match array.values {
        Values::U8(bytes) => return of_bytes(bytes, width, fit, scaling, room, bad),
        Values::F32(Held::Memory(mut values)) if fit == Fit::AsIs => {
            // Non-finite values stay non-finite.
            let faults: Vec<_> =
                values.iter().enumerate().filter(|(_, x)| !x.is_finite()).map(|(at, x)| (at, *x)).collect();
            scaling.apply(&mut values, width);
            for (at, x) in faults {
                bad.check_floats(at / width.max(1), 1, std::iter::once(x.into()), &[f32::NAN])?;
            }
            let scaled = values.iter().map(|x| Number::from(*x));
            bad.check_floats(0, width, scaled, &values)?;
            return Ok(Numbers::F32(values));
        }
        Values::F32(Held::File(file)) if fit == Fit::AsIs && scaling.is_identity() => {
            let held = Held::<f32>::File(file.clone());
            held.blocks(width, |first, block| {
                bad.check_floats(first, width, block.iter().map(|x| Number::from(*x)), block)
            })?;
            return Ok(Numbers::Stored(Stored::all(file, StoredKind::F32, width)));
        }
        values => values,
    };
    // 32-bit floats fit exactly, so they do not need float64.
    if unrounded && !matches!(values, Values::F32(_)) {
        let mut sink = Sink::<f64>::new(room);
        values.blocks(width, |first, block| {
            let block = placed(block, width, fit);
            let single: Vec<f32> = block.iter().map(|value| value.f32()).collect();
            bad.check_floats(first, width, block.iter().copied(), &single)?;
            let wide = |(at, value): (usize, &Number)| match scaling.constants(at % width.max(1)) {
                None => value.f64(),
                Some((mean, std)) => value.scaled(mean, std),
            };
            sink.push(&block.iter().enumerate().map(wide).collect::<Vec<_>>())
        })?;
        return Ok(Numbers::Stored(Stored::all(sink.finish()?.into_file_values(), StoredKind::F64, width)));
    }
    let mut sink = Sink::<f32>::new(room);
    values.blocks(width, |first, block| {
        let block = placed(block, width, fit);
        let single = |(at, value): (usize, &Number)| rounded(*value, scaling.constants(at % width.max(1)));
        let floats: Vec<f32> = block.iter().enumerate().map(single).collect();
        bad.check_floats(first, width, block.into_iter(), &floats)?;
        sink.push(&floats)
    })?;
    finished(sink, width)
}

/// Returns the floats of `sink` as samples of `width` values.
fn finished(sink: Sink<f32>, width: usize) -> Result<Numbers, DataError> {
    match sink.finish()? {
        Held::Memory(values) => Ok(Numbers::F32(values)),
        Held::File(values) => Ok(Numbers::Stored(Stored::all(values, StoredKind::F32, width))),
    }
}

/// Converts bytes, such as pixels. They are divided and scaled in float32. Recorded runs on images depend on these
/// bits.
fn of_bytes(
    bytes: Held<u8>,
    width: usize,
    fit: Fit,
    scaling: Scaling,
    room: &Room,
    bad: &mut BadRows,
) -> Result<Numbers, DataError> {
    // Bytes take a quarter of the space of floats.
    if !room.holds(bytes.len(), f32::WIDTH) && scaling.keeps_bytes_finite() {
        let file = match bytes {
            Held::File(file) if fit == Fit::AsIs => file,
            bytes => {
                let mut sink = Sink::in_file(room);
                bytes.blocks(width, |_, block| sink.push(&placed(block, width, fit)))?;
                sink.finish()?.into_file_values()
            }
        };
        return Ok(Numbers::Stored(Stored::all(file, StoredKind::Bytes(scaling), width)));
    }
    let mut sink = Sink::<f32>::new(room);
    bytes.blocks(width, |first, block| {
        let mut block: Vec<f32> = placed(block, width, fit).into_iter().map(|byte| scaling.byte(byte)).collect();
        scaling.apply_to_bytes(&mut block, width);
        bad.check_floats(first, width, block.iter().map(|x| Number::from(*x)), &block)?;
        sink.push(&block)
    })?;
    finished(sink, width)
}

/// Converts integers, which are neither scaled nor normalised.
fn integers(
    array: Array,
    width: usize,
    fit: Fit,
    input: &InputShape,
    room: &Room,
    bad: &mut BadRows,
) -> Result<Numbers, DataError> {
    let name = &input.name;
    let mut sink = Sink::<i64>::new(room);
    let mut push = |bad: &mut BadRows, first: usize, block: Vec<i64>| {
        let block = placed(&block, width, fit);
        if let Some(limit) = input.rows {
            let in_table = |value: &i64| usize::try_from(*value).is_ok_and(|value| value < limit);
            bad.check(first, width, &block, in_table, |value| {
                format!(
                    "a feature is {value} where the model's input '{name}' looks up rows 0 to {}: correct the row",
                    limit.saturating_sub(1)
                )
            })?;
        }
        sink.push(&block)
    };
    let whole = |bad: &mut BadRows, first: usize, block: &[Number]| {
        let width = width.max(1);
        let mut integers = Vec::with_capacity(block.len());
        for (at, value) in block.iter().enumerate() {
            let (row, integer) = (first + at / width, value.integer());
            if let (Err(problem), false) = (integer, bad.is_null(row)) {
                let value_at = place("a feature", at % width, width);
                bad.found(row, || format!("{value_at} is {value} where the model's input '{name}' {problem}"))?;
            }
            integers.push(integer.unwrap_or(0));
        }
        Ok::<Vec<i64>, DataError>(integers)
    };
    match array.values {
        Values::I64(held) => held.blocks(width, |first, block| push(bad, first, block.to_vec())),
        values => values.blocks(width, |first, block| {
            let block = whole(bad, first, block)?;
            push(bad, first, block)
        }),
    }?;
    match sink.finish()? {
        Held::Memory(values) => Ok(Numbers::I64(values)),
        Held::File(values) => Ok(Numbers::Stored(Stored::all(values, StoredKind::I64, width))),
    }
}

/// Zeroes the null samples, so that no value of a dropped row stays in memory that a runtime reads. Public classes
/// stay.
fn blank(split: &mut Split, classes_are_public: bool) {
    for row in (0..split.null.len()).filter(|row| split.null[*row]) {
        for features in &mut split.features {
            let width = features.shape.iter().product::<usize>();
            match &mut features.values {
                Numbers::F32(values) => values[row * width..][..width].fill(0.0),
                Numbers::I64(values) => values[row * width..][..width].fill(0),
                // Filling a batch writes zeros instead.
                Numbers::Stored(_) => {}
            }
        }
        match &mut split.labels {
            Labels::Classes { values, .. } if !classes_are_public => {
                let width = values.len() / split.rows;
                values[row * width..][..width].fill(0);
            }
            Labels::Values { values, .. } => {
                let width = values.len() / split.rows;
                values[row * width..][..width].fill(0.0);
            }
            Labels::Classes { .. } | Labels::Stored { .. } | Labels::None => {}
        }
    }
}
