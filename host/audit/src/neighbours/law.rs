//! Checks of one step on two neighbouring data sets.

use super::case::{Case, Change};
use crate::sum_probe::SumProbe;
use damper_core::clip::Layer;
use damper_train::inside::step_loop::StepSum;

/// A step on one data set.
pub(crate) struct Side {
    pub(crate) sum_probe: SumProbe,
    /// Each drawn sample with the digest of its combined gradient, or `None` if that is not finite. Empty if no
    /// per-sample gradients are computed.
    pub(crate) samples: Vec<(u32, Option<u64>)>,
}

impl Side {
    /// Returns true if `sample` was drawn.
    pub(crate) fn drew(&self, sample: u32) -> bool {
        self.sum_probe.draw.binary_search(&sample).is_ok()
    }

    /// Returns true if `sample` was drawn and its gradient is not finite.
    fn refused(&self, sample: u32) -> bool {
        self.samples.iter().any(|(index, digest)| *index == sample && digest.is_none())
    }
}

/// A failed check.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CheckFailure {
    pub(crate) what: String,
    pub(crate) sample: u32,
    /// Coordinate of the flat gradient. `None` if the check does not concern one coordinate.
    pub(crate) coordinate: Option<usize>,
    /// True if the gradient of the sample itself moved. A second pass then finds the coordinate.
    pub(crate) moved: bool,
}

/// The grid and layers of a run.
pub(crate) struct Checks<'a> {
    pub(crate) grid_bits: u32,
    pub(crate) layers: &'a [Layer],
}

impl Checks<'_> {
    /// Compares a step on the data set, `base`, with the same step on its neighbour, `seen`.
    pub(crate) fn check(&self, base: &Side, seen: &Side, case: &Case) -> Result<(), CheckFailure> {
        same_course(base, seen, case)?;
        others_unmoved(base, seen, case)?;
        let breach =
            |(what, coordinate)| CheckFailure { what, sample: case.index, coordinate: Some(coordinate), moved: false };
        match (&base.sum_probe.sum, &seen.sum_probe.sum) {
            (StepSum::Grid(base_sum), StepSum::Grid(seen_sum)) => {
                let moved: Vec<i64> = seen_sum.iter().zip(base_sum).map(|(a, b)| a.wrapping_sub(*b)).collect();
                if must_not_move(base, seen, case) {
                    still(&moved).map_err(breach)?;
                }
                self.within(&moved, case.clips()).map_err(breach)?;
            }
            (StepSum::Floats(base_sum), StepSum::Floats(seen_sum)) => {
                let moved: Vec<f64> =
                    seen_sum.iter().zip(base_sum).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect();
                let samples = base.sum_probe.draw.len().max(seen.sum_probe.draw.len());
                within_floats(&moved, case.clips(), base.sum_probe.clip, samples).map_err(breach)?;
            }
            _ => unreachable!("one run sums in one kind of words"),
        }
        counted_once(base, seen, case)
    }

    /// Compares a step with the same step on moved samples: sum and counts must be equal.
    pub(crate) fn moved(&self, base: &SumProbe, seen: &SumProbe) -> Result<(), (String, Option<usize>)> {
        let mut samples = seen.draw.clone();
        samples.sort_unstable();
        if samples != base.draw {
            return Err(("the draw has other samples".into(), None));
        }
        let breach =
            |(what, at): (String, usize)| (format!("samples in other rows, chunks and workers: {what}"), Some(at));
        match (&base.sum, &seen.sum) {
            (StepSum::Grid(base), StepSum::Grid(seen)) => {
                still(&seen.iter().zip(base).map(|(a, b)| a.wrapping_sub(*b)).collect::<Vec<_>>()).map_err(breach)?;
            }
            (StepSum::Floats(one), StepSum::Floats(other)) => {
                let moved: Vec<f64> = other.iter().zip(one).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect();
                within_floats(&moved, 0, base.clip, base.draw.len()).map_err(breach)?;
            }
            _ => unreachable!("one run sums in one kind of words"),
        }
        if base.counts == seen.counts {
            Ok(())
        } else {
            Err(("samples in other rows, chunks and workers: the counts of norms are others".into(), None))
        }
    }

    /// Compares in integers: the squared move is at most the square of `clips` clips, for the whole and for each layer.
    fn within(&self, moved: &[i64], clips: u32) -> Result<(), (String, usize)> {
        let check = |moved: &[i64], units: u64, from: usize, what: &str| {
            let bound = u128::from(units) * u128::from(units) * u128::from(clips) * u128::from(clips);
            let square = moved
                .iter()
                .fold(0u128, |sum, x| sum.saturating_add(u128::from(x.unsigned_abs()) * u128::from(x.unsigned_abs())));
            if square <= bound {
                return Ok(());
            }
            let at = largest(moved.iter().map(|x| x.unsigned_abs()));
            Err((
                format!(
                    "the {what} moved by {:.6} clips ({square} grid units squared), where {clips} is the limit ({bound}); \
                     most of it here, {} units",
                    (square as f64).sqrt() / units as f64,
                    moved[at]
                ),
                from + at,
            ))
        };
        check(moved, 1 << self.grid_bits, 0, "clipped sum")?;
        let mut from = 0;
        for layer in self.layers {
            let units = layer.share >> 22u32.saturating_sub(self.grid_bits);
            check(&moved[from..from + layer.len], u64::from(units), from, "sum of a tensor, in its own clip,")?;
            from += layer.len;
        }
        Ok(())
    }
}

