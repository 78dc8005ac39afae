//! Comparisons of f64 by their bits: where f64 is software, each kind of comparison is a routine of its own, and its call takes more
//! than the bits of constants do.
//!
//! # Numerics
//!
//! Numbers from 0 on are ordered as their bits; what is no number lies above all of them.

/// Returns true if `x` is a number above 0.
#[must_use]
pub fn is_above_zero(x: f64) -> bool {
    (1..=f64::INFINITY.to_bits()).contains(&x.to_bits())
}

/// Returns true if `x` is from `least` to `most`, both above 0.
#[must_use]
pub fn is_within(x: f64, least: f64, most: f64) -> bool {
    (least.to_bits()..=most.to_bits()).contains(&x.to_bits())
}

/// Returns true if `|x|` is at most `most`, which is not negative.
#[must_use]
pub fn is_at_most(x: f64, most: f64) -> bool {
    x.abs().to_bits() <= most.to_bits()
}

/// Returns true if two numbers, not 0, are equal.
#[must_use]
pub fn is(x: f64, y: f64) -> bool {
    x.to_bits() == y.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All kinds of numbers, and those that are compared with.
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
