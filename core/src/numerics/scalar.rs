//! Functions for a step's scalars on processors with f64 in software: the bits of [`function`] in a third of the flash.
//!
//! ```
//! use damper_core::numerics::{function, scalar};
//!
//! // The bits of `libm`.
//! assert_eq!(scalar::exp(0.7).to_bits(), function::exp_f64(0.7).to_bits());
//! assert_eq!(scalar::pow(0.7, 1.3).to_bits(), function::pow_f64(0.7, 1.3).to_bits());
//! assert_eq!(scalar::cos(0.7).to_bits(), function::cos_f64(0.7).to_bits());
//! assert_eq!(scalar::sqrt(0.7).to_bits(), function::sqrt_f64(0.7).to_bits());
//! ```
//!
//! A schedule takes cosines up to half a turn and powers of positive numbers, and a threshold takes an exponential.
//! `libm` also handles other arguments (many turns, negative bases), which is most of its code. It also unrolls its
//! polynomials, although a loop over the coefficients is shorter.
//!
//! # Numerics
//!
//! The operations are those of FreeBSD's `e_exp.c`, `e_pow.c`, `e_rem_pio2.c`, `k_cos.c` and `k_sin.c` (Sun
//! Microsystems, 1993), in their order. `libm` follows the same files, and tests compare the bits.

use super::function;
use super::order::is_at_most;
use super::round::magnitude;

/// Returns `(c_n·z + c_{n−1})·z + …`, rounded at each step, with the highest coefficient first.
#[inline(never)]
fn polynomial(z: f64, coefficients: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (i, coefficient) in coefficients.iter().enumerate() {
        // Not 0·z + c, which is NaN for an infinite z.
        sum = if i == 0 { *coefficient } else { coefficient + z * sum };
    }
    sum
}

/// Returns the high half of a number's bits.
fn high(x: f64) -> u32 {
    (x.to_bits() >> 32) as u32
}

/// Returns a number with the low half of its bits cleared.
fn cut(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & !u64::from(u32::MAX))
}

/// Returns a number within ±2³¹, rounded toward 0.
fn integer(x: f64) -> i32 {
    let magnitude = magnitude(x) as i32;
    if x.is_sign_negative() { magnitude.wrapping_neg() } else { magnitude }
}

/// Returns an integer as a float. Uses a single kind of conversion, because each kind links a separate routine.
fn float(n: i32) -> f64 {
    let size = f64::from(n.unsigned_abs());
    if n < 0 { -size } else { size }
}

/// Returns `x·2^n` for `n` within ±2000. Rounds once if `x` is from ¼ to 4.
fn scale(x: f64, n: i32) -> f64 {
    let power = |n: i32| f64::from_bits(u64::from(1023u32.wrapping_add_signed(n)) << 52);
    x * power(n / 2) * power(n - n / 2)
}

/// Returns the square root, correctly rounded.
#[must_use]
pub fn sqrt(x: f64) -> f64 {
    if cfg!(target_pointer_width = "64") { function::sqrt_f64(x) } else { sqrt_by_digits(x) }
}

/// Computes the square root one binary digit at a time.
fn sqrt_by_digits(x: f64) -> f64 {
    const HIDDEN: u64 = 1 << 52;
    let bits = x.to_bits();
    if bits << 1 == 0 || bits == f64::INFINITY.to_bits() {
        return x;
    }
    // Negative, or NaN.
    if bits >= f64::INFINITY.to_bits() {
        return f64::NAN;
    }
    let (mut exponent, mut rest) = ((bits >> 52) as u32, bits & (HIDDEN - 1));
    if exponent == 0 {
        exponent = 1;
    } else {
        rest |= HIDDEN;
    }
    // Normalises to `rest·2^exponent`, with the leading digit in its place and an even exponent, from −1023 on.
    let shift = rest.leading_zeros().wrapping_sub(11);
    rest <<= shift;
    let mut exponent = (exponent as i32).wrapping_sub(shift as i32).wrapping_sub(1023);
    if exponent & 1 != 0 {
        rest <<= 1;
        exponent = exponent.wrapping_sub(1);
    }
    // Invariant: `root² + rest·2^(−k)` is constant. The last of 54 digits is for rounding.
    let (mut root, mut digit) = (0u64, 1u64 << 53);
    rest <<= 1;
    while digit != 0 {
        let taken = 2 * root + digit;
        if taken <= rest {
            rest -= taken;
            root += digit;
        }
        rest <<= 1;
        digit >>= 1;
    }
    // Never a tie: a root of 54 digits would have a square with more digits than the argument.
    let mantissa = (root >> 1) + (root & 1);
    // The addition carries the mantissa's hidden digit into the exponent.
    let exponent = 1022u64.wrapping_add_signed(i64::from(exponent / 2));
    f64::from_bits((exponent << 52) + mantissa)
}

