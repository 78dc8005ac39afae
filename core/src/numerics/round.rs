//! Floats to integers, and floats that stay finite.

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

/// A float with an infinity replaced by the largest number of its sign.
#[inline(always)]
#[must_use]
pub fn saturate(x: f32) -> f32 {
    x.clamp(-f32::MAX, f32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

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
