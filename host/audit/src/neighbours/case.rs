//! Neighbouring data sets: the samples that are added, removed and put in the place of others.

use damper_data::{Labels, Numbers, Sample, Split};
use serde::Serialize;

/// The difference of a data set and its neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// One sample more, behind the others.
    Added,
    /// One sample is a null sample, which contributes nothing.
    Removed,
    /// One sample is another.
    Replaced,
    /// No sample is another; they lie in other rows, chunks and workers.
    Moved,
}

/// The sample that comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// Another sample of the data once more.
    Duplicate,
    /// A sample with numbers ten thousand times as large and another label.
    Huge,
    /// The same with the opposite sign and its own label.
    Contrary,
    /// A sample whose numbers are none.
    Nan,
    /// A sample with an infinity in the middle.
    Infinite,
}

/// All that come in.
const ALL: [Made; 5] = [Made::Duplicate, Made::Huge, Made::Contrary, Made::Nan, Made::Infinite];

/// How much larger made-up numbers are: far above any clip, and far from where squares overflow.
const HUGE: f32 = 1e4;

/// A neighbour of the data set.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Case {
    pub(crate) change: Change,
    pub(crate) made: Option<Made>,
    /// The sample that differs.
    pub(crate) index: u32,
    /// The added sample; none if one is removed.
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
    /// The cases that this data has: the sample behind the last is added; sample `index` is removed, or replaced by one made of it;
    /// `donor` is another sample. Data without floats has none that is not finite.
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

    /// Makes the neighbour of `split`.
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

    /// Makes the data set again.
    pub(crate) fn undo(&self, split: &mut Split, undo: Undo) {
        match undo {
            Undo::Pop => split.pop(),
            Undo::Restore(sample) => split.replace(self.index as usize, &sample),
            Undo::Revive => split.set_null(self.index as usize, false),
        }
    }

    /// The largest move of the sum, in clips.
    pub(crate) fn clips(&self) -> u32 {
        if self.change == Change::Replaced { 2 } else { 1 }
    }

    /// In a few words.
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

/// The range of the data's integers: made-up ones stay within.
struct Extent {
    /// Of each integer input.
    features: Vec<(i64, i64)>,
    /// The largest class.
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

/// The sample that `made` names; none where this data has no such sample.
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
                    // Labels below 0 are not counted, and stay so.
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

/// Floats of a sample, where it has some.
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
