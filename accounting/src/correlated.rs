//! Correlated noise of a run: its accounted events and its record.
//!
//! - **Fixed order** (minimum separation b, at most k steps of a sample): the whole run is one Gaussian release of
//!   multiplier σ/β at rate 1, with `β = S·Δ + R` (`damper_core::noise::CorrelatedGaussian`). The run has one event. A
//!   single step has no privacy cost of its own, so the first step is charged the whole cost. The first t steps alone
//!   would be another mechanism with a smaller S, which is not claimed.
//! - **Cyclic Poisson** (G groups, p ≤ G bands): each draw of a sample is one Gaussian release of multiplier σ/β_c at
//!   the rate of the draws, with `β_c = ‖c‖Δ + √((p−1)m)` ([`block_shift`]). After t steps a sample has had at most
//!   `⌈t/G⌉` draws, so the privacy cost splits over cycles.
//!
//! A record has coefficients, steps, parameters, pattern and σ, which determine its events. A record with cheaper
//! events is an error.

use super::AccountingError;
use super::factor::block_shift;
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::grid::Grid;
use damper_core::noise::{AnyCorrelation, CorrelatedGaussian, Correlation, Lambda, NoiseWord, Participation};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Correlated noise of a whole run, with all inputs of its privacy cost.
///
/// ```
/// use damper_accounting::CorrelatedRun;
/// use damper_core::noise::{AnyCorrelation, NoiseWord, Participation};
///
/// // 200 steps in a fixed order. A sample takes part every 20 steps.
/// let run = CorrelatedRun {
///     correlation: AnyCorrelation::banded(&[1.0, 0.75, 0.5])?,
///     participation: Participation::new(200, 20, 10)?,
///     rate: None,
///     parameters: 1000,
///     grid_bits: 20,
///     sigma: 0,
/// };
/// let run = run.with_multiplier(2.0)?;
/// let (event, times) = run.event()?;
/// assert!(times == 1 && (1.99..2.01).contains(&event.multiplier()));
/// // Ten participations of ‖(1, 0.75, 0.5)‖, which do not overlap.
/// assert!((run.sensitivity() - (10.0f64 * 1.8125).sqrt()).abs() < 1e-9);
/// assert!(run.rounding_share()? < 0.01);
/// assert!(run.mechanism::<[NoiseWord; 2000]>().is_ok());
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CorrelatedRun {
    /// The matrix.
    pub correlation: AnyCorrelation,
    /// The participation of a sample. With cyclic Poisson draws the separation is the number of groups.
    pub participation: Participation,
    /// The rate of cyclic Poisson draws. None for a fixed order.
    pub rate: Option<Rate>,
    /// Number of trained parameters, m.
    pub parameters: u32,
    /// The clip is `2^grid_bits` grid units.
    pub grid_bits: u32,
    /// σ of the independent noise, in grid units.
    pub sigma: u32,
}

impl CorrelatedRun {
    /// This run with noise of at least `multiplier` times the shift. Its events have this multiplier.
    ///
    /// # Errors
    ///
    /// The multiplier is not a finite number above 0, or as [`CorrelatedRun::mechanism`].
    pub fn with_multiplier(self, multiplier: f64) -> Result<Self, AccountingError> {
        if !(multiplier.is_finite() && multiplier > 0.0) {
            return Err(AccountingError::NoiseMultiplier(multiplier));
        }
        // β does not depend on σ.
        let shift = Self { sigma: 1 << 30, ..self }.shift()?;
        // One more unit covers the rounding of σ over the shift, which is downward.
        let sigma = (multiplier * shift * (1.0 + 4.0 * f64::EPSILON)).ceil() + 1.0;
        if sigma > f64::from(u32::MAX) {
            return Err(AccountingError::SigmaOfGrid(self.grid_bits));
        }
        let run = Self { sigma: sigma as u32, ..self };
        run.mechanism::<[NoiseWord; 0]>()?;
        Ok(run)
    }

