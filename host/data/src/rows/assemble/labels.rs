//! Labels in the shape of the model's output: numbers, probabilities or classes.

use super::bad_rows::BadRows;
use crate::dataset::{IGNORED, Stored, StoredKind};
use crate::numbers::{Held, Number, Room, Sink, not_finite, rounded};
use crate::rows::array::Array;
use crate::rows::fit_shape::fit;
use crate::{ChannelLayout, DataError, DataOptions, LabelKind, Labels};

/// Returns the labels in `array`. Numbers are scaled by `scale`.
pub(super) fn make(
    array: Array,
    scale: Option<(f64, f64)>,
    options: &DataOptions,
    bad: &mut BadRows,
) -> Result<Labels, DataError> {
    bad.at(&array.origin);
    match &options.labels {
        LabelKind::None => Ok(Labels::None),
        LabelKind::Values { shape } => numbers(array, shape.as_deref(), false, scale, options, bad),
        LabelKind::Chances { shape } => numbers(array, shape.as_deref(), true, scale, options, bad),
        LabelKind::Classes { classes, shape } => {
            let shape = shape_of_classes(&array, shape.as_deref())?;
            integers(array, shape, *classes, options, bad)
        }
    }
}

/// Returns true if samples of shape `own` fit `wanted`.
fn fits(own: &[usize], wanted: &[usize]) -> bool {
    fit(own, wanted, ChannelLayout::Nchw).is_ok()
}

/// Labels with one value per sample always stay in memory.
fn room(options: &DataOptions, width: usize) -> Room {
    if width > 1 { options.room() } else { Room::new(None, None) }
}

/// Returns float labels: numbers, or probabilities from 0 to 1.
fn numbers(
    array: Array,
    wanted: Option<&[usize]>,
    are_chances: bool,
    scale: Option<(f64, f64)>,
    options: &DataOptions,
    bad: &mut BadRows,
) -> Result<Labels, DataError> {
    let own = array.sample_shape();
    let shape = match wanted {
        Some(shape) if !fits(own, shape) => {
            return Err(DataError::File(format!(
                "{}: labels of shape {own:?} do not fit the model's output of shape {shape:?}: use other labels, or \
                 `loss` softmax-cross-entropy if they are classes",
                array.origin,
            )));
        }
        Some(shape) => shape.to_vec(),
        None => own.to_vec(),
    };
    let width = shape.iter().product();
    let mut sink = Sink::<f32>::new(&room(options, width));
    array.values.blocks(width, |first, block| {
        let numbers = block;
        let block: Vec<f32> = block.iter().map(|value| rounded(*value, scale)).collect();
        for (at, (number, _)) in numbers.iter().zip(&block).enumerate().filter(|(_, (_, x))| !x.is_finite()) {
            let row = first + at / width.max(1);
            if !bad.is_null(row) {
                bad.found(row, || not_finite(*number, "the label", ""))?;
            }
        }
        if are_chances {
            let good = |value: &f32| (0.0..=1.0).contains(value) || *value == IGNORED as f32;
            bad.check(first, width, &block, good, |value| {
                format!("the label {value} is not from 0 to 1: use 0 and 1, or `loss` mse if the labels are measures")
            })?;
        }
        sink.push(&block)
    })?;
    match sink.finish()? {
        Held::Memory(values) => Ok(Labels::Values { shape, values }),
        Held::File(values) => Ok(Labels::Stored { shape, values: Stored::all(values, StoredKind::F32, width) }),
    }
}

/// Returns the shape of a sample's class numbers.
fn shape_of_classes(array: &Array, wanted: Option<&[usize]>) -> Result<Vec<usize>, DataError> {
    let own = array.sample_shape();
    match wanted {
        Some(shape) if !fits(own, shape) => Err(DataError::File(format!(
            "{}: labels of shape {own:?} do not fit the model's output, which has labels of shape {shape:?}: \
             use class numbers, one for each row of classes (not one-hot rows), or name the axis of the \
             classes with `class_axis`",
            array.origin
        ))),
        Some(shape) => Ok(shape.to_vec()),
        None if own.iter().all(|extent| *extent == 1) => Ok(vec![]),
        None if own.len() == 1 => Ok(own.to_vec()),
        None => Err(DataError::File(format!(
            "{}: labels have the shape {:?} where class numbers are [N] or [N, S]: use class numbers, not \
             one-hot rows",
            array.origin, array.shape
        ))),
    }
}

/// Returns labels that are class numbers, below `classes` if that is known.
fn integers(
    array: Array,
    shape: Vec<usize>,
    classes: Option<usize>,
    options: &DataOptions,
    bad: &mut BadRows,
) -> Result<Labels, DataError> {
    let end = classes.map_or(9_007_199_254_740_992.0, |classes| classes as f64);
    let good = |label: &Number| {
        let class = label.f64();
        class == IGNORED as f64 || (class >= 0.0 && class < end && class.fract() == 0.0)
    };
    let fault = |label: &Number| {
        let range = classes.map_or("a class number from 0".into(), |classes| {
            format!("one of the model's classes 0 to {}", classes.saturating_sub(1))
        });
        let remedy = if classes == Some(1) {
            "for an output of one number use `loss` bce-with-logits, or mse"
        } else if label.f64().fract() == 0.0 {
            "train a model with more outputs, or correct the row"
        } else {
            "correct the row, or use `loss` mse if the labels are measures"
        };
        format!("the label {label} is not {range}: {remedy}")
    };
    let width = shape.iter().product();
    let mut sink = Sink::<i64>::new(&room(options, width));
    array.values.blocks(width, |first, block| {
        if options.stratify
            && let Some(place) = block.iter().position(|label| !good(label))
        {
            let fault = "has no class, and `stratify` takes the class of every row to be known: correct the row";
            return Err(DataError::File(bad.describe(first + place / width, fault)));
        }
        bad.check(first, width, block, good, fault)?;
        sink.push(&block.iter().map(|label| label.f64() as i64).collect::<Vec<_>>())
    })?;
    match sink.finish()? {
        Held::Memory(values) => Ok(Labels::Classes { shape, values }),
        Held::File(values) => Ok(Labels::Stored { shape, values: Stored::all(values, StoredKind::I64, width) }),
    }
}
