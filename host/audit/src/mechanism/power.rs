//! Power of a test: the smallest violation that it detects with probability 0.999, at its share of the error
//! probability.

use super::chance::{detected_at, outside, same, tail};

/// Quantile of a normal: a figure lies this many deviations low with probability 0.001.
const MISSED: f64 = 3.1;

/// Violation that a test detects.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Power {
    /// A wrong deviation of this number of draws.
    Deviation(u64),
    /// A wrong mean of this number of draws.
    Mean(u64),
    /// A correlation of this number of pairs.
    Correlation(u64),
    /// A wrong probability in this number of trials, in the likeliest of `of` tests of a family.
    Rate { what: &'static str, trials: u64, rate: f64, of: u64 },
    /// Two samples with the same trials, among `pairs` pairs.
    Shared { trials: u64, rate: f64, pairs: f64 },
    /// Truncated or clamped tails of this number of draws.
    Cut(u64),
    /// A value that comes too often, in a cell of this probability, among `of` cells.
    Atom { draws: u64, chance: f64, of: u64 },
    /// A violation that is detected at any level.
    Always(String),
}

impl Power {
    /// Returns the weakness of the test. Of several tests of one property, the weakest counts.
    pub(super) fn weakness(&self) -> f64 {
        match self {
            Self::Deviation(draws) | Self::Mean(draws) | Self::Correlation(draws) | Self::Cut(draws) => {
                1.0 / *draws as f64
            }
            Self::Rate { trials, rate, .. } => 1.0 / (*trials as f64 * rate.min(1.0 - rate)).max(f64::MIN_POSITIVE),
            Self::Atom { draws, .. } => 1.0 / *draws as f64,
            Self::Shared { trials, .. } => 1.0 / *trials as f64,
            Self::Always(_) => 0.0,
        }
    }

    /// Describes what a test at this level detects.
    pub(super) fn words(&self, level: f64) -> String {
        let normal = (2.0 * (2.0 / level).ln()).sqrt() + MISSED;
        let share = |share: f64| {
            let percent = 100.0 * share;
            if percent >= 10.0 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
        };
        match self {
            Self::Deviation(draws) => format!("a deviation {} off", share(detected_at(*draws, level))),
            Self::Mean(draws) => format!("a mean of {:.2e} deviations", normal / (*draws as f64).sqrt()),
            Self::Correlation(pairs) => {
                let found = normal / (*pairs as f64).sqrt();
                if found >= 1.0 { "nothing: too few pairs".into() } else { format!("a correlation of {found:.2e}") }
            }
            Self::Rate { what, trials, rate, of } => match factor(*trials, *rate, level / *of as f64) {
                None => format!("{what}: nothing, too few draws"),
                Some(factor) if factor < 3.0 => format!("{what} {} higher", share(factor - 1.0)),
                Some(factor) => format!("{what} {factor:.1} times as high"),
            },
            Self::Cut(draws) => match cut(*draws, level) {
                None => "nothing: too few draws".into(),
                Some(bound) => format!("tails cut or clamped at {bound:.2} deviations"),
            },
            Self::Atom { draws, chance, of } => {
                let least = atom(*draws, *chance, level / *of as f64);
                format!("one value in {least} of {draws} draws")
            }
            Self::Shared { trials, rate, pairs } => {
                let is_found = |drawn: &u64| pairs * same(*trials, *drawn, *rate) < level;
                let rare = rate.min(1.0 - rate);
                let drawn = |rarer: &u64| if *rate <= 0.5 { *rarer } else { trials - rarer };
                match (0..=*trials).find(|rarer| is_found(&drawn(rarer))) {
                    None => "nothing: too few steps".into(),
                    Some(0) => "any two samples with the same coins".into(),
                    Some(rarer) => {
                        let usual = rare * *trials as f64;
                        format!(
                            "two samples with the same coins that come up {rarer} times, where {usual:.1} are usual"
                        )
                    }
                }
            }
            Self::Always(what) => what.clone(),
        }
    }
}

/// Returns the factor on `rate` that `trials` trials detect.
fn factor(trials: u64, rate: f64, level: f64) -> Option<f64> {
    let most = 1.0 / rate;
    let is_found = |factor: f64| {
        let mean = trials as f64 * rate * factor;
        let least = mean - MISSED * (mean * (1.0 - rate * factor).max(0.0)).sqrt();
        2.0 * tail(least.max(0.0) as u64, trials, rate, true) < level
    };
    let (mut low, mut high) = (1.0, most);
    if rate <= 0.0 || rate >= 1.0 || !is_found(high) {
        return None;
    }
    for _ in 0..60 {
        let middle = f64::sqrt(low * high);
        if is_found(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// Returns the farthest bound such that an absence of draws beyond it is detected.
fn cut(draws: u64, level: f64) -> Option<f64> {
    let is_found = |bound: f64| 2.0 * (draws as f64 * (-outside(bound)).ln_1p()).exp() < level;
    let (mut low, mut high) = (0.5, 30.0);
    if !is_found(low) {
        return None;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if is_found(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// Returns the number of repeats at which a value of this probability is detected.
fn atom(draws: u64, chance: f64, level: f64) -> u64 {
    let (mut low, mut high) = (0, draws);
    while low < high {
        let middle = low + (high - low) / 2;
        if tail(middle, draws, chance, true) < level { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVEL: f64 = 1e-6 / 4000.0;

    #[test]
    fn stated_violations_are_found() {
        // A test detects the stated factor of a rate three deviations below its mean. It does not detect a factor a
        // tenth nearer.
        let found = factor(10_000, 0.01, LEVEL).unwrap();
        let p = |factor: f64| {
            let mean = 100.0 * factor;
            2.0 * tail((mean - MISSED * mean.sqrt()) as u64, 10_000, 0.01, true)
        };
        assert!(p(found * 1.02) < LEVEL && p(1.0 + 0.85 * (found - 1.0)) > LEVEL, "{found}");
        assert!((2.0..2.6).contains(&found), "{found}");
        assert_eq!((factor(3, 0.01, LEVEL), factor(100, 1.0, LEVEL)), (None, None));
        let bound = cut(42_000_000, LEVEL).unwrap();
        assert!((4.95..5.1).contains(&bound), "{bound}");
        assert!((4.5..4.8).contains(&cut(10_000_000, LEVEL).unwrap()));
        assert_eq!(cut(1, LEVEL), None);
        let least = atom(2_000_000, 4e-7, LEVEL);
        assert!(tail(least, 2_000_000, 4e-7, true) < LEVEL && tail(least - 1, 2_000_000, 4e-7, true) >= LEVEL);
    }

    #[test]
    fn words_have_the_figure() {
        assert_eq!(Power::Correlation(3).words(LEVEL), "nothing: too few pairs");
        assert!(Power::Mean(1_000_000).words(LEVEL).starts_with("a mean of 9."));
        assert!(Power::Cut(10_000_000).words(LEVEL).starts_with("tails cut or clamped at 4.7"));
        let far = Power::Rate { what: "a rate", trials: 100, rate: 0.01, of: 10 };
        assert!(far.words(LEVEL).starts_with("a rate ") && far.words(LEVEL).ends_with(" times as high"));
    }
}
