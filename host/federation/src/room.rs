//! The integer range of an honest device's update. It follows from the plan, and other integers are rejected.
//!
//! An integer is the sum of at most `M` contributions of at most `2^b` grid units each, plus noise of σ:
//!
//! ```text
//! |integer| ≤ M·2^b + 12σ
//! ```
//!
//! Noise exceeds this with probability `2e^-72` per integer. A device draws more than `M` units with probability below
//! 1e-30 per round ([`draws_fit`]). So an honest federation leaves the range with probability below 1e-12. The bound
//! only limits the integers. A device within the bound may still poison the model, by `M` clips in each coordinate.

/// Number of standard deviations of noise that the range includes.
pub(crate) const ROOM: u64 = 12;

/// Maximum probability that a device draws more units than the plan allows, over all its rounds.
pub(crate) const TOO_MANY: f64 = 1e-30;

/// Returns the maximum magnitude of an integer. Returns `None` if it does not fit in 32 bits.
pub(crate) fn largest(units: u32, grid_bits: u32, sigma: u32) -> Option<u32> {
    let largest = u64::from(units).checked_mul(1u64.checked_shl(grid_bits)?)?.checked_add(ROOM * u64::from(sigma))?;
    u32::try_from(largest).ok().filter(|largest| *largest < 1 << 31)
}

/// Returns true if a device with `units` units draws more than `most` of them with probability at most [`TOO_MANY`] in
/// any of `rounds` rounds. Each unit has a Bernoulli trial with probability `rate`.
///
/// By Chernoff's bound `P[X ≥ k] ≤ exp(−n·KL(k/n ‖ q))` for `k ≥ nq` (Hoeffding, 1963, theorem 1).
pub(crate) fn draws_fit(units: u32, rate: f64, most: u32, rounds: u32) -> bool {
    if units <= most {
        return true;
    }
    if rate >= 1.0 {
        return false;
    }
    let n = f64::from(units);
    let share = (f64::from(most) + 1.0) / n;
    if share <= rate {
        return false;
    }
    // At a share of 1 the second term is 0.
    let second = if share < 1.0 { (1.0 - share) * ((1.0 - share) / (1.0 - rate)).ln() } else { 0.0 };
    let exponent = n * (share * (share / rate).ln() + second);
    // One part in 10⁹ covers the rounding of the logarithms.
    f64::from(rounds) * (-exponent * (1.0 - 1e-9)).exp() <= TOO_MANY
}

/// Returns the smallest maximum of drawn units that satisfies [`draws_fit`] for a device with `units` units.
pub(crate) fn most_drawn(units: u32, rate: f64, rounds: u32) -> u32 {
    let (mut low, mut high) = (0, units);
    while low < high {
        let middle = low + (high - low) / 2;
        if draws_fit(units, rate, middle, rounds) { high = middle } else { low = middle + 1 }
    }
    high.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes P[Bin(n, q) > most] by summing the terms.
    fn tail(n: u32, q: f64, most: u32) -> f64 {
        let ln_choose = |k: u32| {
            libm::lgamma(f64::from(n) + 1.0) - libm::lgamma(f64::from(k) + 1.0) - libm::lgamma(f64::from(n - k) + 1.0)
        };
        let term = |k: u32| (ln_choose(k) + f64::from(k) * q.ln() + f64::from(n - k) * (1.0 - q).ln()).exp();
        (most + 1..=n).map(term).sum()
    }

    #[test]
    fn draws_are_bounded_by_binomial_tails() {
        for (n, q) in [(64, 0.5), (100, 0.1), (1000, 0.01), (5000, 0.3), (10_000, 0.001)] {
            let most = most_drawn(n, q, 10);
            assert!(10.0 * tail(n, q, most) <= TOO_MANY, "{n} {q}: {most}");
            // The value is not much too large: three deviations less would be too small.
            let slack = (3.0 * (f64::from(n) * q).sqrt()) as u32 + 3;
            assert!(
                most <= slack || 10.0 * tail(n, q, most - slack.min(most)) > TOO_MANY || most == n,
                "{n} {q}: {most}"
            );
        }
        assert_eq!((most_drawn(7, 1.0, 3), most_drawn(7, 0.9, 1), most_drawn(0, 0.5, 1)), (7, 7, 1));
    }

    #[test]
    fn range_ends_before_32_bits() {
        assert_eq!(largest(3, 16, 1000), Some(3 * 65536 + 12_000));
        assert_eq!(largest((1 << 15) - 1, 16, 5461), Some((1 << 31) - 4));
        assert_eq!(largest(1 << 15, 16, 0), None);
        assert_eq!(largest(u32::MAX, 63, u32::MAX), None);
    }
}
