//! Courses of the releases besides the steps.

use super::auditor::{Auditor, RUNS, SMALL};
use super::chance::draws_for;
use super::held_out::{self, SeenFigures};
use super::made::Linear;
use super::non_finite::{self, CountNoise, SeenCount};
use super::normalize::{self, SeenRelease};
use crate::seed_or_drawn;
use damper_train::{PrivateMetrics, Run, TestMetrics, TrainError};
use std::sync::Arc;

/// Factor on the precision for noisy figures: a twentieth to a tenth in total.
const OF_FIGURES: f64 = 5.0;
/// Factor on the precision for the noise on a count: a fifth to two fifths in total. Each draw of it is a run.
const OF_COUNTS: f64 = 20.0;
const OF_COUNTS_FROM: [f64; 2] = [0.2, 0.4];
/// Number of releases of the run with a changed row.
const CHANGED: u32 = 4;
/// A loss bound that the loss of equal logits exceeds.
const SMALL_BOUND: f32 = 0.25;

impl Auditor<'_> {
    /// Tests the release of the features' means and deviations, if the run makes one.
    pub(super) fn normalize(&mut self, run: &Run) -> Result<(), TrainError> {
        let Some(normalize) = &run.config.normalize_private else { return Ok(()) };
        let columns = (draws_for((OF_FIGURES * self.precision).clamp(0.05, 0.1)) / 2).max(64) as usize;
        let linear = Linear { features: columns, classes: 2 };
        let one = normalize::bounds(normalize);
        let made = |auditor: &Self, rows: &[normalize::Row]| -> Result<(Run, Vec<f64>), TrainError> {
            let (data, sums) = normalize::data(&one, linear, rows);
            let mut made = auditor.priced(run.on_network(linear.model(), data, Self::steps(run, 1))?)?;
            (made.config.normalize_private, made.config.dataset_size) = (Some(one.clone()), None);
            Ok((made, sums))
        };
        let (base, sums) = made(self, &normalize::rows(None))?;
        let folders = self.folders()?;
        let folder = folders.next(0)?;
        let mut seen = SeenRelease::new(&base, &folder);
        self.observe(&self.keyed(&base, 0), &folder, &mut seen)?;
        seen.conclude(&one, &sums, &mut self.across, &mut self.tests);
        let unpriced = normalize::is_priced(run, normalize)?;
        self.tests.law("normalize: the release is part of the price, at its noise", 1, unpriced);
        // The base and its neighbours use one key, so the noise is the same.
        let seed = seed_or_drawn(self.seed)?;
        let of = |auditor: &mut Self, rows: &[normalize::Row], index: u32| -> Result<Vec<f64>, TrainError> {
            let (mut made, _) = made(auditor, rows)?;
            made.config.seed = Some(seed);
            let folder = folders.next(index)?;
            let mut seen = SeenRelease::new(&made, &folder);
            auditor.observe(&made, &folder, &mut seen)?;
            Ok(seen.sums)
        };
        let kept = of(self, &normalize::rows(None), 1)?;
        for (row, index) in normalize::NEIGHBOURS.into_iter().zip(2..) {
            let other = of(self, &normalize::rows(Some(row)), index)?;
            let multiplier = normalize.noise_multiplier.unwrap_or(0.0);
            let broken = normalize::beyond_the_clip(row, normalize::apart(&kept, &other), multiplier);
            self.tests.law("normalize: one row moves the sums by at most the clip", 1, broken);
        }
        self.record("normalize", &base, base.price.terms.steps.into(), 2 + normalize::NEIGHBOURS.len() as u32);
        Ok(())
    }

    /// Tests the release of the number of rows without a finite gradient, if the run makes one.
    pub(super) fn non_finite(&mut self, run: &Run) -> Result<(), TrainError> {
        let Some(asked) = &run.config.release_non_finite else { return Ok(()) };
        let [least, most] = OF_COUNTS_FROM;
        let needed = draws_for((OF_COUNTS * self.precision).clamp(least, most));
        let runs = u32::try_from(needed).unwrap_or(RUNS).min(RUNS);
        let multiplier = asked.noise_multiplier.unwrap_or(0.0);
        let linear = SMALL;
        let made = |auditor: &Self, rows: &[non_finite::Row]| -> Result<(Run, f64), TrainError> {
            let data = non_finite::data(linear, rows);
            let mut made = auditor.priced(run.on_network(linear.model(), data, Self::steps(run, 1))?)?;
            made.config.release_non_finite = Some(*asked);
            let known = non_finite::known(linear, &made.data.train, &made.model.params);
            Ok((made, known))
        };
        let (base, known) = made(self, &non_finite::rows(None))?;
        let folders = self.folders()?;
        let mut noise = CountNoise::default();
        for index in 0..runs {
            let folder = folders.next(index)?;
            let mut seen = SeenCount::new(&base, &folder);
            self.observe(&self.keyed(&base, index), &folder, &mut seen)?;
            noise.add(&seen, known, multiplier);
        }
        noise.conclude(multiplier, &mut self.tests);
        let unpriced = non_finite::is_priced(run, asked)?;
        self.tests.law("non-finite: the release is part of the price, at its noise", 1, unpriced);
        // The base and its neighbours use one key, so the noise is the same.
        let seed = seed_or_drawn(self.seed)?;
        let of = |auditor: &mut Self, rows: &[non_finite::Row], index: u32| -> Result<(Vec<f64>, f64), TrainError> {
            let (mut made, known) = made(auditor, rows)?;
            made.config.seed = Some(seed);
            let folder = folders.next(runs + index)?;
            let mut seen = SeenCount::new(&made, &folder);
            auditor.observe(&made, &folder, &mut seen)?;
            Ok((seen.released, known))
        };
        let (kept, _) = of(self, &non_finite::rows(None), 0)?;
        for (row, index) in non_finite::NEIGHBOURS.into_iter().zip(1..) {
            let (other, with) = of(self, &non_finite::rows(Some(row)), index)?;
            let broken = non_finite::moved_wrongly(row, with - known, [&kept, &other], multiplier);
            self.tests.law("non-finite: one row moves the count by one, or by nothing", 1, broken);
        }
        let all = runs + 1 + non_finite::NEIGHBOURS.len() as u32;
        self.record("non-finite", &base, u64::from(all) * u64::from(base.price.terms.steps), all);
        Ok(())
    }

    /// Tests the noisy figures of held-out rows, if the run releases them.
    pub(super) fn held_out(&mut self, run: &Run) -> Result<(), TrainError> {
        let Some(metrics) = &run.price.private_metrics else { return Ok(()) };
        let needed = draws_for((OF_FIGURES * self.precision).clamp(0.05, 0.1)).div_ceil(2);
        let steps = Self::steps(run, needed);
        let runs = u32::try_from(needed.div_ceil(u64::from(steps))).unwrap_or(RUNS).min(RUNS);
        let linear = SMALL;
        let made = |auditor: &Self, rows: &[held_out::Row], steps: u32, loss_bound: f32| -> Result<Run, TrainError> {
            let mut data = linear.data(1, run.config.method.threshold.clip(), false);
            data.set_null(0, true);
            let mut made = auditor.priced(run.on_network(linear.model(), data, steps)?)?;
            Arc::make_mut(&mut made.data).test = Some(held_out::data(linear, rows));
            made.price.private_metrics = Some(PrivateMetrics { releases: steps, loss_bound, ..metrics.clone() });
            made.config.test_metrics = TestMetrics::Private { loss_bound };
            // Evaluate after each step.
            made.config.evaluate_every = Some(made.price.terms.rate.as_f64());
            Ok(made)
        };
        let base = made(self, &held_out::ROWS, steps, metrics.loss_bound)?;
        let folders = self.folders()?;
        let mut seen = SeenFigures::new(&base, metrics, linear);
        for index in 0..runs {
            let folder = folders.next(index)?;
            seen.again(&folder);
            self.observe(&self.keyed(&base, index), &folder, &mut seen)?;
        }
        seen.conclude(u64::from(runs) * u64::from(steps), &mut self.tests);
        // With one key, one more row, and a bound that losses exceed.
        let seed = seed_or_drawn(self.seed)?;
        let of = |auditor: &mut Self, rows: &[held_out::Row], index: u32| -> Result<Vec<[f64; 2]>, TrainError> {
            let mut made = made(auditor, rows, Self::steps(run, CHANGED.into()), SMALL_BOUND)?;
            made.config.seed = Some(seed);
            let folder = folders.next(runs + index)?;
            let mut seen = SeenFigures::new(&made, metrics, linear);
            seen.again(&folder);
            auditor.observe(&made, &folder, &mut seen)?;
            Ok(seen.released)
        };
        let kept = of(self, &held_out::ROWS, 0)?;
        for (row, index) in held_out::ADDED.into_iter().zip(1..) {
            let rows: Vec<held_out::Row> = held_out::ROWS.into_iter().chain([row]).collect();
            let broken = held_out::beyond_one(row, &kept, &of(self, &rows, index)?);
            self.tests.law("held-out: one row moves each sum by at most one", 1, broken);
        }
        self.record("held-out", &base, u64::from(runs) * u64::from(steps), runs + 1 + held_out::ADDED.len() as u32);
        Ok(())
    }
}
