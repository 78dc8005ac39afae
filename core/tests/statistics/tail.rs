//! Tail probabilities of chi-square, of Kolmogorov's distance and of the normal distribution, and both tests.

use std::f64::consts::SQRT_2;

/// Lower and upper regularised incomplete gamma functions at `(a, x)`: `P + Q = 1`, with the smaller value to full
/// relative accuracy.
///
/// The series of P below `a + 1`, and the continued fraction of Q (modified Lentz) above. Source: W. Press and others,
/// "Numerical Recipes", section 6.2.
fn gamma(a: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    let front = (a * x.ln() - x - libm::lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / a, 1.0 / a, a);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        (front * sum, 1.0 - front * sum)
    } else {
        let mut b = x + 1.0 - a;
        let (mut c, mut d) = (1e300, 1.0 / b);
        let mut h = d;
        for i in 1..100_000 {
            let i = f64::from(i);
            let an = -i * (i - a);
            b += 2.0;
            d = 1.0 / (an * d + b);
            c = b + an / c;
            h *= d * c;
            if (d * c - 1.0).abs() < 1e-15 {
                break;
            }
        }
        (1.0 - front * h, front * h)
    }
}

/// Two-sided probability of chi-square at `statistic` with `freedom` degrees. Counts that fit too well are wrong too.
pub fn of_chi_square(statistic: f64, freedom: usize) -> f64 {
    let (lower, upper) = gamma(freedom as f64 / 2.0, statistic / 2.0);
    (2.0 * lower.min(upper)).min(1.0)
}

/// Upper tail of Kolmogorov's distribution: `2 Σ (−1)^(k−1) exp(−2k²t²)`.
fn of_kolmogorov(t: f64) -> f64 {
    if t < 0.3 {
        return 1.0; // To 1e-5.
    }
    let terms = (1..100).map(|k| {
        let term = 2.0 * (-2.0 * f64::from(k * k) * t * t).exp();
        if k % 2 == 1 { term } else { -term }
    });
    terms.sum()
}

/// The probability that a standard normal is at most `x`.
pub fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x / SQRT_2)
}

/// Two-sided probability of `x` under the standard normal.
pub fn of_normal(x: f64) -> f64 {
    libm::erfc(x.abs() / SQRT_2)
}

/// Chi-square of counts against probabilities that sum to 1.
pub fn chi_square(counts: &[u64], probabilities: &[f64]) -> f64 {
    assert_eq!(counts.len(), probabilities.len());
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9, "the law is not whole");
    let n = counts.iter().sum::<u64>() as f64;
    let parts = counts.iter().zip(probabilities).map(|(count, p)| {
        assert!(n * p >= 9.0, "a bin expects {}", n * p);
        (*count as f64 - n * p).powi(2) / (n * p)
    });
    of_chi_square(parts.sum(), counts.len() - 1)
}

/// Chi-square of counts against equal probabilities.
pub fn chi_square_uniform(counts: &[u64]) -> f64 {
    chi_square(counts, &vec![1.0 / counts.len() as f64; counts.len()])
}

/// The Kolmogorov-Smirnov test of sorted draws, with Stephens' factor. It is exact for a continuous distribution. For a
/// discrete distribution it is an upper bound of the probability, because the distance is evaluated only at its atoms.
pub fn kolmogorov<T: Copy + PartialEq>(sorted: &[T], below: impl Fn(T) -> f64, up_to: impl Fn(T) -> f64) -> f64 {
    let n = sorted.len() as f64;
    let (mut distance, mut first) = (0f64, 0);
    for equal in sorted.chunk_by(|a, b| a == b) {
        distance = distance.max((below(equal[0]) - first as f64 / n).abs());
        first += equal.len();
        distance = distance.max((up_to(equal[0]) - first as f64 / n).abs());
    }
    of_kolmogorov((n.sqrt() + 0.12 + 0.11 / n.sqrt()) * distance)
}

/// Vectors of mpmath 1.3 at 40 digits: `gammainc(a, 0, x, regularized=True)` and
/// `gammainc(a, x, inf, regularized=True)`.
#[test]
fn incomplete_gammas_are_those_of_mpmath() {
    let vectors = [
        (0.5, 0.1, 0.345_279_153_981_423, 0.654_720_846_018_577),
        (0.5, 30.0, 0.999_999_999_999_990_6, 9.485_737_571_073_848e-15),
        (3.0, 2.0, 0.323_323_583_816_936_54, 0.676_676_416_183_063_5),
        (3.0, 40.0, 0.999_999_999_999_996_4, 3.572_865_928_700_226e-15),
        (50.0, 50.0, 0.518_808_315_472_043_3, 0.481_191_684_527_956_72),
        (50.0, 20.0, 1.245_892_607_971_938e-8, 0.999_999_987_541_073_9),
        (50.0, 120.0, 0.999_999_999_999_839_9, 1.600_822_679_334_483e-13),
        (127.5, 200.0, 0.999_999_983_399_974_8, 1.660_002_524_412_451_8e-8),
        (32767.5, 32767.5, 0.500_734_627_582_905_6, 0.499_265_372_417_094_4),
        (32767.5, 34500.0, 1.0, 2.503_275_098_533_252e-21),
        (32767.5, 31500.0, 6.580_878_027_840_537e-13, 0.999_999_999_999_341_9),
    ];
    for (a, x, lower, upper) in vectors {
        let (p, q) = gamma(a, x);
        for (found, expected) in [(p, lower), (q, upper)] {
            // The smaller value to ten digits, the other to as many decimals.
            let scale = if expected < 0.5 { expected } else { 1.0f64 };
            assert!((found - expected).abs() < 1e-10 * scale, "({a}, {x}): {found:e} for {expected:e}");
        }
    }
}

/// As above, for 400 terms of the series.
#[test]
fn kolmogorovs_tail_is_that_of_mpmath() {
    let vectors = [
        (0.3, 0.999_990_694_198_665_4),
        (0.5, 0.963_945_243_664_875_1),
        (0.8276, 0.499_958_416_563_547_3),
        (1.36, 0.049_485_876_755_377_88),
        (2.0, 6.709_252_557_796_953e-4),
        (3.8, 5.735_950_017_776_206e-13),
        (7.5, 2.772_686_587_282_341_3e-49),
    ];
    for (t, expected) in vectors {
        let found = of_kolmogorov(t);
        assert!((found - expected).abs() < 1e-12 * expected.max(1e-300) + 1e-16 * f64::from(t < 1.0), "{t}: {found:e}");
    }
}