/// Coefficients of `eˣ` on ±½·ln 2, highest first, as in all of these tables.
static EXP: [f64; 5] = [
    4.138_136_797_057_238_5e-08,
    -1.653_390_220_546_525_2e-06,
    6.613_756_321_437_934e-05,
    -0.002_777_777_777_701_559_3,
    0.166_666_666_666_666_02,
];
const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
const LOG2_E: f64 = core::f64::consts::LOG2_E;

/// Returns `eˣ`, with the bits of [`function::exp_f64`].
#[must_use]
#[inline(never)]
pub fn exp(x: f64) -> f64 {
    let head = high(x) & 0x7fff_ffff;
    // 1000 or more, excluding NaN.
    if head > 0x408f_4000 && is_at_most(x, f64::INFINITY) {
        return if x.is_sign_negative() { 0.0 } else { f64::INFINITY };
    }
    if head <= 0x3e30_0000 {
        return 1.0 + x;
    }
    // Beyond half of ln 2.
    let turns = if head > 0x3fd6_2e42 { integer(LOG2_E * x + f64::copysign(0.5, x)) } else { 0 };
    let turned = float(turns);
    let (high, low) = (x - turned * LN2_HIGH, turned * LN2_LOW);
    let x = high - low;
    let square = x * x;
    let c = x - square * polynomial(square, &EXP);
    scale(1.0 + (x * c / (2.0 - c) - low + high), turns)
}

/// Coefficients of the logarithm.
static LOG: [f64; 6] = [
    0.206_975_017_800_338_42,
    0.230_660_745_775_561_75,
    0.272_728_123_808_534,
    0.333_333_329_818_377_43,
    0.428_571_428_578_550_2,
    0.599_999_999_999_994_6,
];
/// 2/(3·ln 2): its head, and the error of the head.
const SCALE: f64 = 0.961_796_693_925_975_6;
const SCALE_HIGH: f64 = 0.961_796_700_954_437_3;
const SCALE_LOW: f64 = -7.028_461_650_952_758e-09;
/// log₂ 1.5 in two parts.
const LOG2_HIGH: f64 = 0.584_962_487_220_764_2;
const LOG2_LOW: f64 = 1.350_039_202_129_749e-08;
/// ln 2: its head, and the error of the head.
const LN2: f64 = core::f64::consts::LN_2;
const LN2_HEAD: f64 = 0.693_147_182_464_599_6;
const LN2_TAIL: f64 = -1.904_654_299_957_768e-09;

/// Returns log₂ x in two parts, for a finite positive number.
#[inline(always)]
fn log2(x: f64) -> (f64, f64) {
    // x = 2^n·m, m near 1 or near 1.5.
    let (mut m, mut n) = (x, 0);
    if high(m) < 0x0010_0000 {
        m *= 9_007_199_254_740_992.0;
        n = -53;
    }
    let mut head = high(m);
    n += (head >> 20) as i32 - 1023;
    head &= 0x000f_ffff;
    let near_one_and_a_half = head > 0x3988e && head < 0xbb67a;
    if head >= 0xbb67a {
        n += 1;
        head |= 0x3fe0_0000;
    } else {
        head |= 0x3ff0_0000;
    }
    let m = f64::from_bits(u64::from(head) << 32 | m.to_bits() & u64::from(u32::MAX));
    let (near, near_high, near_low) = if near_one_and_a_half { (1.5, LOG2_HIGH, LOG2_LOW) } else { (1.0, 0.0, 0.0) };
    // Computes s = (m − near)/(m + near) in two parts.
    let u = m - near;
    let v = 1.0 / (m + near);
    let s = u * v;
    let s_high = cut(s);
    let t_high = (head >> 1 | 0x2000_0000) + 0x0008_0000 + (u32::from(near_one_and_a_half) << 18);
    let t_high = f64::from_bits(u64::from(t_high) << 32);
    let t_low = m - (t_high - near);
    let s_low = v * ((u - s_high * t_high) - s_high * t_low);
    // Computes ln m.
    let square = s * s;
    let mut r = square * square * polynomial(square, &LOG);
    r += s_low * (s_high + s);
    let square = s_high * s_high;
    let t_high = cut(3.0 + square + r);
    let t_low = r - ((t_high - 3.0) - square);
    let u = s_high * t_high;
    let v = s_low * t_high + t_low * s;
    // Computes log₂ x.
    let p_high = cut(u + v);
    let p_low = v - (p_high - u);
    let z_high = SCALE_HIGH * p_high;
    let z_low = SCALE_LOW * p_high + p_low * SCALE + near_low;
    let t = float(n);
    let log_high = cut(((z_high + z_low) + near_high) + t);
    let log_low = z_low - (((log_high - t) - near_high) - z_high);
    (log_high, log_low)
}

