//! The privacy cost of a federation's rounds, to each party.
//!
//! Each device adds independent noise with the same σ. The smallest cohort has n devices. Of these, c reveal their
//! updates to others or add no noise. ε is that of the sum of all noise terms that a party cannot subtract:
//!
//! | party | sees | noises |
//! | --- | --- | --- |
//! | outsider | the sums and the models | `n − c` |
//! | participant | these, and what c colluders and itself added | `n − 1 − c`; with local noise at least 1, the other device's own |
//! | server, which reads updates | each update, and when it comes | 1 |
//! | server, of two aggregators of which one is honest | the sums, what c colluders added, and when reports come | `n − c` |
//!
//! A device with an empty draw may answer sooner. So to the server every unit counts as drawn in each round, which is a
//! sampling rate of 1. A plan with a fixed reply delay avoids this. Outsiders and participants do not see when answers
//! arrive.
//!
//! A larger cohort has more noise. A unit is on one device. Other updates depend on it only through the models, which
//! follow from sums.

use crate::{Aggregation, DeviceNoise, FederationError, FederationPlan};
use damper_accounting::{Accountant, AccountingError, NoiseShares, SharedRounds};
use damper_core::accounting::Rate;
use serde::Serialize;
use std::num::NonZeroU32;

/// ε at the plan's δ after the first rounds, for one unit, rounded up.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct FederationEpsilon {
    /// To a party that sees the sums and the models, but is not a device of the federation.
    pub outsider: f64,
    /// To a device, which can subtract its own update and those of the plan's colluders from a sum.
    pub participant: f64,
    /// To the party that receives the updates. `None` if no finite ε holds.
    pub server: Option<f64>,
}

impl FederationPlan {
    /// Returns ε of `rounds` rounds. It is 0 without rounds.
    ///
    /// # Errors
    ///
    /// The noise is too small for a finite ε.
    pub fn epsilon(&self, rounds: u32) -> Result<FederationEpsilon, FederationError> {
        self.epsilon_of_group(rounds, NonZeroU32::MIN)
    }

