//! Whitening: recovers the independent noise z from correlated noise, with `z = Cw` up to rounding on the grid.
//!
//! All tests of independent noise apply to z: its deviation at each step and coordinate, its tails, and that steps do
//! not correlate. A trainer that runs another matrix, restarts at zeros, or shares noise between steps gives another z.

use damper_accounting::CorrelatedRun;
use damper_accounting::factor::{inverse, sensitivity};
use damper_core::noise::Correlation as _;
use damper_train::Run;

/// The noise of a run, before its correlation is removed.
pub(in super::super) struct Whitened {
    /// First column of C, without zeros at its end.
    column: Vec<f64>,
    /// Deviation of each step's noise divided by that of z.
    deviations: Vec<f64>,
    /// Noise of the run's steps so far, in order.
    steps: Vec<Vec<f64>>,
}

impl Whitened {
    pub(in super::super) fn new(run: &CorrelatedRun) -> Self {
        let steps = run.participation.steps() as usize;
        let mut column = vec![0.0; run.correlation.bands().unwrap_or(steps).min(steps)];
        run.correlation.column(&mut column);
        let mut variance = 0.0;
        let grow = |entry: f64| {
            variance += entry * entry;
            f64::sqrt(variance)
        };
        let deviations = inverse(&column, steps).into_iter().map(grow).collect();
        Self { column, deviations, steps: Vec::new() }
    }

    /// Starts the next run.
    pub(in super::super) fn again(&mut self) {
        self.steps.clear();
    }

    /// Returns the deviation of step `number`'s noise divided by that of z.
    pub(in super::super) fn deviation(&self, number: u32) -> f64 {
        self.deviations.get(number as usize).copied().unwrap_or(f64::NAN)
    }

    /// Returns the largest factor from the error of the noise to the error of z.
    pub(in super::super) fn weight(&self) -> f64 {
        self.column.iter().sum()
    }

    /// Returns z of the next step, from its noise.
    pub(in super::super) fn next(&mut self, noise: Vec<f64>) -> Vec<f64> {
        let mut z = noise.clone();
        for (entry, before) in self.column.iter().skip(1).zip(self.steps.iter().rev()) {
            z.iter_mut().zip(before).for_each(|(z, before)| *z += entry * before);
        }
        self.steps.push(noise);
        if self.steps.len() >= self.column.len() {
            self.steps.remove(0);
        }
        z
    }
}

/// Returns the largest share of z that rounding may cause.
pub(super) fn rounding(run: &Run) -> f64 {
    run.price
        .terms
        .correlated
        .as_ref()
        .map_or(0.0, |noise| noise.correlation.rounding(noise.participation.steps()) / f64::from(noise.sigma))
}

/// Returns the least and the largest multiplier that the event of correlated noise may have at this σ, in clips.
///
/// The event uses the sensitivity over sums of the column. Rounding lowers it by no more than a fifth.
pub(super) fn multipliers(noise: &CorrelatedRun, sigma: f64) -> (f64, f64) {
    let steps = noise.participation.steps();
    let mut column = vec![0.0; noise.correlation.bands().unwrap_or(steps as usize).min(steps as usize)];
    noise.correlation.column(&mut column);
    let most = match noise.rate {
        None => sensitivity(&column, noise.participation),
        Some(_) => column.iter().map(|entry| entry * entry).sum::<f64>().sqrt(),
    };
    (0.8 * sigma / most, (1.0 + 1e-9) * sigma / most)
}
