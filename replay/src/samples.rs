//! The gradients of runs that store none, drawn from integers.
//!
//! ```text
//! x ← x·6364136223846793005 + 1442695040888963407 mod 2⁶⁴, from the run's seed          a word is w = ⌊x/2³²⌋
//! ```
//!
//! | kind | bits of the f32 made of a word |
//! | --- | --- |
//! | ordinary | sign and mantissa of `w`, exponent field `122 + (⌊w/2²⁴⌋ mod 4)`: ±[2⁻⁵, 2⁻¹) |
//! | zero | the sign of `w` |
//! | subnormal | sign and mantissa of `w` |
//! | tiny | the same with the exponent field 40: its square underflows |
//! | large | the same with the exponent field 150 |
//! | huge | the same with the exponent field 252: its square overflows |
//!
//! Parameters start as `D` ordinary numbers. Step `t` (from 0) takes `(5·t + 3) mod 7` samples of `D` ordinary numbers `z`
//! each; their gradient at the point `x` is `F(F(x/4) − z)`. After them comes one more sample of `D` numbers, which are its
//! gradient at every point; their kind is, by `t mod 8`:
//!
//! | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | zero | subnormal | huge | large | ordinary, `7f800000` at coordinate `t mod D` | the same with `7fc00000` | tiny | no sample |
//!
//! So steps 47, 103 and 159 take none at all. Sample `s` of a step, counted from 0, comes in by `s mod 3`: mixed outside and in
//! three parts, by a shard, or point by point.
//!
//! Samples that are clipped elsewhere are those of a step at its parameters, each of norm `n` and clipped flat to
//! `F(g·F(C/max(n, C)))`, summed in floats in their order, from zeros, and handed over by a shard; those whose norm is not
//! finite are left out. Samples of a round of updates are the numbers themselves, and there are no parameters.

/// Numbers of a run.
pub(super) struct Numbers(pub(super) u64);

const SIGN: u32 = 0x8000_0000;
const MANTISSA: u32 = 0x007f_ffff;

/// The source of a sample's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// With the gradient `x/4 − z`.
    Ordinary,
    /// The numbers are the gradient; the exponent field.
    Zero,
    Scaled(u32),
    /// The numbers are the gradient, with these bits at one coordinate.
    Spoilt(u32),
}

impl Numbers {
    fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    #[inline(never)]
    pub(super) fn fill(&mut self, kind: Kind, out: &mut [f32]) {
        for out in out {
            let word = self.word();
            *out = f32::from_bits(match kind {
                Kind::Ordinary | Kind::Spoilt(_) => (word & (SIGN | MANTISSA)) | ((122 + ((word >> 24) & 3)) << 23),
                Kind::Zero => word & SIGN,
                Kind::Scaled(exponent) => (word & (SIGN | MANTISSA)) | (exponent << 23),
            });
        }
    }
}

/// Puts what a spoilt sample of step `t` has at one coordinate there.
#[inline(never)]
pub(super) fn inject_non_finite(kind: Kind, t: u32, out: &mut [f32]) {
    if let Kind::Spoilt(bits) = kind {
        let at = t as usize % out.len().max(1);
        if let Some(out) = out.get_mut(at) {
            *out = f32::from_bits(bits);
        }
    }
}

/// Returns the number of ordinary samples of step `t`.
pub(super) fn ordinary(t: u32) -> u32 {
    (t.wrapping_mul(5).wrapping_add(3)) % 7
}

/// The kind of the sample after them.
pub(super) fn further(t: u32) -> Option<Kind> {
    match t % 8 {
        0 => Some(Kind::Zero),
        1 => Some(Kind::Scaled(0)),
        2 => Some(Kind::Scaled(252)),
        3 => Some(Kind::Scaled(150)),
        4 => Some(Kind::Spoilt(0x7f80_0000)),
        5 => Some(Kind::Spoilt(0x7fc0_0000)),
        6 => Some(Kind::Scaled(40)),
        _ => None,
    }
}
