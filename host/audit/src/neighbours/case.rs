//! Neighbouring data sets: samples that are added, removed or replaced.

use damper_data::{Labels, Numbers, Sample, Split};
use serde::Serialize;

/// Difference between a data set and its neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// One more sample, after the others.
    Added,
    /// One sample becomes a null sample, which contributes nothing.
    Removed,
    /// One sample is replaced.
    Replaced,
    /// No sample changes, but all are in other rows, chunks and workers.
    Moved,
}

/// Kind of the sample that is added or substituted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// A second copy of another sample of the data.
    Duplicate,
    /// A sample with values ten thousand times as large and another label.
    Huge,
    /// The same with the opposite sign and its own label.
    Contrary,
    /// A sample with NaN values.
    Nan,
    /// A sample with an infinity in the middle.
    Infinite,
}

/// All kinds.
const ALL: [Made; 5] = [Made::Duplicate, Made::Huge, Made::Contrary, Made::Nan, Made::Infinite];

/// Factor on synthetic values. They are far above any clip, and their squares do not overflow.
const HUGE: f32 = 1e4;

/// A neighbour of the data set.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Case {
    pub(crate) change: Change,
    pub(crate) made: Option<Made>,
    /// Index of the sample that differs.
    pub(crate) index: u32,
    /// The added or substituted sample. `None` if a sample is removed.
    sample: Option<Sample>,
}

/// The change that restores the data set.
#[must_use]
pub(crate) enum Undo {
    Pop,
    Restore(Box<Sample>),
    Revive,
}

impl Case {
    /// Returns the cases for this data. A sample is added after the last. Sample `index` is removed, or replaced by
    /// samples derived from it.
    ///
    /// `donor` is another sample. Data without floats has no case that is not finite.
    pub(crate) fn all(split: &Split, index: u32, donor: u32) -> Vec<Self> {
        let (own, donor) = (split.sample(index as usize), split.sample(donor as usize));
        let extent = Extent::of(split);
        let added = ALL.into_iter().filter_map(|made| {
            let sample = Some(make(made, &donor, &donor, &extent)?);
            Some(Self { change: Change::Added, made: Some(made), index: split.len() as u32, sample })
        });
        let replaced = ALL.into_iter().filter_map(|made| {
            let sample = Some(make(made, &own, &donor, &extent)?);
            Some(Self { change: Change::Replaced, made: Some(made), index, sample })
        });
        let removed = Self { change: Change::Removed, made: None, index, sample: None };
        added.chain([removed]).chain(replaced).collect()
    }

    /// Changes `split` into its neighbour.
    pub(crate) fn apply(&self, split: &mut Split) -> Undo {
        match &self.sample {
            None => {
                split.set_null(self.index as usize, true);
                Undo::Revive
            }
            Some(sample) if self.change == Change::Added => {
                split.push(sample);
                Undo::Pop
            }
            Some(sample) => {
                let before = split.sample(self.index as usize);
                split.replace(self.index as usize, sample);
                Undo::Restore(Box::new(before))
            }
        }
    }

    /// Restores the data set.
    pub(crate) fn undo(&self, split: &mut Split, undo: Undo) {
        match undo {
            Undo::Pop => split.pop(),
            Undo::Restore(sample) => split.replace(self.index as usize, &sample),
            Undo::Revive => split.set_null(self.index as usize, false),
        }
    }

    /// Returns the largest permitted move of the sum, in clips.
    pub(crate) fn clips(&self) -> u32 {
        if self.change == Change::Replaced { 2 } else { 1 }
    }

    /// Returns a short description.
    pub(crate) fn name(&self) -> String {
        let made = match self.made {
            None => return "one sample removed".into(),
            Some(Made::Duplicate) => "a duplicate",
            Some(Made::Huge) => "a huge one",
            Some(Made::Contrary) => "a huge one of opposite sign",
            Some(Made::Nan) => "one of NaNs",
            Some(Made::Infinite) => "one with an infinity",
        };
        match self.change {
            Change::Added => format!("one sample added, {made}"),
            _ => format!("one sample replaced by {made}"),
        }
    }
}

/// Range of the data's integers. Synthetic integers stay within it.
struct Extent {
    /// Range of each integer input.
    features: Vec<(i64, i64)>,
    /// Largest class.
    class: i64,
}

impl Extent {
    fn of(split: &Split) -> Self {
        let range = |values: &[i64]| {
            (values.iter().min().copied().unwrap_or_default(), values.iter().max().copied().unwrap_or_default())
        };
        Self {
            features: split.features().iter().map(|features| range(features.integers())).collect(),
            class: match split.labels() {
                Labels::Classes { values, .. } => range(values).1,
                Labels::Values { .. } | Labels::Stored { .. } | Labels::None => 0,
            },
        }
    }
}

/// Returns the sample that `made` names, or `None` if this data has no such sample.
fn make(made: Made, from: &Sample, donor: &Sample, extent: &Extent) -> Option<Sample> {
    let mut sample = if made == Made::Duplicate { donor.clone() } else { from.clone() };
    match made {
        Made::Duplicate => {}
        Made::Huge | Made::Contrary => {
            let factor = if made == Made::Huge { HUGE } else { -HUGE };
            for (features, (least, largest)) in sample.features.iter_mut().zip(&extent.features) {
                match features {
                    Numbers::F32(values) => values.iter_mut().for_each(|value| *value *= factor),
                    Numbers::I64(values) => values.fill(if made == Made::Huge { *largest } else { *least }),
                    Numbers::Stored(_) => {}
                }
            }
            match &mut sample.labels {
                Labels::Classes { values, .. } if made == Made::Huge => {
                    // Labels below 0 are not counted, so they stay unchanged.
                    for label in values.iter_mut().filter(|label| **label >= 0) {
                        *label = (*label + 1) % (extent.class + 1);
                    }
                }
                Labels::Values { values, .. } => values.iter_mut().for_each(|value| *value = (*value + 1.0) * factor),
                Labels::Classes { .. } | Labels::Stored { .. } | Labels::None => {}
            }
        }
        Made::Nan => floats(&mut sample)?.fill(f32::NAN),
        Made::Infinite => {
            let values = floats(&mut sample)?;
            let middle = values.len() / 2;
            *values.get_mut(middle)? = f32::INFINITY;
        }
    }
    Some(sample)
}

/// Returns the floats of a sample, if it has any.
fn floats(sample: &mut Sample) -> Option<&mut Vec<f32>> {
    let features = sample.features.iter_mut().find_map(|features| match features {
        Numbers::F32(values) if !values.is_empty() => Some(values),
        _ => None,
    });
    features.or(match &mut sample.labels {
        Labels::Values { values, .. } => Some(values),
        Labels::Classes { .. } | Labels::Stored { .. } | Labels::None => None,
    })
}
