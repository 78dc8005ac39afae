//! Sum and counts of a step, recomputed from known gradients.

use super::super::made::Linear;
use super::laws::Checks;
use super::open::Open;
use damper_core::count::Query;
use damper_data::Split;
use damper_train::inside::worker::Point;
use damper_train::{Clipping, NoiseKind, Run};

/// Compares the sum and the counts with those of the known gradients.
pub(super) fn recount(run: &Run, linear: Linear, step: &Open, points: &[Point], laws: &mut Checks) {
    let split: &Split = &run.data.train;
    let half = linear.dim() / 2;
    let (mut expected, mut off, mut taken) = (vec![0.0f64; half], 0.0f64, 0i64);
    let mut counts = vec![0i64; step.query.len()];
    let mut doubtful = 0i64;
    let clip = f64::from(step.clip);
    let grain = match run.config.noise {
        NoiseKind::Discrete => 2.0 * step.clips(run),
        NoiseKind::Continuous => 1e-6,
    };
    for sample in &step.samples {
        let Some(gradient) = linear.gradient(split, *sample as usize, points) else {
            if let Query::Histogram { bins, .. } = step.query
                && run.config.method.count_non_finite
                && !split.is_null(*sample as usize)
            {
                counts[bins as usize - 1] += 1;
            }
            continue;
        };
        taken += 1;
        let divisor = match run.config.method.clipping {
            // The two layers have equal gradients and equal shares.
            Clipping::Flat | Clipping::PerLayer => gradient.norm.max(clip),
            Clipping::Automatic { gamma } => gradient.norm + f64::from(gamma),
        };
        expected.iter_mut().zip(&gradient.half).for_each(|(sum, g)| *sum += g / divisor);
        let dims = (linear.dim() as f64).sqrt();
        off += grain + gradient.off * (1.0 + dims) / divisor + 2e-5;
        let norm = gradient.norm;
        let doubt = gradient.off * dims + norm * 1e-5;
        let (index, by, edge) = match step.query {
            Query::None => continue,
            Query::Histogram { bins, range } => {
                let at = norm * f64::from(bins) / f64::from(range);
                let bin = (at.floor().max(0.0) as usize).min(bins as usize - 1);
                let doubt = doubt * f64::from(bins) / f64::from(range);
                let lower = bin > 0 && at - bin as f64 <= doubt;
                let upper = bin + 1 < bins as usize && (bin + 1) as f64 - at <= doubt;
                (bin, 1, lower || upper)
            }
            Query::Above { norm: bound } => {
                let bound = f64::from(bound);
                (0, if norm > bound { 1 } else { -1 }, (norm - bound).abs() <= doubt)
            }
        };
        counts[index] += by;
        doubtful += i64::from(edge);
    }
    let clips = step.clips(run);
    let apart = step
        .sum
        .iter()
        .enumerate()
        .map(|(at, sum)| (at, (sum * clips - expected[at % half]).abs()))
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    if let Some((at, apart)) = apart {
        let (number, samples) = (step.number, step.samples.len());
        let holds = apart <= off && !apart.is_nan();
        laws.sums.hold(holds, || {
            format!(
                "step {number}, coordinate {at}: the sum of {samples} drawn samples is off by {apart:.6} clips, where {off:.6} are rounding"
            )
        });
    }
    if !step.query.is_empty() {
        let apart: i64 = counts.iter().zip(&step.counts).map(|(a, b)| (a - i64::from(*b)).abs()).sum();
        let number = step.number;
        laws.counts.hold(apart <= 2 * doubtful, || {
            format!(
                "step {number}: counts of {taken} samples are off by {apart}, of which {} may be rounding",
                2 * doubtful
            )
        });
    }
}
