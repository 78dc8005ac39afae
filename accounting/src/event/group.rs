//! ε of a group of samples, such as all samples of one person, document or device.
//!
//! The first of three bounds that applies is used:
//!
//! - **Poisson draws** with independent noise: the pair of [`pld::of_group`], composed like the pair of one sample.
//!   This bound is tight.
//! - **No Poisson draws**: a fixed order, shuffled batches, correlated noise in a fixed order, the features' means, or
//!   held-out metrics. The releases move by at most k times as much as for one sample. They are Gaussians with 1/k of
//!   the multiplier.
//! - **All other events** (blocks of correlated noise, a private search, replacement with Poisson draws): k changes of
//!   one sample each. If one sample has ε₀ at δ₀ then `P₀(S) ≤ e^{kε₀} P_k(S) + δ₀(1 + e^{ε₀} + … + e^{(k−1)ε₀})`, for
//!   every ε₀. The bound uses the smallest ε₀ that leaves δ.
//!
//! A group may have training samples and held-out samples. The result is the worst of all partitions.
//!
//! Truncated draws cost the group the same part of δ as a sample (`truncation`), because the Bernoulli trials do not
//! depend on the data.

use super::Event;
use super::canonical::{self, Part};
use super::privacy_cost::delta_at;
use crate::limits::{LARGEST_GROUP, LARGEST_USEFUL};
use crate::plan::with;
use crate::pld::{self, Neighbours};
use crate::{Accountant, AccountingError, EpsilonBound, smaller};
use damper_core::accounting::event::{Rate, SampledGaussian};
use damper_core::numerics::up::{add_up, exp_up, mul_up, next_down};
use std::num::NonZeroU32;

/// Rounds of the search for ε₀, and the relative distance that each round moves past its result.
const ROUNDS: usize = 200;
const BEYOND: f64 = 1e-4;

