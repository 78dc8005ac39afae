//! The privacy cost of a federation's rounds.

use super::{DeviceNoise, FederationError, FederationPlan};
use damper_accounting::{Accountant, NoiseShares, SharedRounds};
use serde::Serialize;
use std::num::NonZeroU32;

/// ε at the plan's δ of the first rounds, of one unit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct FederationEpsilon {
    /// Of what is released: the sums, for whoever sees no single update. The noise is that of the smallest cohort.
    pub released: f64,
    /// Of the updates, for whoever reads them. None if that is not claimed: noise in shares, which secure aggregation keeps from everybody.
    pub updates: Option<f64>,
}

impl FederationPlan {
    /// ε of `rounds` rounds, rounded up; 0 of none.
    ///
    /// # Errors
    ///
    /// The noise is too small to have a price.
    pub fn epsilon(&self, rounds: u32) -> Result<FederationEpsilon, FederationError> {
        self.epsilon_of_group(rounds, NonZeroU32::MIN)
    }

    /// [`FederationPlan::epsilon`] of `size` units, all there or none of them.
    ///
    /// # Errors
    ///
    /// As [`FederationPlan::epsilon`], or no useful ε is found for so many.
    pub fn epsilon_of_group(&self, rounds: u32, size: NonZeroU32) -> Result<FederationEpsilon, FederationError> {
        let is_local = self.noise == DeviceNoise::Local;
        if rounds == 0 {
            return Ok(FederationEpsilon { released: 0.0, updates: is_local.then_some(0.0) });
        }
        let run = SharedRounds {
            accountant: Accountant::Pld,
            rate: self.rate()?,
            rounds: u64::from(rounds),
            dim: u64::from(self.parameters),
            grid_bits: self.grid_bits,
            out_of_range: self.out_of_range(),
        };
        let released = NoiseShares::new(self.sigma, self.smallest_cohort)?.epsilon_of_group(&run, size, self.delta)?;
        // What leaves its range wraps after the noise, so nothing is lost of a single update's guarantee.
        let alone = SharedRounds { out_of_range: 0.0, ..run };
        let updates = match self.noise {
            DeviceNoise::Local => {
                let noise = NoiseShares::new(self.sigma, 1)?;
                Some(noise.epsilon_of_group(&alone, size, self.delta)?.epsilon)
            }
            DeviceNoise::Shares => None,
        };
        Ok(FederationEpsilon { released: released.epsilon, updates })
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::settings;
    use super::super::{DeviceNoise, FederationPlan, PlanSettings};
    use damper_accounting::{Accountant, Plan};

    fn plan(settings: &PlanSettings) -> FederationPlan {
        FederationPlan::new(settings, 650, "m".repeat(64)).unwrap()
    }

    // Local noise: an update costs the multiplier, the sum of three √3 times it. Shares: the sum costs the multiplier.
    #[test]
    fn noise_is_that_of_the_smallest_cohort() {
        let of = |multiplier: f64, rounds| {
            let plan = Plan::constant(plan(&settings()).rate().unwrap(), multiplier, None, rounds).unwrap();
            plan.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon
        };
        // σ is rounded up to a grid unit.
        let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 1e-4, "{found} {wanted}");
        let local = plan(&settings()).epsilon(5).unwrap();
        assert_eq!(local.updates, Some(of(2.0, 5)));
        near(local.released, of(2.0 * 3f64.sqrt(), 5));
        let shares = plan(&PlanSettings { noise: DeviceNoise::Shares, ..settings() }).epsilon(2).unwrap();
        assert_eq!(shares.updates, None);
        near(shares.released, of(2.0, 2));
        assert_eq!(plan(&settings()).epsilon(0).unwrap().released, 0.0);
    }
}
