//! Logarithm, exponential, sine and cosine in f32, whose bits do not depend on the version of `libm`.
//!
//! Sines and cosines are of angles within ±9π/4. A draw of noise needs no others.
//!
//! # Numerics
//!
//! The operations are those of FreeBSD's `e_logf.c`, `e_expf.c`, `s_sinf.c`, `k_sinf.c` and `k_cosf.c`, in their
//! order. musl and `libm` 0.2.16 follow the same files. Tests compare the bits with those of `libm`, and with recorded
//! digests.

// Copyright (C) 1993 by Sun Microsystems, Inc. All rights reserved. Developed at SunPro, a Sun Microsystems, Inc.
// business. Permission to use, copy, modify, and distribute this software is freely granted, provided that this notice
// is preserved. Conversion to float by Ian Lance Taylor, Cygnus Support. `sin_cos` is optimised by Bruce D. Evans.

#![allow(clippy::excessive_precision, reason = "the constants have the digits of the original")]

use core::f64::consts::FRAC_PI_2;

/// Returns the natural logarithm.
#[must_use]
pub(super) fn ln(x: f32) -> f32 {
    const LN_2: [f32; 2] = [f32::from_bits(0x3f31_7180), f32::from_bits(0x3717_f7d1)];
    const LG: [f32; 4] = [
        f32::from_bits(0x3f2a_aaaa),
        f32::from_bits(0x3ecc_ce13),
        f32::from_bits(0x3e91_e9ee),
        f32::from_bits(0x3e78_9e26),
    ];
    const TWO_TO_25: f32 = 33_554_432.0;
    // Bits of √2/2 and of 1.
    const ROOT: u32 = 0x3f35_04f3;
    const ONE: u32 = 0x3f80_0000;
    if x == 0.0 {
        return f32::NEG_INFINITY;
    }
    if x < 0.0 || x.is_nan() {
        return f32::NAN;
    }
    if x == f32::INFINITY || x.to_bits() == ONE {
        return if x == 1.0 { 0.0 } else { x };
    }
    let (x, shift) = if x < f32::MIN_POSITIVE { (x * TWO_TO_25, -25) } else { (x, 0) };
    // x = m·2^k, with m from √2/2 to √2.
    let bits = x.to_bits().wrapping_add(ONE - ROOT);
    let k = ((bits >> 23) as i32).wrapping_sub(0x7f).wrapping_add(shift);
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(ROOT));
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let r = z * (LG[0] + w * LG[2]) + w * (LG[1] + w * LG[3]);
    let half = 0.5 * f * f;
    let k = k as f32;
    s * (half + r) + k * LN_2[1] - half + f + k * LN_2[0]
}

/// Returns `eˣ`.
#[must_use]
pub(super) fn exp(x: f32) -> f32 {
    const LN_2: [f32; 2] = [f32::from_bits(0x3f31_7200), f32::from_bits(0x35bf_be8e)];
    const INV_LN_2: f32 = f32::from_bits(0x3fb8_aa3b);
    const P: [f32; 2] = [f32::from_bits(0x3e2a_aa8f), f32::from_bits(0xbb35_5215)];
    let size = x.to_bits() & 0x7fff_ffff;
    if x.is_nan() {
        return f32::NAN;
    }
    // Above 88.722839, and at most −103.972084.
    if size >= 0x42b1_7218 && x > 0.0 {
        return f32::INFINITY;
    }
    if size >= 0x42cf_f1b5 {
        return 0.0;
    }
    // At most 2⁻¹⁴.
    if size <= 0x3900_0000 {
        return 1.0 + x;
    }
    // x = k·ln 2 + hi − lo, with k·LN_2[0] exact.
    let k = if size <= 0x3eb1_7218 {
        0
    } else if size <= 0x3f85_1592 {
        if x < 0.0 { -1 } else { 1 }
    } else {
        (INV_LN_2 * x + if x < 0.0 { -0.5 } else { 0.5 }) as i32
    };
    let (hi, lo) = if k == 0 { (x, 0.0) } else { (x - k as f32 * LN_2[0], k as f32 * LN_2[1]) };
    let r = hi - lo;
    let rr = r * r;
    let c = r - rr * (P[0] + rr * P[1]);
    let y = 1.0 + (r * c / (2.0 - c) - lo + hi);
    if k == 0 { y } else { scale(y, k) }
}

/// Returns `x·2^k`, rounded once, for `x` from ½ to 2 and `k` from −150 to 128.
fn scale(x: f32, k: i32) -> f32 {
    let power = |k: i32| f32::from_bits(0x7fu32.wrapping_add_signed(k) << 23);
    if k > 127 {
        x * 2.0 * power(127)
    } else if k < -126 {
        x * power(k.wrapping_add(100)) * power(-100)
    } else {
        x * power(k)
    }
}