    /// The mechanism that runs, with its buffers in `B`.
    ///
    /// # Errors
    ///
    /// σ is out of its range, or buffers might overflow.
    pub fn mechanism<B>(&self) -> Result<CorrelatedGaussian<i64, AnyCorrelation, B>, AccountingError> {
        let grid = Grid::new(self.grid_bits)?;
        Ok(CorrelatedGaussian::new(grid, self.sigma, self.correlation, self.participation, self.parameters)?)
    }

    /// The largest shift of the noise caused by a sample, in grid units: β of the run, or β_c of a draw.
    fn shift(&self) -> Result<f64, AccountingError> {
        match self.rate {
            None => Ok(f64::from(self.sigma) / self.mechanism::<[NoiseWord; 0]>()?.event()?.multiplier()),
            Some(_) => Ok(block_shift(&self.column(), self.grid_bits, self.parameters.into())),
        }
    }

    /// The nonzero coefficients of C in a run of cyclic Poisson draws.
    fn column(&self) -> Vec<f64> {
        let mut column = vec![0.0; self.correlation.bands().unwrap_or(self.participation.steps() as usize)];
        self.correlation.column(&mut column);
        column
    }

    /// The event of the run, or of each draw of a sample, and the number of events.
    ///
    /// # Errors
    ///
    /// The multiplier cannot be accounted, or blocks of draws overlap.
    pub fn event(&self) -> Result<(SampledGaussian, u64), AccountingError> {
        let Some(rate) = self.rate else { return Ok((self.mechanism::<[NoiseWord; 0]>()?.event()?, 1)) };
        let groups = self.participation.separation();
        let bands = self.correlation.bands().unwrap_or(self.participation.steps() as usize);
        if bands > groups as usize {
            return Err(AccountingError::Bands { bands, groups: groups.into() });
        }
        let multiplier = f64::from(self.sigma) / self.shift()? * (1.0 - 2.0 * f64::EPSILON);
        Ok((SampledGaussian::new(rate, multiplier)?, u64::from(self.participation.steps().div_ceil(groups))))
    }

    /// The sensitivity S of the run, or `‖c‖` of a draw.
    #[must_use]
    pub fn sensitivity(&self) -> f64 {
        match self.rate {
            None => self.correlation.sensitivity(self.participation),
            Some(_) => self.column().iter().map(|entry| entry * entry).sum::<f64>().sqrt(),
        }
    }

    /// The fraction of the shift that is due to rounding on the grid.
    ///
    /// # Errors
    ///
    /// As [`CorrelatedRun::mechanism`].
    pub fn rounding_share(&self) -> Result<f64, AccountingError> {
        let clip = self.sensitivity() * f64::from(self.grid_bits).exp2();
        Ok((1.0 - clip / self.shift()?).max(0.0))
    }
}

/// The matrix in the form of a record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Matrix {
    /// `[P, 2^q]`.
    Lambda(u32, u32),
    Blt {
        theta: Vec<f64>,
        omega: Vec<f64>,
    },
    /// `c_0 = 1, c_1, …`
    Banded(Vec<f64>),
}

/// Correlated noise of a run, in the form of a record.
///
/// ```
/// use damper_accounting::{Accountant, CorrelatedNoise, CorrelatedRun, Event};
/// use damper_core::noise::{AnyCorrelation, Participation};
///
/// let run = CorrelatedRun {
///     correlation: AnyCorrelation::banded(&[1.0, 0.75, 0.5])?,
///     participation: Participation::new(200, 20, 10)?,
///     rate: None,
///     parameters: 1000,
///     grid_bits: 20,
///     sigma: 0,
/// };
/// let run = run.with_multiplier(2.0)?;
/// let event = Event::correlated(&run)?;
/// let Event::Correlated { noise, .. } = &event else { unreachable!() };
/// let _: &CorrelatedNoise = noise;
/// assert!((1.9..2.1).contains(&event.epsilon(Accountant::Pld, 1e-5)?.epsilon));
/// # Ok::<(), damper_accounting::AccountingError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorrelatedNoise {
    matrix: Matrix,
    /// Steps of the whole run.
    steps: u32,
    /// The smallest distance of two steps of a sample, or the groups of cyclic draws.
    separation: u32,
    /// The largest number of steps of a sample.
    participations: u32,
    parameters: u32,
    grid_bits: u32,
    sigma: u32,
}

