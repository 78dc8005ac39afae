//! Upper bounds on p-values, each from a theorem or from an exact sum.
//!
//! | figure | bound |
//! | --- | --- |
//! | `Σ z²` of `n` draws | Chernoff: `exp(−n/2·(r − 1 − ln r))`, `r = Σ z²/n`, on each side |
//! | `Σ z` | `exp(−(Σ z)²/2n)`, on each side: draws are subgaussian |
//! | `Σ z·z'` of independent pairs | Chernoff with `E[exp(λzz')] ≤ (1 − λ²)^(−1/2)` |
//! | a count of Bernoulli trials | the binomial's tails, summed |
//! | draws beyond a bound, the largest draw | binomial tails at a normal's probability, shifted by rounding |
//!
//! For the discrete Gaussian, Poisson summation gives `E[exp(λz²)] ≤ (1 − 2λ)^(−1/2)` for `λ > 0`. For `λ < 0` the mean
//! exceeds that by a factor below `1 + 3·exp(−2π²s²)`. Here `s` is the deviation, in grid units, of a normal that is at
//! most three times narrower. The trainer rejects a σ below 50 units, so that factor differs from 1 by less than
//! 1e-300. The discrete Gaussian is subgaussian with parameter σ (Canonne, Kamath and Steinke 2020, fact 21).

/// Statistics of draws from a normal with mean 0 and deviation 1.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Moments {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) squares: f64,
    /// Number of draws beyond each bound of [`FAR`].
    pub(super) out: [u64; FAR.len()],
}

/// Bounds, in deviations, beyond which draws are counted.
pub(super) const FAR: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5];

impl Moments {
    pub(super) fn add(&mut self, z: f64) {
        self.count += 1;
        self.sum += z;
        self.squares += z * z;
        let far = z.abs();
        for (out, bound) in self.out.iter_mut().zip(FAR) {
            if far <= bound {
                break;
            }
            *out += 1;
        }
    }

    /// Returns the p-value of `Σ z²`, if rounding may have changed it by a relative error of `slack`.
    pub(super) fn of_squares(&self, slack: f64) -> f64 {
        let n = self.count as f64;
        let ratio = self.squares / n;
        let nearer = if ratio > 1.0 { (ratio / (1.0 + slack)).max(1.0) } else { (ratio * (1.0 + slack)).min(1.0) };
        if self.count == 0 {
            return 1.0;
        }
        // `min` and `max` drop a NaN, so check the ratio itself.
        if !ratio.is_finite() || nearer <= 0.0 {
            return 0.0;
        }
        p_value(2.0 * (-n / 2.0 * (nearer - 1.0 - nearer.ln())).exp())
    }

    /// Returns the p-value of `Σ z`.
    pub(super) fn of_sum(&self) -> f64 {
        let n = self.count as f64;
        if self.count == 0 { 1.0 } else { p_value(2.0 * (-self.sum * self.sum / (2.0 * n)).exp()) }
    }

    /// Returns the p-values of the numbers of draws beyond each bound of [`FAR`], two-sided: too few refute as well as
    /// too many.
    pub(super) fn of_tails(&self, slack: TailSlack) -> [f64; FAR.len()] {
        std::array::from_fn(|at| {
            let (low, high) = slack.beyond(FAR[at]);
            binomial_between(self.out[at], self.count, low, high)
        })
    }

    /// Returns the deviation of the draws.
    pub(super) fn deviation(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).sqrt()
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.out.iter_mut().zip(other.out).for_each(|(out, other)| *out += other);
    }
}

/// Permitted error in the probability of a draw beyond a bound.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct TailSlack {
    /// Permitted shift of the bound, in deviations: a grid unit and the rounding of floats.
    pub(super) shift: f64,
    /// Permitted error of the probability itself.
    pub(super) chance: f64,
}

impl TailSlack {
    /// Returns the least and the largest probability of a draw beyond `bound`.
    ///
    /// For a discrete Gaussian, the bounds are a normal's probabilities a grid unit farther out and a grid unit nearer.
    /// They hold because its weights decrease from there.
    pub(super) fn beyond(self, bound: f64) -> (f64, f64) {
        let least = outside(bound + self.shift) - self.chance;
        let most = outside((bound - self.shift).max(0.0)) + self.chance;
        (least * (1.0 - 1e-9), most * (1.0 + 1e-9))
    }
}