/// Returns `(sin x, cos x)` for `x` within ±9π/4, or `None`.
#[must_use]
pub(super) fn sin_cos(x: f32) -> Option<(f32, f32)> {
    let size = x.to_bits() & 0x7fff_ffff;
    // Below 2⁻¹².
    if size < 0x3980_0000 {
        return Some((x, 1.0));
    }
    // The limits of the quadrants in f32, near π/4, 3π/4, 5π/4, 7π/4 and 9π/4.
    let quadrant = match size {
        ..=0x3f49_0fda => 0,
        0x3f49_0fdb..=0x4016_cbe3 => 1,
        0x4016_cbe4..=0x407b_53d1 => 2,
        0x407b_53d2..=0x40af_eddf => 3,
        0x40af_ede0..=0x40e2_31d5 => 4,
        _ => return None,
    };
    let turned = f64::from(quadrant) * FRAC_PI_2;
    let x64 = f64::from(x);
    let y = if x < 0.0 { x64 + turned } else { x64 - turned };
    let (sin, cos) = (kernel_sin(y), kernel_cos(y));
    Some(match (quadrant, x < 0.0) {
        (1, false) | (3, true) => (cos, -sin),
        (2, _) => (-sin, -cos),
        (3, false) | (1, true) => (-cos, sin),
        _ => (sin, cos),
    })
}

/// Returns the sine of `x` within ±π/4.
fn kernel_sin(x: f64) -> f32 {
    const S: [f64; 4] = [
        -0.166_666_666_416_265_235_595,
        0.008_333_329_385_889_463_175_6,
        -0.000_198_393_348_360_966_317_347,
        0.000_002_718_311_493_989_821_906_4,
    ];
    let z = x * x;
    let w = z * z;
    let r = S[2] + z * S[3];
    let s = z * x;
    ((x + s * (S[0] + z * S[1])) + s * w * r) as f32
}

/// Returns the cosine of `x` within ±π/4.
fn kernel_cos(x: f64) -> f32 {
    const C: [f64; 4] = [
        -0.499_999_997_251_031_003_120,
        0.041_666_623_323_739_063_189_4,
        -0.001_388_676_377_460_992_946_92,
        0.000_024_390_448_796_277_409_065_4,
    ];
    let z = x * x;
    let w = z * z;
    let r = C[2] + z * C[3];
    (((1.0 + z * C[0]) + w * C[1]) + (w * z) * r) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::digest::Digest;

    /// Every 997th float, of both signs, and those next to the limits of the branches.
    fn floats() -> impl Iterator<Item = f32> {
        let limits = [
            0x3900_0000u32,
            0x3980_0000,
            0x3eb1_7218,
            0x3f49_0fda,
            0x3f80_0000,
            0x3f85_1592,
            0x4016_cbe3,
            0x407b_53d1,
            0x40af_eddf,
            0x40e2_31d5,
            0x42ae_ac50,
            0x42b1_7218,
            0x42cf_f1b5,
            0x0080_0000,
            0x7f80_0000,
        ];
        let near = limits.into_iter().flat_map(|bits| bits - 3..bits + 4);
        let all = (0..0x7f80_0001).step_by(997).chain(near);
        all.flat_map(|bits| [f32::from_bits(bits), -f32::from_bits(bits)])
    }

    fn assert_same(name: &str, x: f32, got: f32, expected: f32) {
        assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{name} {x:e}: {got:e}");
    }

    #[test]
    fn bits_are_those_of_libm() {
        for x in floats() {
            assert_same("ln", x, ln(x), libm::logf(x));
            assert_same("exp", x, exp(x), libm::expf(x));
            if let Some((sin, cos)) = sin_cos(x) {
                assert_same("sin", x, sin, libm::sinf(x));
                assert_same("cos", x, cos, libm::cosf(x));
            }
        }
    }

    // Recorded with `libm` 0.2.16. These digests change only with `CONTRACT`.
    #[test]
    fn bits_are_the_recorded_bits() {
        let digest = |f: fn(f32) -> f32| {
            let mut digest = Digest::default();
            floats().for_each(|x| digest.add_f32s(&[f(x)]));
            digest.value()
        };
        assert_eq!(digest(ln), 0x8bdf_d24b_c5dc_b706);
        assert_eq!(digest(exp), 0x1a42_c7f7_b198_7328);
        assert_eq!(digest(|x| sin_cos(x).unwrap_or_default().0), 0x8a9d_b468_617a_0419);
        assert_eq!(digest(|x| sin_cos(x).unwrap_or_default().1), 0xb3c7_159f_9b30_5541);
    }
}