impl From<&CorrelatedRun> for CorrelatedNoise {
    fn from(run: &CorrelatedRun) -> Self {
        let matrix = match run.correlation {
            AnyCorrelation::Lambda(lambda) => Matrix::Lambda(lambda.fraction().0, lambda.fraction().1),
            AnyCorrelation::Blt1(blt) => Matrix::Blt { theta: blt.theta().into(), omega: blt.omega().into() },
            AnyCorrelation::Blt2(blt) => Matrix::Blt { theta: blt.theta().into(), omega: blt.omega().into() },
            AnyCorrelation::Blt3(blt) => Matrix::Blt { theta: blt.theta().into(), omega: blt.omega().into() },
            AnyCorrelation::Blt4(blt) => Matrix::Blt { theta: blt.theta().into(), omega: blt.omega().into() },
            AnyCorrelation::Banded(bands) => Matrix::Banded(bands.column().collect()),
        };
        Self {
            matrix,
            steps: run.participation.steps(),
            separation: run.participation.separation(),
            participations: run.participation.participations(),
            parameters: run.parameters,
            grid_bits: run.grid_bits,
            sigma: run.sigma,
        }
    }
}

impl CorrelatedNoise {
    /// The recorded run, with draws at `rate` if they are cyclic.
    fn run(&self, rate: Option<Rate>) -> Result<CorrelatedRun, AccountingError> {
        let correlation = match &self.matrix {
            Matrix::Lambda(numerator, whole) if whole.is_power_of_two() => {
                Lambda::new(*numerator, whole.trailing_zeros())?.into()
            }
            Matrix::Lambda(..) => return Err(AccountingError::Correlated),
            Matrix::Blt { theta, omega } => AnyCorrelation::blt(theta, omega)?,
            Matrix::Banded(column) => AnyCorrelation::banded(column)?,
        };
        Ok(CorrelatedRun {
            correlation,
            participation: Participation::new(self.steps, self.separation, self.participations)?,
            rate,
            parameters: self.parameters,
            grid_bits: self.grid_bits,
            sigma: self.sigma,
        })
    }

    /// Checks that these events cost at least what the coefficients imply, for draws of each group or for a whole run
    /// in a fixed order.
    pub(super) fn check(&self, is_cyclic: bool, events: &[(SampledGaussian, u64)]) -> Result<(), AccountingError> {
        let follows = |event: &SampledGaussian| -> Result<bool, AccountingError> {
            let (found, _) = self.run(is_cyclic.then(|| event.rate()))?.event()?;
            Ok(event.rate() == found.rate() && event.multiplier() <= found.multiplier())
        };
        for (event, times) in events {
            if *times > 0 && !follows(event).unwrap_or(false) {
                return Err(AccountingError::Correlated);
            }
        }
        Ok(())
    }
}

impl fmt::Display for CorrelatedNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.matrix {
            Matrix::Lambda(numerator, whole) => write!(f, "lambda:{numerator}/{whole}"),
            Matrix::Blt { theta, .. } => write!(f, "blt:{}", theta.len()),
            Matrix::Banded(column) => write!(f, "banded:{}", column.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Accountant, Event, Recorded, RunParts, Sampler};

    fn run(correlation: AnyCorrelation, rate: Option<Rate>) -> CorrelatedRun {
        CorrelatedRun {
            correlation,
            participation: Participation::new(200, 20, 10).unwrap(),
            rate,
            parameters: 1000,
            grid_bits: 20,
            sigma: 0,
        }
        .with_multiplier(2.0)
        .unwrap()
    }

