//! Tests that share one error probability, and exact checks that need none.

use super::power::Power;
use serde::Serialize;

/// Probability that all tests together refute a correct mechanism.
pub const ERROR_RATE: f64 = 1e-6;

/// Tests of one property.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// Course and property.
    pub what: String,
    /// Number of tests or comparisons.
    pub tests: u64,
    /// Draws, steps or samples of the smallest of these tests.
    pub draws: u64,
    /// Relative deviation of the noise that these tests detect with probability 0.999, if they test a deviation.
    pub detects: Option<f64>,
    /// Smallest violation that these tests detect with probability 0.999, in words. Exact checks detect any violation.
    pub finds: Option<String>,
    /// Smallest p-value. `None` for an exact check.
    pub least_p: Option<f64>,
    /// True if the property holds.
    pub holds: bool,
    /// The first failure, or else the place of the smallest p-value.
    pub detail: Option<String>,
}

/// All tests of one audit.
#[derive(Default, Debug)]
pub(super) struct Tests {
    findings: Vec<Finding>,
    /// Weakest test of each finding.
    powers: Vec<Option<Power>>,
    /// Number of tests that share the error probability.
    total: u64,
}

impl Tests {
    fn finding(&mut self, what: String, draws: u64) -> &mut Finding {
        let at = self.place(what, draws);
        let finding = &mut self.findings[at];
        finding.draws = finding.draws.min(draws);
        finding
    }

    fn place(&mut self, what: String, draws: u64) -> usize {
        match self.findings.iter().position(|finding| finding.what == what) {
            Some(at) => at,
            None => {
                self.findings.push(Finding {
                    what,
                    tests: 0,
                    draws,
                    detects: None,
                    finds: None,
                    least_p: None,
                    holds: true,
                    detail: None,
                });
                self.powers.push(None);
                self.findings.len() - 1
            }
        }
    }

    /// Records the power of a test of `what`. The result reports the weakest.
    pub(super) fn finds(&mut self, what: &str, power: Power) {
        let at = self.place(what.into(), u64::MAX);
        let known = &mut self.powers[at];
        if known.as_ref().is_none_or(|known| known.weakness() <= power.weakness()) {
            *known = Some(power);
        }
    }

    /// Adds a test of `draws` draws with this p-value.
    pub(super) fn test(&mut self, what: &str, draws: u64, p: f64, detail: impl FnOnce() -> String) {
        self.total += 1;
        let finding = self.finding(what.into(), draws);
        finding.tests += 1;
        if finding.least_p.is_none_or(|least| p < least) {
            finding.least_p = Some(p);
            finding.detail = Some(detail());
        }
    }

    /// Adds a test of a deviation, which detects a relative error of `detects`.
    pub(super) fn deviation(&mut self, what: &str, draws: u64, p: f64, detects: f64, detail: impl FnOnce() -> String) {
        self.test(what, draws, p, detail);
        let finding = self.finding(what.into(), draws);
        finding.detects = Some(finding.detects.map_or(detects, |known| known.max(detects)));
        self.finds(what, Power::Deviation(draws));
    }

    /// Adds an exact check with `comparisons` comparisons, and its violation, if any.
    pub(super) fn law(&mut self, what: &str, comparisons: u64, broken: Option<String>) {
        let finding = self.finding(what.into(), comparisons);
        finding.tests += comparisons;
        if let Some(broken) = broken {
            finding.holds = false;
            finding.detail.get_or_insert(broken);
        }
    }

    /// Returns the number of tests that share the error probability, and the finding of each property.
    pub(super) fn judged(mut self) -> (u64, Vec<Finding>) {
        let level = ERROR_RATE / self.total.max(1) as f64;
        for (finding, power) in self.findings.iter_mut().zip(&self.powers) {
            if finding.least_p.is_some_and(|p| p < level) {
                finding.holds = false;
            }
            finding.finds = Some(match power {
                Some(power) => power.words(level),
                None if finding.least_p.is_some() => "nothing: too few draws".into(),
                None => "a single violation".into(),
            });
        }
        (self.total, self.findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Tests share one error probability, and deterministic checks have none.
    #[test]
    fn tests_share_one_error_rate() {
        let mut tests = Tests::default();
        for at in 0..1000u32 {
            tests.test("noise", u64::from(1000 + at), 0.5, || format!("test {at}"));
        }
        tests.test("noise", 1000, 0.9e-9, || "the last".into());
        tests.test("coins", 7, 1.1e-9, || "a coin".into());
        tests.finds("noise", Power::Mean(2000));
        tests.finds("noise", Power::Mean(1000));
        tests.finds("noise", Power::Mean(3000));
        tests.law("ledger", 3, None);
        tests.law("ledger", 1, Some("unpaid".into()));
        let (total, findings) = tests.judged();
        assert_eq!(total, 1002);
        let of = |what: &str| findings.iter().find(|finding| finding.what == what).unwrap();
        assert!(!of("noise").holds && of("noise").detail.as_deref() == Some("the last") && of("noise").tests == 1001);
        assert!(of("coins").holds && of("coins").draws == 7);
        assert_eq!(of("noise").finds, Some(Power::Mean(1000).words(1e-6 / 1002.0)));
        assert_eq!(of("ledger").finds.as_deref(), Some("a single violation"));
        assert!(!of("ledger").holds && of("ledger").tests == 4 && of("ledger").least_p.is_none());
    }
}
