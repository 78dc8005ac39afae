//! Exponential for the custom operators, with the same bits at every position. It uses only sums, products, fused
//! multiply-adds, comparisons and shifts, each rounded separately. So compilers can vectorise it at any width without
//! changing bits.

/// Computes `exp(x)` with an error of at most 2 ulp. The result is 0 if it would be subnormal, ∞ on overflow, and NaN
/// for NaN.
///
/// `x = n · ln 2 + r`, with a polynomial in `r` (Cephes' `expf`): <https://www.netlib.org/cephes/>.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // ln(2⁻¹²⁶). Compared explicitly because subnormal results are slow, and masks produce many of them.
    let is_gone = x < -87.336_54;
    let x = if is_gone { 0.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    // Adding 1.5 · 2²³ rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 as a sum of two constants. The product of `n` with the first is exact.
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
    let p = horner(1.987_569_1e-4, [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0], r);
    // 2ⁿ may overflow, so multiply by two factors.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let y = p * power(n >> 1) * power(n.wrapping_sub(n >> 1));
    if is_gone { 0.0 } else { y }
}

/// `2ⁿ` as a normal number.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Evaluates the polynomial at `x` by Horner's scheme, from the highest coefficient.
#[inline(always)]
pub(super) fn horner<const N: usize>(first: f32, others: [f32; N], x: f32) -> f32 {
    let mut p = first;
    for coefficient in others {
        p = p.mul_add(x, coefficient);
    }
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_near_the_exact_value() {
        let (steps, [from, to]) = (4_000_000, [-87.3, 88.7]);
        let points = (0..=steps).map(|i| from + (to - from) * (i as f32 / steps as f32));
        let off = points.map(|x| exp(x).to_bits().abs_diff((f64::from(x).exp() as f32).to_bits()));
        assert!(off.max() <= Some(2));
    }

    #[test]
    fn it_ends_as_it_should() {
        let (least, most) = (f32::NEG_INFINITY, f32::INFINITY);
        assert_eq!([least, most, 0.0, f32::MIN, f32::MAX, -88.0].map(exp), [0.0, most, 1.0, 0.0, most, 0.0]);
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
    }
}