    fn all() -> [CorrelatedRun; 4] {
        let banded = AnyCorrelation::banded(&[1.0, 0.75, 0.5]).unwrap();
        [
            run(Lambda::new(15, 4).unwrap().into(), None),
            run(AnyCorrelation::blt(&[0.98, 0.6], &[0.23, 0.27]).unwrap(), None),
            run(banded, None),
            run(banded, Some(Rate::of(1, 4).unwrap())),
        ]
    }

    fn recorded(run: &CorrelatedRun) -> Recorded {
        let sampler = if run.rate.is_some() { Sampler::CyclicPoisson } else { Sampler::MinSeparation };
        let parts = RunParts {
            correlation: Some(&run.into()),
            draws: &Event::draws(sampler, &[run.event().unwrap()]),
            ..RunParts::default()
        };
        let recorded = Recorded::new(Accountant::Pld, 1e-5, &[]).with(&parts).with_sampler(sampler, 200);
        assert_eq!(*recorded.event(), Event::correlated(run).unwrap());
        recorded
    }

    #[test]
    fn multiplier_is_reached_and_hardly_exceeded() {
        for run in all() {
            let (event, times) = run.event().unwrap();
            assert!((2.0..2.00001).contains(&event.multiplier()), "{run:?}: {event:?}");
            assert_eq!(times, if run.rate.is_some() { 10 } else { 1 });
            let beta = f64::from(run.sigma) / event.multiplier();
            let clip = run.sensitivity() * f64::from(1u32 << 20);
            assert!(clip < beta && run.rounding_share().unwrap() > 0.0 && run.rounding_share().unwrap() < 0.02);
        }
    }

    // The privacy cost follows from the record, and survives a round trip through JSON.
    #[test]
    fn record_is_whole_and_cheaper_events_are_refused() {
        for run in all() {
            let recorded = recorded(&run);
            let file = serde_json::to_string(&recorded).unwrap();
            let read: Recorded = serde_json::from_str(&file).unwrap();
            assert_eq!(read, recorded);
            assert_eq!(read.parts().correlation.unwrap().run(run.rate).unwrap(), run);
            let epsilon = read.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
            assert!(epsilon > 0.5 && epsilon < 5.0, "{epsilon}");
            let (event, times) = run.event().unwrap();
            let cheaper = SampledGaussian::new(event.rate(), event.multiplier() * (1.0 + 1e-9)).unwrap();
            let draws = Event::draws(read.sampler, &[(cheaper, times)]);
            let cheaper = read.with(&RunParts { draws: &draws, ..read.parts() });
            assert_eq!(cheaper.epsilon(Accountant::Pld, 1e-5), Err(AccountingError::Correlated));
            let other = read.clone().with_sampler(Sampler::Poisson, 200);
            assert_eq!(other.epsilon(Accountant::Pld, 1e-5), Err(AccountingError::Correlated));
            // A replaced sample costs twice the shift at rate 1. Blocks have no privacy cost for it.
            match read.epsilon_of_replaced(1e-5) {
                Ok(replaced) => assert!(run.rate.is_none() && replaced.epsilon > 1.5 * epsilon),
                Err(error) => assert!(run.rate.is_some() && error == AccountingError::ReplacedBlocks),
            }
        }
    }

    #[test]
    fn overlapping_blocks_are_refused() {
        let rate = Some(Rate::of(1, 4).unwrap());
        let wide = AnyCorrelation::banded(&[1.0; 21]).unwrap();
        for correlation in [wide, Lambda::new(1, 1).unwrap().into()] {
            let run = CorrelatedRun { rate, ..run(Lambda::new(15, 4).unwrap().into(), None) };
            assert!(CorrelatedRun { correlation, ..run }.event().is_err());
        }
    }
}