/// Checks for the same step, release and draw, except for the sample that was added.
fn same_course(base: &Side, seen: &Side, case: &Case) -> Result<(), CheckFailure> {
    let (one, other) = (&base.sum_probe, &seen.sum_probe);
    let breach =
        |what: &str| Err(CheckFailure { what: what.into(), sample: case.index, coordinate: None, moved: false });
    if one.number != other.number || one.points != other.points {
        return breach("the step has another number, or other points");
    }
    if one.event != other.event || one.clip.to_bits() != other.clip.to_bits() {
        return breach("the step is priced as another event, or has another clip");
    }
    let others = |draw: &[u32]| -> Vec<u32> {
        draw.iter().copied().filter(|sample| case.change != Change::Added || *sample != case.index).collect()
    };
    if others(&one.draw) != others(&other.draw) {
        return breach("the draw has other samples");
    }
    Ok(())
}

/// Checks that every other sample's gradient has the same bits, so that it adds the same values.
fn others_unmoved(base: &Side, seen: &Side, case: &Case) -> Result<(), CheckFailure> {
    let others = |side: &Side| -> Vec<(u32, Option<u64>)> {
        side.samples.iter().copied().filter(|(sample, _)| *sample != case.index).collect()
    };
    let (one, other) = (others(base), others(seen));
    let parted = one.iter().zip(&other).find(|(a, b)| a != b);
    match parted {
        None if one.len() == other.len() => Ok(()),
        Some(((a, _), (b, _))) if a == b => Err(CheckFailure {
            what: format!("another sample's gradient moved with sample {}", case.index),
            sample: *a,
            coordinate: None,
            moved: true,
        }),
        _ => Err(CheckFailure {
            what: "other samples reached the sum".into(),
            sample: case.index,
            coordinate: None,
            moved: false,
        }),
    }
}

/// Returns true if the sum must not move: the sample was not drawn, or was added and is not finite.
fn must_not_move(base: &Side, seen: &Side, case: &Case) -> bool {
    let drawn = base.drew(case.index) || seen.drew(case.index);
    !drawn || (case.change == Change::Added && seen.refused(case.index))
}

fn still(moved: &[i64]) -> Result<(), (String, usize)> {
    match moved.iter().position(|x| *x != 0) {
        None => Ok(()),
        Some(at) => Err((format!("the sum moved by {} units, and must not move at all", moved[at]), at)),
    }
}

/// Compares in floats. The clip holds to a thousandth, and a sum of `n` numbers has an error of at most `n·2^-24` of
/// their magnitudes.
fn within_floats(moved: &[f64], clips: u32, clip: f32, samples: usize) -> Result<(), (String, usize)> {
    let clip = f64::from(clip) * (1.0 + 1.0 / 1024.0);
    let samples = samples as f64 + 64.0;
    let bound = clip * (f64::from(clips) + 2.0 * samples * samples / f64::from(1 << 24));
    let norm = moved.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm <= bound {
        return Ok(());
    }
    let at = largest(moved.iter().map(|x| x.abs()));
    Err((format!("the clipped sum moved by {norm:e}, where {bound:e} is allowed for floats; most of it here"), at))
}

/// Checks the counts: one sample moves one count by one. A replaced sample moves two counts by one, or one count by
/// two.
fn counted_once(base: &Side, seen: &Side, case: &Case) -> Result<(), CheckFailure> {
    let moved: u64 = base
        .sum_probe
        .counts
        .iter()
        .zip(&seen.sum_probe.counts)
        .map(|(a, b)| u64::from(a.wrapping_sub(*b).unsigned_abs()))
        .sum();
    if moved <= u64::from(case.clips()) {
        return Ok(());
    }
    let what = format!("the counts of norms moved by {moved}, where {} is allowed", case.clips());
    Err(CheckFailure { what, sample: case.index, coordinate: None, moved: false })
}

/// Returns the index of the largest value.
fn largest<T: PartialOrd>(values: impl Iterator<Item = T>) -> usize {
    let mut best = None;
    for (at, value) in values.enumerate() {
        if best.as_ref().is_none_or(|(_, most)| value > *most) {
            best = Some((at, value));
        }
    }
    best.map_or(0, |(at, _)| at)
}
