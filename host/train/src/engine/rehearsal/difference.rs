//! Differing bits in the gradients of one sample, with a description.

use super::made::Made;
use damper_runtime::{BackendError, Session, SessionSpec};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};

/// A test that a sample's gradient depends on that sample alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IndependenceTest {
    /// The sample moves to another row.
    OtherRow,
    /// Other samples are in the other rows.
    OtherNeighbours,
}

/// An output of one sample whose bits differ in two runs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Difference {
    pub(super) test: IndependenceTest,
    pub(super) output: String,
    /// The row of the sample in each run.
    pub(super) rows: [usize; 2],
    /// The first entry that differs, with its two values. `None` if both were equal when they were recomputed.
    pub(super) entry: Option<(usize, [f32; 2])>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { test, output, rows: [from, to], entry } = self;
        match test {
            IndependenceTest::OtherRow => {
                write!(f, "'{output}' of the synthetic sample in row {from} has other bits in row {to}: ")
            }
            IndependenceTest::OtherNeighbours => {
                write!(f, "'{output}' of the synthetic sample in row {from} has other bits next to other samples: ")
            }
        }?;
        match entry {
            Some((at, [one, other])) => {
                write!(f, "entry {at} is {one:e} ({:#010x}), then {other:e} ({:#010x})", one.to_bits(), other.to_bits())
            }
            None => write!(f, "computed again, all of its bits were equal, so the backend does not repeat them"),
        }
    }
}

/// 64-bit hashes of a run's outputs. Outputs follow each other, each with an entry per row. Storing the outputs of
/// three runs would exceed the memory of training.
pub(super) struct RunBits {
    hashes: Vec<u64>,
    /// For each row, true if all of its outputs are finite.
    pub(super) finite: Vec<bool>,
}

impl RunBits {
    /// Runs `session` on `made`, and hashes its outputs.
    pub(super) fn of(session: &mut dyn Session, made: &[Made], rows: usize) -> Result<Self, BackendError> {
        let mut bits = Self { hashes: vec![], finite: vec![true; rows] };
        session.run(&made.iter().map(Made::input).collect::<Vec<_>>(), &mut |outputs| {
            for output in outputs {
                for (values, finite) in output.chunks((output.len() / rows).max(1)).zip(&mut bits.finite) {
                    let mut hasher = DefaultHasher::new();
                    values.iter().for_each(|value| hasher.write_u32(value.to_bits()));
                    bits.hashes.push(hasher.finish());
                    *finite &= values.iter().all(|value| value.is_finite());
                }
            }
        })?;
        Ok(bits)
    }

    /// Returns the first output and the rows in which `self` and `other` differ, over all pairs of `rows`.
    pub(super) fn differs(
        &self,
        other: &Self,
        rows: impl Iterator<Item = [usize; 2]> + Clone,
    ) -> Option<(usize, [usize; 2])> {
        let count = self.finite.len();
        let outputs = 0..self.hashes.len() / count;
        let mut pairs = outputs.flat_map(|output| rows.clone().map(move |rows| (output, rows)));
        pairs.find(|(output, [one, two])| self.hashes[output * count + one] != other.hashes[output * count + two])
    }
}

impl Difference {
    /// Repeats both runs to find the differing values.
    pub(super) fn locate(
        session: &mut dyn Session,
        plan: &SessionSpec,
        test: IndependenceTest,
        made: [Vec<Made>; 2],
        (output, rows): (usize, [usize; 2]),
    ) -> Result<Self, BackendError> {
        let mut values = [vec![], vec![]];
        for ((made, row), values) in made.iter().zip(rows).zip(&mut values) {
            session.run(&made.iter().map(Made::input).collect::<Vec<_>>(), &mut |outputs| {
                let width = outputs[output].len() / plan.batch;
                values.extend_from_slice(&outputs[output][row * width..(row + 1) * width]);
            })?;
        }
        let [one, two] = values;
        let mut pairs = one.into_iter().zip(two).enumerate();
        let entry = pairs.find(|(_, (one, two))| one.to_bits() != two.to_bits());
        let entry = entry.map(|(at, (one, two))| (at, [one, two]));
        Ok(Self { test, output: plan.outputs[output].name.clone(), rows, entry })
    }
}