/// Returns `P[|Z| > x]` of a normal.
pub(super) fn outside(x: f64) -> f64 {
    libm::erfc(x / std::f64::consts::SQRT_2)
}

/// Returns the density of a normal.
pub(super) fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Returns `bound` as a p-value. A NaN is not chance: it gives 0.
fn p_value(bound: f64) -> f64 {
    // `min` alone drops a NaN.
    if bound.is_nan() { 0.0 } else { bound.min(1.0) }
}

/// Sum of products of independent pairs.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Products {
    pub(super) count: u64,
    pub(super) sum: f64,
}

impl Products {
    pub(super) fn add(&mut self, a: f64, b: f64) {
        self.count += 1;
        self.sum += a * b;
    }

    pub(super) fn correlation(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// Returns the p-value.
    pub(super) fn p(&self) -> f64 {
        let n = self.count as f64;
        let rho = (self.sum / n).abs();
        if self.count == 0 || rho == 0.0 {
            return 1.0;
        }
        // The λ that minimises the bound.
        let lambda = ((1.0 + 4.0 * rho * rho).sqrt() - 1.0) / (2.0 * rho);
        p_value(2.0 * (-n * (lambda * rho + 0.5 * (1.0 - lambda * lambda).ln())).exp())
    }
}

/// Returns the relative error in the deviation of `n` draws that some thousands of tests detect with probability 0.999.
pub(super) fn detected(n: u64) -> f64 {
    5.1 * (2.0 / n.max(1) as f64).sqrt()
}

/// Returns the relative error in the deviation of `n` draws that the sum of squares detects with probability 0.999 at
/// this level.
pub(super) fn detected_at(n: u64, level: f64) -> f64 {
    // 5.1 belongs to a level of 2.5e-10: 6.4 deviations, 3.1 for the probability of a miss, and a little for the bound.
    let share = ((2.0 * (2.0 / level).ln()).sqrt() + 3.1) / ((2.0f64 * (2.0f64 / 2.5e-10).ln()).sqrt() + 3.1);
    share * detected(n)
}

/// Returns the number of draws that detect a relative error of `precision`.
pub(super) fn draws_for(precision: f64) -> u64 {
    (2.0 * (5.1 / precision).powi(2)).ceil() as u64
}

/// Returns the exact two-sided p-value of `k` successes in `n` trials at probability `p`: twice the smaller tail.
pub(super) fn binomial(k: u64, n: u64, p: f64) -> f64 {
    binomial_between(k, n, p, p)
}

/// Returns the same if the probability lies between `low` and `high`. Few successes are most likely at `low`, many at
/// `high`.
pub(super) fn binomial_between(k: u64, n: u64, low: f64, high: f64) -> f64 {
    let (low, high) = (low.max(0.0), high.min(1.0));
    (2.0 * tail(k, n, low, false).min(tail(k, n, high, true))).min(1.0)
}

/// Returns an upper bound on `P[X ≥ k]`, or on `P[X ≤ k]`, `X ~ Binomial(n, p)`.
pub(super) fn tail(k: u64, n: u64, p: f64, above: bool) -> f64 {
    if p <= 0.0 {
        return f64::from(if above { k == 0 } else { true });
    }
    if p >= 1.0 {
        return f64::from(if above { true } else { k == n });
    }
    let (nf, kf, mean) = (n as f64, k as f64, n as f64 * p);
    // The tail that holds the mean is at least a quarter, so 1 is a close bound.
    if (above && kf <= mean) || (!above && kf >= mean) {
        return 1.0;
    }
    let first = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k) + kf * p.ln() + (nf - kf) * (-p).ln_1p();
    let odds = p / (1.0 - p);
    let (mut term, mut sum, mut at) = (1.0f64, 0.0f64, kf);
    while term > 1e-17 * sum.max(1e-300) {
        sum += term;
        if above {
            if at >= nf {
                break;
            }
            term *= odds * (nf - at) / (at + 1.0);
            at += 1.0;
        } else {
            if at <= 0.0 {
                break;
            }
            term *= at / (nf - at + 1.0) / odds;
            at -= 1.0;
        }
    }
    // The rounding error of the logarithms is far below this.
    (first.exp() * sum * (1.0 + 1e-6)).min(1.0)
}

