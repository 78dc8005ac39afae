//! The checks of a course, each with its number of comparisons and its first failure.

use super::super::tests_of::Tests;

/// An equation that must hold exactly.
#[derive(Default)]
pub(super) struct Law {
    comparisons: u64,
    broken: Option<String>,
}

impl Law {
    /// Compares once.
    pub(super) fn hold(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.comparisons += 1;
        if !holds {
            self.broken.get_or_insert_with(what);
        }
    }
}

/// All checks of a course.
#[derive(Default)]
pub(super) struct Checks {
    pub(super) grid: Law,
    pub(super) scale: Law,
    pub(super) price: Law,
    pub(super) threshold: Law,
    pub(super) sums: Law,
    pub(super) counts: Law,
    pub(super) released_counts: Law,
    pub(super) paid: Law,
    pub(super) order: Law,
    pub(super) points: Law,
    pub(super) ended: Law,
    pub(super) pattern: Law,
}

impl Checks {
    /// Adds the result of the comparisons to `tests`.
    pub(super) fn conclude(self, name: &str, tests: &mut Tests) {
        let Checks {
            grid,
            scale,
            price,
            threshold,
            sums,
            counts,
            released_counts,
            paid,
            order,
            points,
            ended,
            pattern,
        } = self;
        for (what, law) in [
            ("the divisor and the clip: released means are whole grid units", grid),
            ("the noise that optimizers are told of", scale),
            ("the event of each step is the one that is planned", price),
            ("the clip is that learned from released counts", threshold),
            ("sums are those of known gradients, each drawn sample once", sums),
            ("counts are those of known gradients", counts),
            ("released counts are whole units, as many as were asked for", released_counts),
            ("each step is paid in the ledger's file before its release", paid),
            ("steps follow one another", order),
            ("as many events are recorded and paid as steps were released", ended),
            ("the steps of a sample are as far apart as is priced", pattern),
            ("points have the parameters' length", points),
        ] {
            if law.comparisons > 0 {
                tests.law(&format!("{name}: {what}"), law.comparisons, law.broken);
            }
        }
    }
}
