//! Check of the processor's arithmetic, for a device's boot and a host's start.
//!
//! The recorded bits, and the bound on a sample's contribution, need IEEE 754 arithmetic. It rounds each operation
//! once, to nearest, ties to even, and has subnormal numbers. Any code can change this by a register: `FPSCR` on Arm
//! (FZ, RMode), `FPCR` on AArch64, `MXCSR` on x86-64 (FTZ, DAZ, RC), `fcsr` on RISC-V. Some libraries set it for speed,
//! and their threads inherit it.
//!
//! ```
//! damper_core::self_test().unwrap();
//! ```
//!
//! It checks the scalar operations of the calling thread, at the time of the call. It does not detect SIMD units with a
//! separate mode (NEON on 32-bit Arm always flushes), or later changes of the register.

use core::fmt;
use core::hint::black_box;

/// Difference of this processor's arithmetic from that of the recorded bits.
///
/// ```
/// use damper_core::ArithmeticError;
///
/// // A board may print this and stop.
/// assert_eq!(ArithmeticError::FlushToZero.to_string(), "subnormal numbers are flushed to zero");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ArithmeticError {
    /// Subnormal results or operands become zero.
    FlushToZero,
    /// Results are not rounded to nearest, ties to even.
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

/// Checks rounding, subnormal numbers and fused operations, in f32, and on 64-bit processors also in f64.
///
/// If f64 is computed in software, no mode changes it. If a processor computes both, one register controls both.
///
/// # Errors
///
/// Returns the first difference.
///
/// ```
/// damper_core::self_test()?;
/// # Ok::<(), damper_core::ArithmeticError>(())
/// ```
pub fn self_test() -> Result<(), ArithmeticError> {
    single()?;
    if cfg!(target_pointer_width = "64") { double() } else { Ok(()) }
}

macro_rules! check {
    ($name:ident, $float:ty, $digits:literal, $least_exponent:literal, $bias:literal) => {
        fn $name() -> Result<(), ArithmeticError> {
            const ONE: $float = 1.0;
            const HALF_ULP: $float = <$float>::EPSILON / 2.0;
            // (1 + h)² = 1 + 2h + h², with h² less than half a unit in the last place.
            const H: $float = 1.0 / (1u32 << ($digits / 2 + 1)) as $float;
            // Compares bits, because a comparison of floats would also flush its operands.
            let half = black_box(<$float>::MIN_POSITIVE) * black_box(0.5);
            let normal = black_box(<$float>::from_bits(1)) * black_box(ONE / <$float>::EPSILON * 2.0);
            if half.to_bits() != 1 << ($digits - 2)
                || normal.to_bits() != ($bias + $digits - $least_exponent) << ($digits - 1)
            {
                return Err(ArithmeticError::FlushToZero);
            }
            // Ties go down to even, and up to even. Every other mode changes one of the two results.
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