/// Returns `ln n!`: a sum up to 255, then Stirling's series.
fn ln_factorial(n: u64) -> f64 {
    if n < 256 {
        return (2..=n).map(|i| (i as f64).ln()).sum();
    }
    let x = n as f64 + 1.0;
    let tail = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + tail
}

/// Returns the probability that two samples have the same draws in all of `trials` steps, `drawn` or more of them.
///
/// At a rate above a half, it is `drawn` or fewer.
pub(super) fn same(trials: u64, drawn: u64, rate: f64) -> f64 {
    let (rate, drawn) = if rate <= 0.5 { (rate, drawn) } else { (1.0 - rate, trials - drawn) };
    let both = rate * rate;
    let equal = both + (1.0 - rate) * (1.0 - rate);
    let share = (trials as f64 * equal.ln()).exp() * tail(drawn, trials, (both / equal).min(1.0), true);
    share * (1.0 + 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use damper_testing::Random;

    fn direct(k: u64, n: u64, p: f64, above: bool) -> f64 {
        let mut weights = vec![(1.0 - p).powi(n as i32)];
        for j in 0..n {
            weights.push(weights[j as usize] * p / (1.0 - p) * (n - j) as f64 / (j + 1) as f64);
        }
        let range = if above { k as usize..n as usize + 1 } else { 0..k as usize + 1 };
        weights[range].iter().sum()
    }

    #[test]
    fn binomial_tails_match_definition() {
        for (k, n, p) in [(9, 60, 0.05), (0, 60, 0.1), (60, 60, 0.9), (45, 500, 0.05), (5, 500, 0.05), (500, 900, 0.5)]
        {
            for above in [false, true] {
                let (found, exact) = (tail(k, n, p, above), direct(k, n, p, above));
                assert!(found >= exact * 0.999_999_9, "{k} {n} {p} {found} {exact}");
                assert!(found == 1.0 || found <= exact * 1.000_01, "{k} {n} {p} {found} {exact}");
            }
        }
        assert_eq!(binomial(7, 7, 1.0), 1.0);
        assert_eq!(binomial(6, 7, 1.0), 0.0);
        assert_eq!(binomial(1, 7, 0.0), 0.0);
    }

    #[test]
    fn wider_range_refutes_less() {
        for (n, p, slack) in
            [(500, 0.05, 0.01), (10_000_000, 0.317, 2e-5), (10_000_000, 6.3e-5, 2e-5), (500, 1e-3, 1e-2)]
        {
            for k in (0..12).map(|at| (n as f64 * p * f64::from(at) / 6.0).round() as u64) {
                let between = binomial_between(k, n, p - slack, p + slack);
                for truth in [p - slack, p, p + slack] {
                    assert!(between >= binomial(k, n, truth), "{k} of {n} at {truth} ± {slack}: {between}");
                }
            }
            // An expected value at either end of the range is not significant.
            for truth in [(p - slack).max(0.0), p + slack] {
                let between = binomial_between((n as f64 * truth).round() as u64, n, p - slack, p + slack);
                assert!(between > 0.5, "{n} at {truth}: {between}");
            }
            let far = (n as f64 * (p + slack) * 2.0 + 100.0) as u64;
            assert!(binomial_between(far, n, p - slack, p + slack) < LEVEL);
        }
    }

    #[test]
    fn stirlings_series_continues_the_sum() {
        let sum: f64 = (2..=300).map(|i| f64::from(i).ln()).sum();
        assert!((ln_factorial(300) - sum).abs() < 1e-9);
    }

    /// Returns normal draws by Box and Muller with a fixed seed. A sum of twelve uniforms would have no tails.
    fn normal(count: usize, deviation: f64) -> Moments {
        let mut random = Random(11);
        let mut moments = Moments::default();
        for _ in 0..count {
            let (u, v) = (1.0 - random.unit_f64(), random.unit_f64());
            moments.add(deviation * (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos());
        }
        moments
    }

    /// Smallest p-value that counts as chance if some thousands of tests share 1e-6.
    const LEVEL: f64 = 1e-6 / 4000.0;

    // A deviation of 1 % is detected in the stated number of draws.
    #[test]
    fn finds_one_percent_in_stated_draws() {
        let n = draws_for(0.01) as usize;
        assert!((500_000..550_000).contains(&n));
        let right = normal(n, 1.0);
        assert!(right.of_squares(0.0) > 1e-3 && right.of_sum() > 1e-3, "{right:?}");
        assert!(right.of_tails(TailSlack::default()).iter().all(|p| *p > 1e-3));
        assert!(normal(n, 1.01).of_squares(0.0) < LEVEL && normal(n, 0.99).of_squares(0.0) < LEVEL);
        assert!(normal(n, 0.5).of_squares(1e-4) < 1e-100);
    }

    // Exact values of 50 digits, by mpmath.
    #[test]
    fn far_draws_have_their_probability() {
        for (bound, exact) in [
            (1.0, 0.317_310_507_862_914_1),
            (4.0, 6.334_248_366_623_984e-5),
            (4.5, 6.795_346_249_460_121e-6),
            (5.0, 5.733_031_437_583_878e-7),
            (6.0, 1.973_175_290_075_396e-9),
        ] {
            assert!((outside(bound) / exact - 1.0).abs() < 1e-12, "{bound}: {}", outside(bound));
            let (low, high) = TailSlack { shift: 1e-3, chance: 0.0 }.beyond(bound);
            let moved = 2e-3 * density(bound);
            assert!((high - exact) / moved > 0.99 && (exact - low) / moved > 0.97 && high - low < 2.1 * moved);
        }
    }

    // Ten million draws without a value beyond 4.5 deviations are refuted. Values that few draws may miss are not.
    #[test]
    fn missing_tails_are_refuted() {
        let cut = |count| {
            let mut moments = Moments { count, ..Moments::default() };
            for (out, bound) in moments.out.iter_mut().zip(FAR) {
                *out = if bound < 4.5 { (count as f64 * outside(bound)).round() as u64 } else { 0 };
            }
            moments.of_tails(TailSlack { shift: 1e-5, chance: 0.0 })
        };
        assert!(cut(10_000_000)[4] < LEVEL && cut(42_000_000)[5] < LEVEL);
        assert!(cut(10_000_000)[..4].iter().all(|p| *p > 0.5));
        assert!(cut(100_000).iter().all(|p| *p > 0.3));
    }

    // Noise of zeros or of NaN fails the test.
    #[test]
    fn zero_and_nan_noise_fail_test() {
        let mut none = Moments::default();
        (0..100).for_each(|_| none.add(0.0));
        assert_eq!(none.of_squares(1e-6), 0.0);
        let mut broken = Moments::default();
        (0..100).for_each(|_| broken.add(f64::NAN));
        assert_eq!((broken.of_squares(1e-6), broken.of_sum()), (0.0, 0.0));
    }

    // Equal draws correlate. Independent draws do not.
    #[test]
    fn only_equal_draws_correlate() {
        let mut random = Random(3);
        let mut sign = || if random.below(2) == 1 { 1.0 } else { -1.0 };
        let (mut same, mut other) = (Products::default(), Products::default());
        for _ in 0..1000 {
            let (a, b) = (sign(), sign());
            same.add(a, a);
            other.add(a, b);
        }
        assert!(same.p() < 1e-100 && other.p() > 1e-3, "{} {}", same.p(), other.p());
    }

    // By enumeration of all draws of four steps.
    #[test]
    fn same_draws_have_their_probability() {
        for rate in [0.1, 0.5, 0.8] {
            for drawn in 0..=4u64 {
                let exact: f64 = (0..16u32)
                    .filter(|mask| {
                        let count = u64::from(mask.count_ones());
                        if rate <= 0.5 { count >= drawn } else { count <= drawn }
                    })
                    .map(|mask| {
                        (0..4)
                            .map(|at| if mask >> at & 1 == 1 { rate * rate } else { (1.0 - rate) * (1.0 - rate) })
                            .product::<f64>()
                    })
                    .sum();
                let found = same(4, drawn, rate);
                // The tail with the mean counts as 1.
                let whole: f64 = (rate * rate + (1.0 - rate) * (1.0 - rate)).powi(4) * (1.0 + 2e-6);
                assert!(found >= exact && found <= whole, "{rate} {drawn}: {found} {exact}");
            }
        }
    }
}
