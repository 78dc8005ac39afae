//! A check of the processor's arithmetic, for a device's boot and a host's start.
//!
//! The recorded bits, and the bound on what a sample adds, are those of IEEE 754 arithmetic: rounding to nearest, ties to even,
//! with subnormal numbers, each operation rounded once. A processor can be set otherwise, by a register that any code can write:
//! `FPSCR` on Arm (FZ, RMode), `FPCR` on AArch64, `MXCSR` on x86-64 (FTZ, DAZ, RC), `fcsr` on RISC-V. Some libraries set it
//! for speed, and a thread that they start inherits it.
//!
//! ```
//! damper_core::self_test().unwrap();
//! ```
//!
//! It checks the scalar operations of the thread that calls it, at that time. Vector units with a mode of their own (NEON on 32-bit
//! Arm always flushes) are not seen, and the register can be written afterwards.

use core::fmt;
use core::hint::black_box;

/// A difference of this processor's arithmetic from that of the recorded bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ArithmeticError {
    /// Results or operands that are subnormal are taken for zero.
    FlushToZero,
    /// Results are not rounded to the nearest number, ties to even.
    Rounding,
    /// A product and a sum are rounded together, or not to their type.
    Fused,
}

impl fmt::Display for ArithmeticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FlushToZero => "subnormal numbers are flushed to zero",
            Self::Rounding => "results are not rounded to nearest, ties to even",
            Self::Fused => "products and sums are fused, or wider than their type",
        })
    }
}

impl core::error::Error for ArithmeticError {}

/// Checks rounding, subnormal numbers and fused operations: in f32, and on 64-bit processors in f64. Where f64 is computed in
/// software no mode changes it, and where a processor computes both they have one register.
///
/// # Errors
///
/// The first difference that is found.
pub fn self_test() -> Result<(), ArithmeticError> {
    single()?;
    if cfg!(target_pointer_width = "64") { double() } else { Ok(()) }
}

macro_rules! check {
    ($name:ident, $float:ty, $digits:literal, $least_exponent:literal, $bias:literal) => {
        fn $name() -> Result<(), ArithmeticError> {
            const ONE: $float = 1.0;
            const HALF_ULP: $float = <$float>::EPSILON / 2.0;
            // (1 + h)² = 1 + 2h + h², of which h² is less than half a unit in the last place.
            const H: $float = 1.0 / (1u32 << ($digits / 2 + 1)) as $float;
            // Bits are compared: a comparison of floats would flush its operands, too.
            let half = black_box(<$float>::MIN_POSITIVE) * black_box(0.5);
            let normal = black_box(<$float>::from_bits(1)) * black_box(ONE / <$float>::EPSILON * 2.0);
            if half.to_bits() != 1 << ($digits - 2)
                || normal.to_bits() != ($bias + $digits - $least_exponent) << ($digits - 1)
            {
                return Err(ArithmeticError::FlushToZero);
            }
            // Ties: down to even, and up to even. Each other mode gives another number for one of the two.
            let down = black_box(ONE) + black_box(HALF_ULP);
            let up = black_box(ONE) + black_box(3.0 * HALF_ULP);
            if down.to_bits() != ONE.to_bits() || up.to_bits() != ONE.to_bits() + 2 {
                return Err(ArithmeticError::Rounding);
            }
            let (x, y) = (black_box(ONE + H), black_box(-ONE - 2.0 * H));
            if (x * x + y).to_bits() != 0 {
                return Err(ArithmeticError::Fused);
            }
            Ok(())
        }
    };
}
check!(single, f32, 24, 149, 127);
check!(double, f64, 53, 1074, 1023);
