//! The owner of a journal: a fingerprint of the run's configuration, and the budget of its ledger or filter.

use damper_core::accounting::{MOST_STEPS, Record};
use damper_core::numerics::digest::Digest;
use damper_core::step::StepConfig;

/// The version of what a record stands for: part of every fingerprint. Journals of another are refused.
const FORMAT: u64 = 2;

/// A run's budget and the fingerprint of all that its charges stand for.
///
/// It is made of the step that is charged, by type: mechanism and noise, schedule, counts, clipping, draw, number of samples and of parameters,
/// expected batch ([`StepConfig::fingerprint`]). What a journal keeps under it opens for that step alone, and the journal takes the charges of no
/// other. Items that the step does not know, such as the data set's name or a number of the run, are added ([`with`](Self::with)); they never
/// stand in for the step. The fingerprint is FNV-1a of 64 bits: it finds mistakes; it authenticates nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Configuration {
    digest: Digest,
    /// The fingerprint of the step.
    pub(crate) step: u64,
    pub(crate) budget: u32,
    pub(crate) order: u32,
}

impl Configuration {
    /// For a ledger of `budget` steps of `step` on `dim` parameters, at most 2³¹.
    #[must_use]
    pub fn of_ledger(budget: u32, step: &impl StepConfig, dim: usize) -> Self {
        Self::begun(budget, 0, step.fingerprint(dim))
    }

    /// For a Rényi filter of this order that keeps steps of `step` on `dim` parameters within (`epsilon`, `delta`), whatever their noise factors.
    #[must_use]
    pub fn of_filter(order: u32, epsilon: f64, delta: f64, step: &impl StepConfig, dim: usize) -> Self {
        let mut run = Self::begun(0, order, step.fingerprint(dim));
        run.digest.add_f64(epsilon);
        run.digest.add_f64(delta);
        run
    }

    /// The numbers that every configuration has.
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

    /// Returns true if a record is a charge of this run. A filter's may be of no step: it is charged what it costs.
    pub(crate) fn takes(&self, record: &Record) -> bool {
        let is_step = record.fingerprint == self.step || (self.order != 0 && record.fingerprint == 0);
        is_step && (record.budget, record.order) == (self.budget, self.order)
    }

    /// Returns true if a ledger can have so large a budget.
    pub(crate) fn fits(&self) -> bool {
        self.budget <= MOST_STEPS
    }

    /// The record of this run with so much charged.
    pub(crate) fn record(&self, paid: u32, divergence: f64) -> Record {
        Record { budget: self.budget, paid, divergence, order: self.order, fingerprint: self.step }
    }

    /// This configuration and one more item of it. Items are told apart: their lengths are folded in.
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

    // A charge of a smaller noise is not one of this run, nor is any other number that is priced.
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
        // What no price depends on does not count.
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