/// Returns `xʸ` for `x` from 0 and `y` from 0 to 2³¹. Has the bits of [`function::pow_f64`] if these are a normal
/// number.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    const ONE: u64 = 1f64.to_bits();
    const TWO: u64 = 2f64.to_bits();
    const HALF: u64 = 0.5f64.to_bits();
    const INFINITY: u64 = f64::INFINITY.to_bits();
    match (x.to_bits(), y.to_bits()) {
        (ONE, _) | (_, 0) => return 1.0,
        // Includes NaN.
        (0 | INFINITY.., _) | (_, ONE) => return x,
        (_, TWO) => return x * x,
        (_, HALF) => return sqrt(x),
        _ => {}
    }
    let (log_high, log_low) = log2(x);
    // Computes y·log₂ x in two parts.
    let y_high = cut(y);
    let p_low = (y - y_high) * log_high + y * log_low;
    let p_high = y_high * log_high;
    let z = p_low + p_high;
    if z > 1024.0 {
        return f64::INFINITY;
    }
    if z < -1075.0 {
        return 0.0;
    }
    // Raises 2 to the nearest integer, halves away from 0, and then to the rest.
    let n = if high(z) & 0x7fff_ffff > 0x3fe0_0000 { integer(cut(z) + f64::copysign(0.5, z)) } else { 0 };
    let p_high = p_high - float(n);
    let t = cut(p_low + p_high);
    let u = t * LN2_HEAD;
    let v = (p_low - (t - p_high)) * LN2 + t * LN2_TAIL;
    let z = u + v;
    let w = v - (z - u);
    let t = z * z;
    let t = z - t * polynomial(t, &EXP);
    let r = (z * t) / (t - 2.0) - (w + z * w);
    scale(1.0 - (r - z), n)
}

/// A quarter turn in parts of 33 bits, each with the remainder after it.
static QUARTER: [(f64, f64); 3] = [
    (1.570_796_326_734_125_6, 6.077_100_506_506_192e-11),
    (6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21),
    (2.022_266_248_711_166_5e-21, 8.478_427_660_368_9e-32),
];
/// Number of binary digits that may cancel before the next part is needed.
static CANCEL: [u32; 3] = [16, 49, 2047];

/// Coefficients of the cosine: the last three, then the first three of six.
static COS: [[f64; 3]; 2] = [
    [-1.135_964_755_778_819_5e-11, 2.087_572_321_298_175e-09, -2.755_731_435_139_066_3e-07],
    [2.480_158_728_947_673e-05, -0.001_388_888_888_887_411, 0.041_666_666_666_666_6],
];
/// Coefficients of the sine, except the first.
static SIN: [&[f64]; 2] = [
    &[1.589_690_995_211_55e-10, -2.505_076_025_340_686_3e-08],
    &[2.755_731_370_707_006_8e-06, -0.000_198_412_698_298_579_5, 0.008_333_333_333_322_49],
];
const SIN_FIRST: f64 = -0.166_666_666_666_666_32;

