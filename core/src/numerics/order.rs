//! Comparisons of f64 by their bits. If f64 is computed in software, each kind of float comparison links a separate
//! routine. Its call takes more flash than a comparison of bits with constants.
//!
//! ```
//! use damper_core::numerics::order::{is, is_above_zero, is_at_most, is_within};
//!
//! assert!(is_above_zero(1e-300) && !is_above_zero(f64::NAN));
//! assert!(is_within(0.5, 0.25, 1.0) && is_at_most(-0.5, 0.5) && is(0.5, 0.5));
//! ```
//!
//! # Numerics
//!
//! Non-negative numbers order like their bits. NaN is above all of them.

/// Returns true if `x` is above 0. False for NaN.
#[must_use]
pub fn is_above_zero(x: f64) -> bool {
    (1..=f64::INFINITY.to_bits()).contains(&x.to_bits())
}

/// Returns true if `x` is from `least` to `most`, both above 0.
#[must_use]
pub fn is_within(x: f64, least: f64, most: f64) -> bool {
    (least.to_bits()..=most.to_bits()).contains(&x.to_bits())
}

/// Returns true if `|x|` is at most `most`, which must not be negative.
#[must_use]
pub fn is_at_most(x: f64, most: f64) -> bool {
    x.abs().to_bits() <= most.to_bits()
}

/// Returns true if two nonzero numbers are equal.
#[must_use]
pub fn is(x: f64, y: f64) -> bool {
    x.to_bits() == y.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers of all kinds, including the limits of the comparisons.
    fn any() -> impl Strategy<Value = f64> {
        prop_oneof![
            prop::num::f64::ANY,
            -2f64..2.0,
            prop::sample::select(&[0.0, -0.0, 0.5, 1.0, -1.0, 4.0, f64::NAN, -f64::NAN][..])
        ]
    }

    fn above_zero() -> impl Strategy<Value = f64> {
        prop_oneof![prop::num::f64::POSITIVE, prop::num::f64::SUBNORMAL, Just(1.0), Just(4.0)].prop_map(f64::abs)
    }

    proptest! {
        #[test]
        fn bits_say_what_comparisons_say(x in any(), least in above_zero(), most in above_zero()) {
            prop_assert_eq!(is_above_zero(x), x > 0.0);
            prop_assert_eq!(is_within(x, least, most), x >= least && x <= most);
            prop_assert_eq!(is_at_most(x, most), x.abs() <= most);
            prop_assert_eq!(is(x, least), x == least);
            prop_assert!(is_within(least, least, least) && is_at_most(-least, least) && is(least, least));
        }
    }
}
