//! Functions of one element for the custom operators, the same for every element wherever it lies: sums, products and fused products,
//! rounded one by one, comparisons and shifts, of which compilers make vectors of any width with the same bits.

/// `exp(x)` within 2 units of the last place; 0 where the result is below the normal numbers, ∞ above all, NaN of NaN.
///
/// `x = n · ln 2 + r`, and a polynomial of `r` (Cephes' `expf`): <https://www.netlib.org/cephes/>.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // ln(2⁻¹²⁶). Not by rounding: results below the normal numbers take a processor long, and masks make many.
    let is_gone = x < -87.336_54;
    let x = if is_gone { 0.0 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    // Adding 1.5 · 2²³ rounds to an integer, which then stands in the last bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts, of which products with n are exact in the first.
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
    let p = horner(1.987_569_1e-4, [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0], r);
    // 2ⁿ may be above all: in two halves.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let y = p * power(n >> 1) * power(n.wrapping_sub(n >> 1));
    if is_gone { 0.0 } else { y }
}

/// `2ⁿ`, of normal numbers.
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// The polynomial of `x` with these coefficients, the highest first.
#[inline(always)]
fn horner<const N: usize>(first: f32, others: [f32; N], x: f32) -> f32 {
    let mut p = first;
    for coefficient in others {
        p = p.mul_add(x, coefficient);
    }
    p
}

/// `tanh(x)` within 6 units of the last place, by the quotient of polynomials of Eigen and of onnxruntime.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    // Beyond it is ±1 by the quotient too. NaN stays.
    let x = if x > 9.0 { 9.0 } else { x };
    let x = if x < -9.0 { -9.0 } else { x };
    const ABOVE: [f32; 6] =
        [2.000_188e-13, -8.604_672e-11, 5.122_297e-8, 1.485_722_4e-5, 6.372_619_3e-4, 4.893_524_6e-3];
    let above = horner(-2.760_768_5e-16, ABOVE, x * x);
    let below = horner(1.198_258_4e-6, [1.185_347_1e-4, 2.268_434_6e-3, 4.893_525e-3], x * x);
    x * above / below
}

/// `erf(x)` within 6 units of the last place, by XLA's quotient of polynomials (`xla/hlo/builder/lib/math.cc`).
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    // Beyond it is ±1 by the quotient too. NaN stays.
    const END: f32 = 3.832_507;
    let x = if x > END { END } else { x };
    let x = if x < -END { -END } else { x };
    const ABOVE: [f32; 4] = [3.408_291e-3, 5.095_569_5e-2, 0.185_208_32, std::f32::consts::FRAC_2_SQRT_PI];
    let above = horner(2.290_506_6e-4, ABOVE, x * x);
    const BELOW: [f32; 6] = [2.354_796_6e-5, 1.017_962_5e-3, 1.407_047e-2, 0.110_985_05, 0.497_469_25, 1.0];
    let below = horner(-1.179_160_3e-7, BELOW, x * x);
    x * above / below
}

/// `1 / (1 + exp(−x))`, by the exponential of a negative number.
#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    let v = exp(-x.abs());
    let above = 1.0 / (1.0 + v);
    if x < 0.0 { v * above } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of the last place between `function` and its exact value, at worst.
    fn worst(function: fn(f32) -> f32, exact: fn(f64) -> f64, [from, to]: [f32; 2]) -> u32 {
        let steps = 4_000_000;
        let points = (0..=steps).map(|i| from + (to - from) * (i as f32 / steps as f32));
        points.map(|x| function(x).to_bits().abs_diff((exact(f64::from(x)) as f32).to_bits())).max().unwrap()
    }

    /// By its series.
    fn exact_erf(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for n in 1..150 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn they_are_near_the_exact_values() {
        assert!(worst(exp, f64::exp, [-87.3, 88.7]) <= 2);
        assert!(worst(tanh, f64::tanh, [-10.0, 10.0]) <= 6);
        assert!(worst(erf, exact_erf, [-4.0, 4.0]) <= 6);
        assert!(worst(sigmoid, |x| 1.0 / (1.0 + (-x).exp()), [-87.0, 87.0]) <= 4);
    }

    #[test]
    fn they_end_as_they_should() {
        const INFINITIES: [f32; 2] = [f32::NEG_INFINITY, f32::INFINITY];
        assert_eq!(INFINITIES.map(exp), [0.0, f32::INFINITY]);
        assert_eq!(INFINITIES.map(sigmoid), [0.0, 1.0]);
        for function in [tanh, erf] {
            assert_eq!(INFINITIES.map(function), [-1.0, 1.0]);
            assert_eq!(function(0.0), 0.0);
        }
        assert_eq!([exp(0.0), exp(f32::MIN), exp(f32::MAX), exp(-88.0)], [1.0, 0.0, f32::INFINITY, 0.0]);
        for function in [exp, tanh, erf, sigmoid] {
            assert!(function(f32::NAN).is_nan() && function(-f32::NAN).is_nan());
        }
    }
}