/// Returns `cos x` for `x` from 0 to π, with the bits of [`function::cos_f64`].
#[must_use]
#[inline(never)]
pub fn cos(x: f64) -> f64 {
    let head = high(x);
    // The nearest multiple of a quarter turn.
    let quarters = u32::from(head > 0x3fe9_21fb) + u32::from(head > 0x4002_d97c);
    let n = f64::from(quarters);
    // x minus that multiple, in two parts.
    let (mut y, mut low) = (x, 0.0);
    if quarters > 0 {
        let mut rest = x;
        for ((part, left), cancel) in QUARTER.iter().zip(&CANCEL) {
            let (before, w) = (rest, n * part);
            rest = before - w;
            low = n * left - ((before - rest) - w);
            y = rest - low;
            if (high(y) >> 20 & 0x7ff) + cancel >= head >> 20 {
                break;
            }
        }
        low = (rest - y) - low;
    }
    let (x, y) = (y, low);
    let z = x * x;
    let w = z * z;
    let sign = if quarters > 0 { -1.0 } else { 1.0 };
    if quarters == 1 {
        let [last, first] = &SIN;
        let r = polynomial(z, first) + z * w * polynomial(z, last);
        let v = z * x;
        return sign * (x - ((z * (0.5 * y - v * r) - y) - v * SIN_FIRST));
    }
    let [last, first] = &COS;
    let r = z * polynomial(z, first) + w * w * polynomial(z, last);
    let half = 0.5 * z;
    let w = 1.0 - half;
    sign * (w + (((1.0 - w) - half) + (z * r - x * y)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the neighbouring floats of `x`.
    fn around(x: f64) -> impl Iterator<Item = f64> {
        (-50i64..=50).map(move |ulps| f64::from_bits(x.to_bits().saturating_add_signed(ulps)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn a_root_by_digits_is_correctly_rounded(x in prop_oneof![
            prop::num::f64::POSITIVE, prop::num::f64::SUBNORMAL, (1u32..=u32::MAX).prop_map(|n| f64::from(n) * f64::from(n)), 0.5f64..4.0,
        ]) {
            prop_assert_eq!(sqrt_by_digits(x).to_bits(), function::sqrt_f64(x).to_bits());
        }

        #[test]
        fn a_cosine_of_half_a_turn_has_libms_bits(x in prop_oneof![
            0.0..=core::f64::consts::PI, 0f64..1e-6,
            (0u32..=1000, 1u32..=1000).prop_map(|(t, of)| core::f64::consts::PI * (f64::from(t.min(of)) / f64::from(of))),
        ]) {
            prop_assert_eq!(cos(x).to_bits(), function::cos_f64(x).to_bits());
        }

        #[test]
        fn an_exponential_has_libms_bits(x in prop_oneof![-800f64..800.0, -2f64..2.0, -1e-7f64..1e-7]) {
            prop_assert_eq!(exp(x).to_bits(), function::exp_f64(x).to_bits());
        }

        #[test]
        fn a_power_has_libms_bits(
            x in prop_oneof![0f64..2.0, 0.9f64..1.1, 1f64..1e9, 1e-12f64..1.0, prop::num::f64::POSITIVE],
            y in prop_oneof![0f64..4.0, (0u32..=40).prop_map(|n| f64::from(n) / 10.0), (0u32..3000).prop_map(f64::from), 0f64..1e-6],
        ) {
            let power = function::pow_f64(x, y);
            prop_assert!(pow(x, y).to_bits() == power.to_bits() || !power.is_normal());
        }
    }

    #[test]
    fn edges_have_libms_bits() {
        for x in [0.0, -0.0, f64::INFINITY, f64::MIN_POSITIVE, 5e-324, f64::MAX, 1.0] {
            assert_eq!(sqrt_by_digits(x).to_bits(), function::sqrt_f64(x).to_bits());
        }
        assert!(sqrt_by_digits(-1.0).is_nan() && sqrt_by_digits(f64::NAN).is_nan() && exp(f64::NAN).is_nan());
        assert!(pow(f64::NAN, 0.3).is_nan());
        for quarter in 0..=4 {
            let x = core::f64::consts::FRAC_PI_4 * f64::from(quarter);
            for x in around(x).filter(|x| *x <= core::f64::consts::PI) {
                assert_eq!(cos(x).to_bits(), function::cos_f64(x).to_bits(), "{x:e}");
            }
        }
        let half = core::f64::consts::LN_2 / 2.0;
        for x in [half, 3.0 * half, 2f64.powi(-28), 709.7, 708.4, 745.1].into_iter().flat_map(around) {
            assert_eq!(exp(x).to_bits(), function::exp_f64(x).to_bits(), "{x:e}");
            assert_eq!(exp(-x).to_bits(), function::exp_f64(-x).to_bits(), "{x:e}");
        }
        assert_eq!((exp(1e300), exp(-1e300), exp(f64::INFINITY)), (f64::INFINITY, 0.0, f64::INFINITY));
        for y in [0.0, 0.5, 1.0, 2.0, 0.25, 3.0, 2_147_483_648.0] {
            for x in [0.0, f64::INFINITY]
                .into_iter()
                .chain([1.0, 1.5f64.sqrt(), 3f64.sqrt(), 1.5, 2.0].into_iter().flat_map(around))
            {
                let power = function::pow_f64(x, y);
                assert_eq!(pow(x, y).to_bits(), power.to_bits(), "{x:e} {y}");
            }
        }
    }
}