    /// Returns [`FederationPlan::epsilon`] for a group of `size` units that are all present or all absent.
    ///
    /// # Errors
    ///
    /// As for [`FederationPlan::epsilon`], or no useful ε is found for this group size.
    pub fn epsilon_of_group(&self, rounds: u32, size: NonZeroU32) -> Result<FederationEpsilon, FederationError> {
        if rounds == 0 {
            return Ok(FederationEpsilon { outsider: 0.0, participant: 0.0, server: Some(0.0) });
        }
        let run = SharedRounds {
            accountant: Accountant::Pld,
            rate: self.rate()?,
            rounds: u64::from(rounds),
            dim: u64::from(self.parameters),
            grid_bits: self.grid_bits,
            out_of_range: self.out_of_range(),
        };
        let of = |noises, run: &SharedRounds| {
            let noise = NoiseShares::new(self.sigma, noises)?;
            Ok::<_, AccountingError>(noise.epsilon_of_group(run, size, self.delta)?.epsilon)
        };
        let honest = self.smallest_cohort.saturating_sub(self.colluders).max(1);
        let others = match self.noise {
            DeviceNoise::Local => (honest - 1).max(1),
            DeviceNoise::Shares => honest - 1,
        };
        let outsider = of(honest, &run)?;
        // The receiver of the answers sees their timing, which may reveal an empty draw. A fixed delay hides it.
        let rate = if self.reply_seconds.is_some() { run.rate } else { Rate::ONE };
        let received = match self.aggregation {
            Aggregation::Prio => of(honest, &SharedRounds { rate, ..run }),
            // Values out of range are rejected or wrap after the noise, so the guarantee of a single update is not
            // affected.
            Aggregation::Clear => of(1, &SharedRounds { rate, out_of_range: 0.0, ..run }),
        };
        let server = match received {
            Ok(epsilon) => Some(epsilon),
            Err(
                AccountingError::SharesTooCoarse { .. }
                | AccountingError::NothingHolds { .. }
                | AccountingError::OutOfRange { .. },
            ) => None,
            Err(error) => return Err(error.into()),
        };
        Ok(FederationEpsilon { outsider, participant: of(others, &run)?, server })
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::tests::settings;
    use crate::{Aggregation, DeviceNoise, FederationPlan, PlanSettings};
    use damper_accounting::{Accountant, Plan};
    use damper_core::accounting::Rate;

    fn plan(settings: &PlanSettings) -> FederationPlan {
        FederationPlan::new(settings, 650, "m".repeat(64)).unwrap()
    }

    /// σ is rounded up to a grid unit.
    #[track_caller]
    fn near(found: f64, wanted: f64) {
        assert!((found / wanted - 1.0).abs() < 1e-4, "{found} {wanted}");
    }

    fn of(settings: &PlanSettings, multiplier: f64, rounds: u64) -> f64 {
        at_rate(plan(settings).rate().unwrap(), multiplier, rounds)
    }

    fn at_rate(rate: Rate, multiplier: f64, rounds: u64) -> f64 {
        let plan = Plan::constant(rate, multiplier, None, rounds).unwrap();
        plan.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon
    }

    // Each party subtracts the noise terms that it has. For all plans with few devices, ε follows from the remaining
    // multiplier.
    #[test]
    fn each_party_has_the_noises_it_cannot_take_off() {
        for noise in [DeviceNoise::Local, DeviceNoise::Shares] {
            for (cohort, colluders) in [(2, 0), (3, 0), (4, 0), (3, 1), (4, 2)] {
                for aggregation in [Aggregation::Clear, Aggregation::Prio] {
                    let settings =
                        PlanSettings { noise, smallest_cohort: cohort, colluders, aggregation, ..settings() };
                    let (n, c) = (f64::from(cohort), f64::from(colluders));
                    let own = match noise {
                        DeviceNoise::Local => 2.0,
                        DeviceNoise::Shares => 2.0 / (n - c).sqrt(),
                    };
                    let found = plan(&settings).epsilon(5).unwrap();
                    near(found.outsider, of(&settings, own * (n - c).sqrt(), 5));
                    near(found.participant, of(&settings, own * (n - 1.0 - c).sqrt(), 5));
                    let at_server = if aggregation == Aggregation::Clear { 1.0 } else { n - c };
                    near(found.server.unwrap(), at_rate(Rate::ONE, own * at_server.sqrt(), 5));
                    // With a fixed delay, no party sees the draw.
                    let delayed =
                        plan(&PlanSettings { reply_seconds: Some(60), ..settings.clone() }).epsilon(5).unwrap();
                    near(delayed.server.unwrap(), of(&settings, own * at_server.sqrt(), 5));
                    assert_eq!((delayed.outsider, delayed.participant), (found.outsider, found.participant));
                }
            }
        }
    }

    // A cohort of one has only local noise. The other device's own noise hides it from a participant.
    #[test]
    fn lone_device_keeps_its_own_noise() {
        let settings = PlanSettings { smallest_cohort: 1, ..settings() };
        let found = plan(&settings).epsilon(5).unwrap();
        near(found.outsider, of(&settings, 2.0, 5));
        assert_eq!(
            (found.participant, found.server.map(f64::to_bits)),
            (found.outsider, Some(at_rate(Rate::ONE, 2.0, 5).to_bits()))
        );
        assert_eq!(plan(&settings).epsilon(0).unwrap().participant, 0.0);
    }

    // A Gaussian with sensitivity 1 and 20 rounds at rate 1, by its formula with bisection.
    #[test]
    fn plans_of_few_devices_cost_what_the_formula_says() {
        fn normal(x: f64) -> f64 {
            0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
        }
        fn of_gaussian(multiplier: f64) -> f64 {
            let mu = 20f64.sqrt() / multiplier;
            let delta = |e: f64| normal(mu / 2.0 - e / mu) - e.exp() * normal(-mu / 2.0 - e / mu);
            let (mut low, mut high) = (0.0f64, 100.0f64);
            for _ in 0..200 {
                let middle = 0.5 * (low + high);
                if delta(middle) > 1e-5 { low = middle } else { high = middle }
            }
            high
        }
        let (shares, local) = (DeviceNoise::Shares, DeviceNoise::Local);
        // Noise variances to the outsider, the participant and the server, in squares of the multiplier 4.
        for (noise, cohort, squares, participant) in [
            (shares, 2, [1.0, 0.5, 0.5], 7.51),
            (shares, 3, [1.0, 2.0 / 3.0, 1.0 / 3.0], 6.33),
            (shares, 10, [1.0, 0.9, 0.1], 5.30),
            (local, 2, [2.0, 1.0, 1.0], 4.985),
        ] {
            let base = settings();
            let found = plan(&PlanSettings {
                noise,
                noise_multiplier: 4.0,
                smallest_cohort: cohort,
                devices: 10,
                rounds: 20,
                sampling_rate: 1.0,
                ..base
            });
            let found = found.epsilon(20).unwrap();
            for (epsilon, square) in [found.outsider, found.participant, found.server.unwrap()].into_iter().zip(squares)
            {
                let exact = of_gaussian(4.0 * f64::sqrt(square));
                assert!(exact <= epsilon && epsilon <= exact * 1.001, "{noise:?} {cohort}: {epsilon}, exact {exact}");
            }
            assert!((found.participant - participant).abs() < 0.01, "{noise:?} {cohort}: {found:?}");
        }
    }
}
