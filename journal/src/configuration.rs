//! The configuration of a journal: a fingerprint of the run's settings, and the budget of its ledger or filter.

use damper_core::accounting::{MOST_STEPS, Record};
use damper_core::numerics::digest::Digest;
use damper_core::step::StepConfig;

/// The version of the meaning of a record. It is part of every fingerprint, so journals of another version are
/// rejected.
const FORMAT: u64 = 2;

/// A run's budget, and the fingerprint of all settings that its charges depend on.
///
/// It is built from the charged step, by type: mechanism and noise, schedule, counts, clipping, sampling, number of
/// samples and of parameters, and expected batch ([`StepConfig::fingerprint`]). A journal with this configuration opens
/// for that step alone, and rejects charges of any other step.
///
/// [`with`](Self::with) adds items that the step does not contain, such as the data set's name or a number of the run.
/// They never replace the step. The fingerprint is a 64-bit FNV-1a. It detects mistakes, and does not authenticate.
///
/// ```
/// use damper_core::prelude::*;
/// use damper_journal::Configuration;
///
/// let with = |noise| DpSgd::new().clip(1.0).noise_multiplier(noise).learning_rate(0.1).expected_batch(60).build();
/// let run = Configuration::of_ledger(1000, &with(1.1)?, 650).with(b"run 7, digits");
/// assert!(run == Configuration::of_ledger(1000, &with(1.1)?, 650).with(b"run 7, digits"));
/// assert!(run != Configuration::of_ledger(1000, &with(1.2)?, 650).with(b"run 7, digits"));
/// assert!(run != Configuration::of_filter(8, 3.0, 1e-5, &with(1.1)?, 650));
/// # Ok::<(), damper_core::error::ConfigError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration {
    digest: Digest,
    /// The fingerprint of the step.
    pub(crate) step: u64,
    pub(crate) budget: u32,
    pub(crate) order: u32,
}

impl Configuration {
    /// The configuration of a ledger of `budget` steps of `step` on `dim` parameters, at most 2³¹ steps.
    #[must_use]
    pub fn of_ledger(budget: u32, step: &impl StepConfig, dim: usize) -> Self {
        Self::begun(budget, 0, step.fingerprint(dim))
    }

    /// The configuration of a Rényi filter of this order. It keeps steps of `step` on `dim` parameters within
    /// (`epsilon`, `delta`), for any noise factors.
    #[must_use]
    pub fn of_filter(order: u32, epsilon: f64, delta: f64, step: &impl StepConfig, dim: usize) -> Self {
        let mut run = Self::begun(0, order, step.fingerprint(dim));
        run.digest.add_f64(epsilon);
        run.digest.add_f64(delta);
        run
    }

    /// Starts the digest with the numbers that every configuration has.
    fn begun(budget: u32, order: u32, step: u64) -> Self {
        let mut digest = Digest::default();
        digest.add_word(FORMAT);
        digest.add_word(u64::from(budget) << 32 | u64::from(order));
        digest.add_word(step);
        Self { digest, step, budget, order }
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.digest.value()
    }

    /// Returns true if a record is a charge of this run. A filter accepts a record without a step, because the record
    /// has the cost.
    pub(crate) fn takes(&self, record: &Record) -> bool {
        let is_step = record.fingerprint == self.step || (self.order != 0 && record.fingerprint == 0);
        is_step && (record.budget, record.order) == (self.budget, self.order)
    }

    /// Returns true if the budget is within a ledger's limit.
    pub(crate) fn fits(&self) -> bool {
        self.budget <= MOST_STEPS
    }

    /// The record of this run with this charge.
    pub(crate) fn record(&self, paid: u32, divergence: f64) -> Record {
        Record { budget: self.budget, paid, divergence, order: self.order, fingerprint: self.step }
    }

    /// Adds an item to this configuration. Items stay distinct, because their lengths are hashed too.
    #[must_use]
    pub fn with(mut self, item: &[u8]) -> Self {
        self.digest.add_bytes(item);
        self.digest.add_word(item.len() as u64);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use damper_core::prelude::*;

    fn step() -> DpSgd {
        DpSgd::new().clip(1.0).noise_multiplier(1.1).learning_rate(0.1).expected_batch(60)
    }

    fn ledger(budget: u32, step: DpSgd, dim: usize) -> Configuration {
        Configuration::of_ledger(budget, &step.build().unwrap(), dim)
    }

    // The fingerprint depends on the step, the budget, and every item, its position and its length.
    #[test]
    fn items_order_and_length_count() {
        let run = ledger(10, step(), 3);
        assert_ne!(run, ledger(11, step(), 3));
        assert_ne!(run.with(b"ab").with(b"c"), run.with(b"a").with(b"bc"));
        assert_ne!(run.with(b"a").with(b"b"), run.with(b"b").with(b"a"));
        assert_ne!(run.with(b""), run);
        let filter =
            |order, epsilon, delta| Configuration::of_filter(order, epsilon, delta, &step().build().unwrap(), 3);
        for other in [(9, 1.0, 1e-5), (8, 1.5, 1e-5), (8, 1.0, 1e-6)] {
            assert_ne!(filter(8, 1.0, 1e-5), filter(other.0, other.1, other.2));
        }
    }

    // A charge of a smaller noise does not belong to this run. Nor does a charge that differs in any other accounted
    // number.
    #[test]
    fn every_priced_number_counts() {
        let rate = |batch| Rate::of(batch, 600).unwrap();
        let base = step().poisson_batches(rate(60), 600);
        let run = ledger(10, base, 3).fingerprint();
        for (what, other) in [
            ("noise", base.noise_multiplier(0.2)),
            ("clip", base.clip(2.0)),
            ("batch", base.expected_batch(61)),
            ("grid", base.grid_bits(15)),
            ("rate", step().poisson_batches(rate(61), 600)),
            ("samples", step().poisson_batches(rate(60), 601)),
            ("no draw", step()),
        ] {
            assert_ne!(ledger(10, other, 3).fingerprint(), run, "{what}");
        }
        assert_ne!(ledger(10, base, 4).fingerprint(), run);
        // A number without effect on the privacy cost does not count.
        assert_eq!(ledger(10, base.learning_rate(0.2).momentum(0.9), 3).fingerprint(), run);
    }

    // The fingerprint is FNV-1a over the items and their lengths.
    #[test]
    fn fingerprint_is_fnv_1a_of_items() {
        let run = ledger(10, step(), 3);
        let mut digest = damper_core::numerics::digest::Digest::default();
        for part in [2, 10 << 32, run.step] {
            digest.add_bytes(&part.to_le_bytes());
        }
        digest.add_bytes(b"text\x04\0\0\0\0\0\0\0");
        assert_eq!(run.with(b"text").fingerprint(), digest.value());
    }
}
