//! Generated gradients, for runs without recorded gradients.
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
//! Parameters start as `D` ordinary numbers. Step `t` (from 0) takes `(5·t + 3) mod 7` samples, each with `D` ordinary
//! numbers `z`. Their gradient at the evaluation point `x` is `F(F(x/4) − z)`. Then one further sample of `D` numbers
//! follows, which are its gradient at every point. Its kind depends on `t mod 8`:
//!
//! | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | zero | subnormal | huge | large | ordinary, `7f800000` at coordinate `t mod D` | the same with `7fc00000` | tiny | no sample |
//!
//! So steps 47, 103 and 159 have no samples. Sample `s` of a step, counted from 0, is added in a way that depends on
//! `s mod 3`: combined outside and in three segments, by a shard, or by evaluation point.
//!
//! Samples that are clipped outside of the core are those of a step at its parameters. A sample of norm `n` is clipped
//! flat to `F(g·F(C/max(n, C)))`. They are summed in floats in their order, from zeros, and a shard passes the sum.
//! Samples with a non-finite norm are omitted. Samples of a round of updates are the numbers themselves, without
//! parameters.

/// Generator of a run's numbers.
pub(super) struct Numbers(pub(super) u64);

const SIGN: u32 = 0x8000_0000;
const MANTISSA: u32 = 0x007f_ffff;

/// The kind of a sample's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The gradient is `x/4 − z`.
    Ordinary,
    /// The numbers are the gradient. `Scaled` has the exponent field.
    Zero,
    Scaled(u32),
    /// The numbers are the gradient, except one coordinate with these bits.
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

/// Writes the non-finite value of a spoilt sample of step `t` to its coordinate.
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

/// The kind of the further sample.
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
