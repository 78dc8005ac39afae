//! Conversion of floats to integers and back, and saturation of floats.
//!
//! ```
//! use damper_core::numerics::round::{ceil, exactly, magnitude, saturate, truncate};
//!
//! assert_eq!((truncate(2.75), ceil(2.25), magnitude(-2.75)), (2, 3, 2));
//! assert_eq!((ceil(f64::NAN), ceil(1e300)), (0, u32::MAX));
//! assert_eq!(exactly(-(1 << 53)), -9_007_199_254_740_992.0);
//! assert_eq!(saturate(f32::INFINITY), f32::MAX);
//! ```

use super::order::{is, is_above_zero};

/// Returns `x` rounded down, for `0 ≤ x ≤ 2²²`.
///
/// # Numerics
///
/// Exact, and equal on all targets. On x86, a checked conversion does not vectorise. There, the integer is the mantissa
/// of `x + 2²³`, minus one if that sum was rounded up.
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

/// Returns the smallest integer that is not below `x`, limited to `0..=u32::MAX`. Returns 0 for NaN.
#[must_use]
pub fn ceil(x: f64) -> u32 {
    if is_above_zero(x) {
        let below = magnitude(x);
        below.saturating_add(u32::from(!is(f64::from(below), x)))
    } else {
        0
    }
}

/// Returns an integer within ±2⁵³ as a float.
///
/// # Numerics
///
/// Exact. With f64 in software, each kind of conversion links a separate routine, and that of `i64` also rounds.
/// Assembling the bits takes less flash.
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
    // The addition carries the leading digit into the exponent.
    let bits = (u64::from(1085u32.wrapping_sub(zeros)) << 52) + (size << zeros >> 11);
    f64::from_bits(bits | (x as u64) & 1 << 63)
}

/// Returns `|x|` rounded down. Returns `u32::MAX` for larger numbers and for NaN.
///
/// # Numerics
///
/// Exact. Uses the bits, because a cast would compare in software.
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

/// Returns `x`, with an infinity replaced by the largest number of its sign.
///
/// # Numerics
///
/// Exact, and equal on all targets. SIMD of 64-bit processors has minimum and maximum. Without SIMD, or in software,
/// operations on the bits are faster.
#[inline(always)]
#[must_use]
pub fn saturate(x: f32) -> f32 {
    if cfg!(target_pointer_width = "64") { x.clamp(-f32::MAX, f32::MAX) } else { saturate_bits(x) }
}

#[inline(always)]
fn saturate_bits(x: f32) -> f32 {
    // The bits before an infinity, toward zero, are the largest number of its sign.
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
