//! Noise of the releases besides the steps: of the features' means, and of held-out figures.

use super::chance::{FAR, Moments, Products, TailSlack, detected};
use super::power::Power;
use super::tests_of::Tests;
use std::path::Path;

/// Noise of releases, in deviations of the accounted noise.
#[derive(Default)]
pub(super) struct ReleasedNoise {
    moments: Moments,
    /// Pairs that should be independent, by kind.
    pairs: Vec<(&'static str, Products)>,
}

impl ReleasedNoise {
    pub(super) fn add(&mut self, z: f64) {
        self.moments.add(z);
    }

    /// Adds a pair of draws that should be independent.
    pub(super) fn pair(&mut self, what: &'static str, a: f64, b: f64) {
        let at = self.pairs.iter().position(|(known, _)| *known == what).unwrap_or_else(|| {
            self.pairs.push((what, Products::default()));
            self.pairs.len() - 1
        });
        self.pairs[at].1.add(a, b);
    }

    /// Adds the tests. The sums are known to `off` deviations.
    pub(super) fn conclude(self, name: &str, off: f64, tests: &mut Tests) {
        let draws = self.moments.count;
        let of = |what: &str| format!("{name}: {what}");
        let slack = 4.0 * off + 1e-6;
        tests.deviation(&of("deviation of the noise"), draws, self.moments.of_squares(slack), detected(draws), || {
            format!("{:.5} of the deviation that is priced, of {draws} draws", self.moments.deviation())
        });
        let mean = self.moments.sum / draws.max(1) as f64;
        // The sums are known to `off`, so a mean within that is not significant.
        let nearer = Moments { sum: (self.moments.sum.abs() - off * draws as f64).max(0.0), ..self.moments };
        let p = if self.moments.sum.is_nan() { 0.0 } else { nearer.of_sum() };
        tests.test(&of("sums are those of known rows"), draws, p, || format!("off by {mean:.6} deviations on average"));
        tests.finds(&of("sums are those of known rows"), Power::Mean(draws));
        let what = of("noise far out, as of a normal");
        for (p, bound) in self.moments.of_tails(TailSlack { shift: off + 1e-3, chance: 0.0 }).into_iter().zip(FAR) {
            tests.test(&what, draws, p, || format!("beyond {bound} deviations"));
        }
        tests.finds(&what, Power::Cut(draws));
        for (which, products) in self.pairs {
            let what = of("its noise is its own");
            tests.test(&what, products.count, products.p(), || {
                format!("{which}: correlation {:.5}", products.correlation())
            });
            tests.finds(&what, Power::Correlation(products.count));
        }
    }
}

/// Returns the violation if the recorded privacy cost does not match `multiplier` over all rows.
pub(super) fn unpriced(recorded: Option<f64>, multiplier: f64) -> Option<String> {
    match recorded {
        Some(found) if (found / multiplier - 1.0).abs() < 1e-6 => None,
        other => Some(format!("{other:?} is priced, where the multiplier is {multiplier}")),
    }
}

/// Returns the charge in a ledger's file.
pub(super) fn paid(folder: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(folder.join(name)).ok()?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["ledger"]["paid"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_testing::Random;

    /// Returns the failed findings for normal noise that `change` modifies. It gets the draw and its predecessor.
    fn failing(change: impl Fn(f64, f64) -> f64) -> Vec<String> {
        let (mut random, mut noise, mut before) = (Random(9), ReleasedNoise::default(), 0.0);
        for _ in 0..20_000 {
            let (u, v) = (1.0 - random.unit_f64(), random.unit_f64());
            let z = (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos();
            let seen = change(z, before);
            noise.add(seen);
            noise.pair("neighbours", before, seen);
            before = seen;
        }
        let mut tests = Tests::default();
        noise.conclude("release", 1e-6, &mut tests);
        tests.judged().1.into_iter().filter(|finding| !finding.holds).map(|finding| finding.what).collect()
    }

    #[test]
    fn only_noise_as_priced_holds() {
        assert_eq!(failing(|z, _| z), Vec::<String>::new());
        assert!(failing(|z, _| 0.003 * z).contains(&"release: deviation of the noise".into()));
        assert!(failing(|z, _| 0.9 * z).contains(&"release: deviation of the noise".into()));
        assert!(failing(|z, _| z + 0.1).contains(&"release: sums are those of known rows".into()));
        assert!(failing(|z, _| z.clamp(-2.5, 2.5)).contains(&"release: noise far out, as of a normal".into()));
        assert!(failing(|z, before| 0.6 * z + 0.8 * before).contains(&"release: its noise is its own".into()));
        assert!(failing(|_, _| f64::NAN).contains(&"release: sums are those of known rows".into()));
    }
}
