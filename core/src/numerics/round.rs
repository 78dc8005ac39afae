//! Floats to integers and back, and floats that stay finite.

use super::order::{is, is_above_zero};

/// `x` rounded down, for `0 ≤ x ≤ 2²²`.
///
/// # Numerics
///
/// Exact, and the same everywhere. On x86 a checked conversion does not vectorise, so there the integer is read off the
/// mantissa of `x + 2²³`, one less where that sum rounded up.
#[inline(always)]
#[must_use]
pub fn truncate(x: f32) -> u32 {
    if cfg!(any(target_arch = "x86", target_arch = "x86_64")) { truncate_by_mantissa(x) } else { x as u32 }
}

#[inline(always)]
fn truncate_by_mantissa(x: f32) -> u32 {
    const TWO_TO_23: f32 = 8_388_608.0;
    let shifted = x + TWO_TO_23;
    let rounded_up = u32::from(shifted - TWO_TO_23 > x);
    (shifted.to_bits() & 0x007f_ffff).wrapping_sub(rounded_up)
}

/// The smallest integer that is not below `x`, from 0 to `u32::MAX`, which stands for all above; 0 for what is no number.
#[must_use]
pub fn ceil(x: f64) -> u32 {
    if is_above_zero(x) {
        let below = magnitude(x);
        below.saturating_add(u32::from(!is(f64::from(below), x)))
    } else {
        0
    }
}

/// The float that an integer within ±2⁵³ is.
///
/// # Numerics
///
/// Exact. Where f64 is software, each kind of conversion is a routine of its own, and this one's rounds: the bits say it in less.
#[must_use]
pub fn exactly(x: i64) -> f64 {
    if cfg!(target_pointer_width = "64") {
        return x as f64;
    }
    exactly_by_bits(x)
}

fn exactly_by_bits(x: i64) -> f64 {
    let size = x.unsigned_abs();
    if size == 0 {
        return 0.0;
    }
    let zeros = size.leading_zeros();
    // The leading digit is one of the exponent.
    let bits = (u64::from(1085u32.wrapping_sub(zeros)) << 52) + (size << zeros >> 11);
    f64::from_bits(bits | (x as u64) & 1 << 63)
}

/// `|x|` rounded down, `u32::MAX` for all above and for what is no number.
///
/// # Numerics
///
/// Exact. The bits say it where a cast would compare in software.
#[must_use]
pub fn magnitude(x: f64) -> u32 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as u32 & 0x7ff;
    match exponent {
        ..1023 => 0,
        1023..1055 => ((bits & ((1 << 52) - 1) | 1 << 52) >> (1075 - exponent)) as u32,
        _ => u32::MAX,
    }
}

/// A float with an infinity replaced by the largest number of its sign.
///
/// # Numerics
///
/// Exact, and the same everywhere. Vectors of a 64-bit processor have minimum and maximum; where floats are compared one by one,
/// or in software, the bits are quicker.
#[inline(always)]
#[must_use]
pub fn saturate(x: f32) -> f32 {
    if cfg!(target_pointer_width = "64") { x.clamp(-f32::MAX, f32::MAX) } else { saturate_bits(x) }
}

#[inline(always)]
fn saturate_bits(x: f32) -> f32 {
    // Below an infinity, toward zero, lies the largest number of its sign.
    let bits = x.to_bits();
    f32::from_bits(bits.wrapping_sub(u32::from(bits << 1 == f32::INFINITY.to_bits() << 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn both_ways_to_saturate_agree(x in prop_oneof![prop::num::f32::ANY, Just(f32::INFINITY), Just(f32::NEG_INFINITY)]) {
            prop_assert_eq!(saturate_bits(x).to_bits(), x.clamp(-f32::MAX, f32::MAX).to_bits());
        }

        #[test]
        fn both_ways_to_a_float_agree(x in prop_oneof![-(1i64 << 53)..=1 << 53, -9i64..9]) {
            prop_assert_eq!(exactly_by_bits(x).to_bits(), (x as f64).to_bits());
            prop_assert_eq!(exactly(x).to_bits(), (x as f64).to_bits());
        }

        #[test]
        fn a_magnitude_is_what_a_cast_gives(x in prop_oneof![
            prop::num::f64::ANY, -1e10f64..1e10, -3f64..3.0, (0u32..=u32::MAX).prop_map(f64::from),
            (0u32..=u32::MAX).prop_map(|n| f64::from_bits(f64::from(n).to_bits().saturating_sub(1))),
        ]) {
            prop_assert_eq!(magnitude(x), if x.is_nan() { u32::MAX } else { x.abs() as u32 });
            prop_assert_eq!(ceil(x), libm::ceil(x) as u32);
        }

        #[test]
        fn both_ways_to_truncate_agree(
            x in prop_oneof![
                0f32..=4_194_304.0, 0f32..3.0, (0i32..=4_194_304).prop_map(|i| i as f32),
                (0i32..4_194_304).prop_map(|i| f32::from_bits((i as f32).to_bits().saturating_sub(1))),
                (prop::num::f32::SUBNORMAL | prop::num::f32::ZERO).prop_map(f32::abs),
            ]
        ) {
            prop_assert_eq!(truncate_by_mantissa(x), x as u32);
            prop_assert_eq!(truncate(x), x as u32);
        }
    }
}