impl Event {
    /// ε at `delta` of a group of samples, by privacy loss distributions. Neighbours have all of the group's `size`
    /// samples, or none of them. Under replacement, other samples take their places.
    ///
    /// # Errors
    ///
    /// As [`Event::epsilon`], the group is larger than [`LARGEST_GROUP`], or no ε of at most [`LARGEST_USEFUL`] is
    /// found.
    ///
    /// ```
    /// use damper_accounting::{Event, pld::Neighbours, sampling_rate};
    /// use std::num::NonZeroU32;
    ///
    /// let run = Event::poisson(sampling_rate(0.01)?, Event::gaussian(2.0)?)?.times(100);
    /// let (one, two) = (NonZeroU32::MIN, NonZeroU32::new(2).unwrap());
    /// let of_two = run.epsilon_of_group(two, Neighbours::AddOrRemove, 1e-5)?.epsilon;
    /// assert!(of_two > run.epsilon_of_group(one, Neighbours::AddOrRemove, 1e-5)?.epsilon);
    /// assert!(run.delta_of_group(two, Neighbours::AddOrRemove, of_two)? <= 1.01e-5);
    /// # Ok::<(), damper_accounting::AccountingError>(())
    /// ```
    pub fn epsilon_of_group(
        &self,
        size: NonZeroU32,
        neighbours: Neighbours,
        delta: f64,
    ) -> Result<EpsilonBound, AccountingError> {
        let of_one = |delta| match neighbours {
            Neighbours::AddOrRemove => self.epsilon(Accountant::Pld, delta),
            Neighbours::Replace => self.epsilon_of_replaced(delta),
        };
        let one = of_one(delta);
        if size == NonZeroU32::MIN {
            return one;
        }
        check_size(size)?;
        // A group has no bound if a single sample has none.
        let one = one?;
        let none = AccountingError::Group { size: size.get(), delta };
        let parts = canonical::parts(self)?;
        if let Some(partitions) = Partitions::of(self, &parts, neighbours) {
            match partitions.epsilon(size.get(), delta) {
                Ok(found) if found.epsilon <= LARGEST_USEFUL => return Ok(found),
                Ok(_) | Err(AccountingError::NothingHolds { .. } | AccountingError::Truncation { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        chained(size.get(), delta, one.epsilon, of_one)?.ok_or(none)
    }

    /// δ at `epsilon` of a group: an upper bound, as [`Event::delta`].
    ///
    /// # Errors
    ///
    /// ε is not a finite number of at least 0, or as [`Event::epsilon_of_group`].
    pub fn delta_of_group(
        &self,
        size: NonZeroU32,
        neighbours: Neighbours,
        epsilon: f64,
    ) -> Result<f64, AccountingError> {
        delta_at(epsilon, |delta| self.epsilon_of_group(size, neighbours, delta))
    }
}

/// The draws, and the releases at a rate of 1 from a disjoint set of samples.
struct Partitions<'a> {
    training: &'a Part,
    held_out: Option<&'a Part>,
    neighbours: Neighbours,
}

impl<'a> Partitions<'a> {
    /// The parts of `event`, if one of the first two bounds applies.
    fn of(event: &Event, parts: &'a [Part], neighbours: Neighbours) -> Option<Self> {
        let (training, held_out) = match (event, parts) {
            (_, [all]) => (all, None),
            // Two parts with disjoint samples.
            (Event::Disjoint(sets), [training, held_out]) if sets.len() == 2 => (training, Some(held_out)),
            _ => return None,
        };
        let is_released = |part: &Part| part.draws.iter().all(|(event, _)| event.rate() == Rate::ONE) && !part.is_cut();
        let is_covered = !event.has_selection()
            && !event.has_blocks()
            && held_out.is_none_or(is_released)
            && (neighbours == Neighbours::AddOrRemove || !training.has_coins);
        is_covered.then_some(Self { training, held_out, neighbours })
    }

    /// The largest ε over all partitions of a group into training samples and held-out samples.
    fn epsilon(&self, size: u32, delta: f64) -> Result<EpsilonBound, AccountingError> {
        let mut worst = self.of_partition(size, 0, delta)?;
        let most = if self.held_out.is_some() { size } else { 0 };
        for held_out in 1..=most {
            let found = self.of_partition(size - held_out, held_out, delta)?;
            if found.epsilon > worst.epsilon {
                worst = found;
            }
            if worst.epsilon > LARGEST_USEFUL {
                break;
            }
        }
        Ok(worst)
    }

    /// ε of a group with this many samples in each set.
    fn of_partition(&self, training: u32, held_out: u32, delta: f64) -> Result<EpsilonBound, AccountingError> {
        let draws = self.training.settled()?;
        let mut events = if training > 0 { with(self.training.release, &draws) } else { Vec::new() };
        for part in self.held_out.iter().filter(|_| held_out > 0) {
            for (event, times) in with(part.release, &part.draws) {
                // Scale the shift of these samples to the unit in which the training samples shift by one.
                let multiplier = event.multiplier() * f64::from(training.max(1)) / f64::from(held_out);
                let multiplier = next_down(next_down(multiplier));
                let event = SampledGaussian::new(event.rate(), multiplier)
                    .map_err(|_| AccountingError::NoiseMultiplier(event.multiplier()))?;
                events.push((event, times));
            }
        }
        let price = |delta| {
            let found = price(&events, training.max(1), self.neighbours, delta)?;
            let (multiplier, steps) = (self.training.smallest_multiplier(), self.training.steps());
            if found.epsilon.is_finite() { Ok(found) } else { Err(AccountingError::NothingHolds { multiplier, steps }) }
        };
        match self.training.cut() {
            Some((truncation, any)) if training > 0 => Ok(truncation.price(delta, any, price)?.price),
            _ => price(delta),
        }
    }
}

/// Fails if the group is larger than the limit of the accountant.
pub(crate) fn check_size(size: NonZeroU32) -> Result<(), AccountingError> {
    if size.get() <= LARGEST_GROUP { Ok(()) } else { Err(AccountingError::GroupSize(size.get())) }
}

/// ε of events if either all or none of a group's samples are present.
fn price(
    events: &[(SampledGaussian, u64)],
    size: u32,
    neighbours: Neighbours,
    delta: f64,
) -> Result<EpsilonBound, AccountingError> {
    if events.iter().any(|(event, _)| event.rate() != Rate::ONE) {
        let size = NonZeroU32::new(size).unwrap_or(NonZeroU32::MIN);
        return Ok(EpsilonBound { epsilon: pld::of_group(events, size, delta)?, order: None });
    }
    let nearer = |(event, times): &(SampledGaussian, u64)| {
        let multiplier = next_down(event.multiplier() / f64::from(size));
        let nearer = SampledGaussian::new(Rate::ONE, multiplier);
        nearer.map(|event| (event, *times)).map_err(|_| AccountingError::NoiseMultiplier(multiplier))
    };
    let nearer = events.iter().map(nearer).collect::<Result<Vec<_>, _>>()?;
    match neighbours {
        Neighbours::AddOrRemove => smaller::price(&nearer, || None, delta),
        Neighbours::Replace => Ok(EpsilonBound { epsilon: pld::of_discrete(&nearer, neighbours, delta)?, order: None }),
    }
}

/// kε₀ of k changes of one sample each. `least` is ε of one sample at `delta`. None if no useful bound is found.
fn chained(
    size: u32,
    delta: f64,
    least: f64,
    of_one: impl Fn(f64) -> Result<EpsilonBound, AccountingError>,
) -> Result<Option<EpsilonBound>, AccountingError> {
    let size = f64::from(size);
    let mut guess = least;
    for _ in 0..ROUNDS {
        let is_useful = size * guess <= LARGEST_USEFUL;
        if !is_useful {
            return Ok(None);
        }
        // δ₀ for which the sum is δ. If ε at δ₀ is at most the guess, the guess is valid.
        let share = next_down(delta / sum_of_powers(size as u32, guess));
        if share.is_nan() || share <= f64::MIN_POSITIVE {
            return Ok(None);
        }
        match of_one(share) {
            Ok(found) if found.epsilon <= guess => {
                return Ok(Some(EpsilonBound { epsilon: mul_up(size, guess), order: found.order }));
            }
            Ok(found) => guess = found.epsilon * (1.0 + BEYOND),
            Err(AccountingError::NothingHolds { .. } | AccountingError::Truncation { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// `1 + e^ε + … + e^{(k−1)ε}`, rounded up.
fn sum_of_powers(size: u32, epsilon: f64) -> f64 {
    let ratio = exp_up(epsilon);
    (1..size).fold(1.0, |sum, _| add_up(1.0, mul_up(ratio, sum)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorded, RunParts, RunSearch, Sampler, Truncation};
    use libm::{erfc, exp, log, sqrt};

    fn size(size: u32) -> NonZeroU32 {
        NonZeroU32::new(size).unwrap()
    }

    fn run(rate: Rate, multiplier: f64, steps: u64, delta: f64) -> Recorded {
        Recorded::new(Accountant::Pld, delta, &[(SampledGaussian::new(rate, multiplier).unwrap(), steps)])
    }

    fn fixed(sampler: Sampler, multiplier: f64, times: u64) -> Recorded {
        let draws = [(Event::gaussian(multiplier).unwrap(), times)];
        let parts = RunParts { draws: &draws, ..RunParts::default() };
        run(Rate::ONE, multiplier, times, 1e-5).with(&parts).with_sampler(sampler, times)
    }

    fn of(recorded: &Recorded, k: u32) -> f64 {
        recorded.epsilon_of_group(size(k), Neighbours::AddOrRemove, recorded.delta).unwrap().epsilon
    }

    /// ε at δ of a Gaussian moved by `mu` standard deviations.
    fn gaussian(mu: f64, delta: f64) -> f64 {
        let phi = |x: f64| 0.5 * erfc(-x / sqrt(2.0));
        let at = |epsilon: f64| phi(mu / 2.0 - epsilon / mu) - exp(epsilon) * phi(-mu / 2.0 - epsilon / mu);
        let (mut low, mut high) = (0.0, 200.0);
        for _ in 0..200 {
            let middle = (low + high) / 2.0;
            if at(middle) > delta { low = middle } else { high = middle }
        }
        high
    }

    /// ε at δ of one draw, by the half-lines of the mixture: `above` and `below` of both distributions at each end.
    fn one_draw(q: f64, sigma: f64, k: u32, delta: f64) -> f64 {
        let tail = |x: f64| 0.5 * erfc(x / sqrt(2.0));
        let weights: Vec<f64> = (0..=k)
            .map(|j| {
                let choose = (1..=j).map(|i| f64::from(k - j + i) / f64::from(i)).product::<f64>();
                choose * q.powi(j as i32) * (1.0 - q).powi((k - j) as i32)
            })
            .collect();
        let mixed =
            |f: &dyn Fn(f64) -> f64| -> f64 { weights.iter().enumerate().map(|(j, w)| w * f(j as f64 / sigma)).sum() };
        let at = |epsilon: f64| {
            let end = |wanted: f64| {
                let (mut low, mut high) = (-60.0, 80.0);
                for _ in 0..200 {
                    let x = (low + high) / 2.0;
                    if log(mixed(&|m| exp(m * x - m * m / 2.0))) < wanted { low = x } else { high = x }
                }
                high
            };
            let (removed, added) = (end(epsilon), end(-epsilon));
            let first = mixed(&|m| tail(removed - m)) - exp(epsilon) * tail(removed);
            let second = tail(-added) - exp(epsilon) * mixed(&|m| tail(m - added));
            first.max(second)
        };
        let (mut low, mut high) = (0.0, 80.0);
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            if at(middle) > delta { low = middle } else { high = middle }
        }
        high
    }

    #[test]
    fn one_draw_is_its_half_line() {
        for (q, sigma, k, delta) in [
            (0.1, 1.0, 5, 1e-5),
            (0.01, 0.8, 5, 1e-6),
            (0.5, 3.0, 3, 1e-5),
            (0.9, 8.0, 10, 1e-7),
            (0.004, 1.1, 20, 1e-5),
            (0.3, 20.0, 50, 1e-4),
        ] {
            let rate = Rate::at_least(q).unwrap();
            let found = of(&run(rate, sigma, 1, delta), k);
            let exact = one_draw(rate.as_f64(), sigma, k, delta);
            assert!(found >= exact && found <= 1.01 * exact, "{q} {sigma} {k}: {found} {exact}");
        }
    }

    #[test]
    fn drawn_always_is_one_gaussian() {
        let shuffled = |multiplier, times| fixed(Sampler::Shuffled, multiplier, times);
        let fixed = |multiplier, times| fixed(Sampler::MinSeparation, multiplier, times);
        let poisson = |multiplier, times| run(Rate::ONE, multiplier, times, 1e-5);
        for (multiplier, times, k) in [(10.0, 1u64, 5u32), (40.0, 25, 3), (30.0, 4, 10)] {
            let exact = gaussian(f64::from(k) * sqrt(times as f64) / multiplier, 1e-5);
            for record in [shuffled(multiplier, times), fixed(multiplier, times), poisson(multiplier, times)] {
                let found = of(&record, k);
                assert!(found >= exact && found <= 1.01 * exact, "{multiplier} {times} {k}: {found} {exact}");
                let replaced = record.epsilon_of_group(size(k), Neighbours::Replace, 1e-5);
                if record.sampler != Sampler::Poisson {
                    let exact = gaussian(2.0 * f64::from(k) * sqrt(times as f64) / multiplier, 1e-5);
                    let found = replaced.unwrap().epsilon;
                    assert!(found >= exact && found <= 1.01 * exact, "{found} {exact}");
                }
            }
        }
    }

    /// Many draws are enclosed: the result is slightly above the lower bound of the same pair.
    #[test]
    fn many_draws_are_enclosed() {
        for (q, sigma, steps, k, delta) in [
            (0.01, 1.0, 1000, 5, 1e-5),
            (0.004, 1.1, 3516, 2, 1e-5),
            (0.05, 4.0, 500, 10, 1e-6),
            (0.2, 9.0, 60, 4, 1e-8),
        ] {
            let rate = Rate::at_least(q).unwrap();
            let events = [(SampledGaussian::new(rate, sigma).unwrap(), steps)];
            let found = of(&run(rate, sigma, steps, delta), k);
            let below = pld::group_lower_bound(&events, size(k), delta).unwrap();
            assert!(found >= below && found <= 1.005 * below, "{q} {sigma} {steps} {k}: {below} {found}");
        }
    }

    /// Control: the claim that ε is about five times as large is false.
    #[test]
    fn five_samples_cost_more_than_five_times() {
        let record = run(Rate::of(256, 60_000).unwrap(), 1.1, 3516, 1e-5);
        let one = record.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
        let five = of(&record, 5);
        assert!(five > 6.0 * one && five < 8.0 * one, "{one} {five}");
        assert_eq!(of(&record, 1), one);
        let all: Vec<f64> = (1..=6).map(|k| of(&record, k)).collect();
        assert!(all.windows(2).all(|pair| pair[1] > pair[0]), "{all:?}");
    }

    /// A schedule of many multipliers is accounted by knots above them. The result is at least the lower bound of the
    /// same schedule, and at most 3 % above it.
    #[test]
    fn schedule_is_priced_from_above() {
        let rate = Rate::at_least(0.02).unwrap();
        let event = |at: u32| SampledGaussian::new(rate, 2.0 + 0.01 * f64::from(at)).unwrap();
        let many: Vec<_> = (0..100).map(|at| (event(at), 3)).collect();
        let found = of(&Recorded::new(Accountant::Pld, 1e-5, &many), 3);
        let below = pld::group_lower_bound(&many, size(3), 1e-5).unwrap();
        assert!(found >= below && found <= 1.03 * below, "{below} {found}");
    }

    /// The chained bound is valid for every run. It is above the tight bound, and matches the geometric series computed
    /// by hand.
    #[test]
    fn chain_holds_and_is_above_the_tight_bound() {
        let record = run(Rate::of(1, 100).unwrap(), 2.0, 300, 1e-5);
        let of_one = |delta| record.epsilon(Accountant::Pld, delta);
        let least = of_one(1e-5).unwrap().epsilon;
        for k in [2, 5] {
            let chain = chained(k, 1e-5, least, of_one).unwrap().unwrap().epsilon;
            let one = chain / f64::from(k);
            let spent = (exp(f64::from(k) * one) - 1.0) / (exp(one) - 1.0);
            assert!(of_one(1e-5 / spent).unwrap().epsilon <= one, "{k}");
            assert!(of_one(1e-5 / spent).unwrap().epsilon > 0.998 * one, "{k}");
            assert!(chain > of(&record, k), "{k}");
        }
    }

    /// A private search, blocks, and replacement with Poisson draws use the chained bound. Truncated draws are charged
    /// for truncation.
    #[test]
    fn other_runs_have_a_bound() {
        let plain = run(Rate::of(1, 100).unwrap(), 4.0, 100, 1e-5);
        let tight = of(&plain, 3);
        let replaced = plain.epsilon_of_group(size(3), Neighbours::Replace, 1e-5).unwrap().epsilon;
        assert!(replaced > tight && replaced < 20.0 * tight, "{replaced} {tight}");
        let search = RunSearch { candidates: "geometric:0.2".parse().unwrap(), others: Vec::new() };
        let searched = plain.with(&RunParts { search: Some(search), ..plain.parts() });
        let one = searched.epsilon(Accountant::Pld, 1e-5).unwrap().epsilon;
        assert!(of(&searched, 3) > 3.0 * one && of(&searched, 3) > tight);
        assert_eq!(searched.epsilon_of_group(size(3), Neighbours::Replace, 1e-5), Err(AccountingError::ReplacedSearch));
        let cut =
            |most| plain.with(&RunParts { truncation: Some(Truncation { samples: 5000, most }), ..plain.parts() });
        let (near, far) = (of(&cut(100), 3), of(&cut(400), 3));
        assert!(near > far && far >= tight && far < 1.001 * tight, "{near} {far} {tight}");
        let cyclic = plain.with_sampler(Sampler::CyclicPoisson, 100);
        assert_eq!(of(&cyclic, 3), tight);
    }

    /// All samples of a group may be held-out samples, or some of them.
    #[test]
    fn worst_partition_is_priced() {
        let metrics = |multiplier, times| [(Event::gaussian(multiplier).unwrap(), times)];
        let plain = run(Rate::ONE, 20.0, 4, 1e-5);
        let both = plain.with(&RunParts { held_out: &metrics(20.0, 4), ..plain.parts() });
        // Both parts move by j and k - j. The longest vector has all samples in one part.
        let (found, alone) = (of(&both, 4), of(&plain, 4));
        assert!(found >= alone && found <= 1.001 * alone, "{found} {alone}");
        let exact = gaussian(4.0 * 2.0 / 20.0, 1e-5);
        assert!(found >= exact && found <= 1.01 * exact, "{found} {exact}");
        // Weaker noise on the held-out samples.
        let weak = run(Rate::of(1, 100).unwrap(), 8.0, 20, 1e-5);
        let weak = weak.with(&RunParts { held_out: &metrics(8.0, 1), ..weak.parts() });
        let exact = gaussian(4.0 / 8.0, 1e-5);
        let found = of(&weak, 4);
        assert!(found >= exact && found <= 1.02 * exact, "{found} {exact}");
    }

    #[test]
    fn useless_bounds_are_named() {
        let record = run(Rate::of(1, 10).unwrap(), 0.6, 500, 1e-5);
        let error = record.epsilon_of_group(size(20), Neighbours::AddOrRemove, 1e-5).unwrap_err();
        assert_eq!(error, AccountingError::Group { size: 20, delta: 1e-5 });
        assert!(error.to_string().contains("no useful bound"), "{error}");
        let large = record.epsilon_of_group(size(1001), Neighbours::AddOrRemove, 1e-5);
        assert_eq!(large, Err(AccountingError::GroupSize(1001)));
    }

    /// δ of a group at its own ε is the original δ.
    #[test]
    fn delta_is_the_inverse() {
        let record = run(Rate::of(1, 50).unwrap(), 3.0, 200, 1e-5);
        let epsilon = of(&record, 4);
        let found = record.delta_of_group(size(4), Neighbours::AddOrRemove, epsilon).unwrap();
        assert!((found / 1e-5 - 1.0).abs() < 0.01, "{found:e}");
    }
}
