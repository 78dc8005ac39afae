//! Elementwise kernels: functions, arithmetic, comparisons and selection, with operands broadcast by a [`Walk`].
//!
//! Each entry is rounded separately, so no order matters. `+ − · ÷` and the square root are correctly rounded. The
//! other functions have the bits of the pinned `libm`.

mod in_place;
mod zip;

pub use in_place::{add_in_place, gate_in_place};
pub use zip::{Compare, Whole, compare, select, whole, zip};

use crate::{Error, Walk, check};

/// Function of one value.
///
/// ```
/// use damper_nn::elementwise::{Unary, unary, unary_in_place};
///
/// let (x, mut out) = ([-1.0, 0.0, 4.0], [0.0; 3]);
/// unary(Unary::Relu, &x, &mut out)?;
/// assert_eq!(out, [0.0, 0.0, 4.0]);
/// unary_in_place(Unary::Sqrt, &mut out);
/// assert_eq!(out, [0.0, 0.0, 2.0]);
/// unary(Unary::Clip { low: -0.5, high: 1.0 }, &x, &mut out)?;
/// assert_eq!(out, [-0.5, 0.0, 1.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Unary {
    /// `|x|`.
    Abs,
    /// `⌈x⌉`.
    Ceil,
    /// `x` clamped to two bounds. NaN stays NaN.
    Clip {
        /// Lower bound.
        low: f32,
        /// Upper bound. It takes precedence if it is less than the lower bound.
        high: f32,
    },
    /// Cosine.
    Cos,
    /// Error function.
    Erf,
    /// `eˣ`.
    Exp,
    /// `⌊x⌋`.
    Floor,
    /// `x` if `x ≥ 0`, else `slope · x`.
    LeakyRelu {
        /// Slope for negative `x`.
        slope: f32,
    },
    /// Natural logarithm.
    Log,
    /// `−x`.
    Neg,
    /// `1 / x`.
    Reciprocal,
    /// `x` if `x ≥ 0`, else 0. NaN stays NaN.
    Relu,
    /// Nearest integer, ties to even.
    Round,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// −1, 0 or 1. NaN stays NaN.
    Sign,
    /// Sine.
    Sin,
    /// Square root.
    Sqrt,
    /// Hyperbolic tangent.
    Tanh,
}

/// Runs `$run` with the function of `$op`.
macro_rules! with_unary {
    ($op:expr, $run:ident($($with:expr),*)) => {
        match $op {
            Unary::Abs => $run(
                $($with,)*
                #[inline(always)]
                |x| f32::from_bits(x.to_bits() & 0x7fff_ffff),
            ),
            Unary::Ceil => $run($($with,)* libm::ceilf),
            Unary::Clip { low, high } => $run(
                $($with,)*
                #[inline(always)]
                |x| {
                    let raised = if x < low { low } else { x };
                    if raised > high { high } else { raised }
                },
            ),
            Unary::Cos => $run($($with,)* libm::cosf),
            Unary::Erf => $run($($with,)* libm::erff),
            Unary::Exp => $run($($with,)* libm::expf),
            Unary::Floor => $run($($with,)* libm::floorf),
            Unary::LeakyRelu { slope } => $run(
                $($with,)*
                #[inline(always)]
                |x| if x < 0.0 { slope * x } else { x },
            ),
            Unary::Log => $run($($with,)* libm::logf),
            Unary::Neg => $run(
                $($with,)*
                #[inline(always)]
                |x| -x,
            ),
            Unary::Reciprocal => $run(
                $($with,)*
                #[inline(always)]
                |x| 1.0 / x,
            ),
            Unary::Relu => $run(
                $($with,)*
                #[inline(always)]
                |x| if x < 0.0 { 0.0 } else { x },
            ),
            Unary::Round => $run($($with,)* libm::rintf),
            Unary::Sigmoid => $run(
                $($with,)*
                #[inline(always)]
                |x| 1.0 / (1.0 + libm::expf(-x)),
            ),
            Unary::Sign => $run(
                $($with,)*
                #[inline(always)]
                |x| {
                    if x > 0.0 {
                        1.0
                    } else if x < 0.0 {
                        -1.0
                    } else {
                        x * 0.0
                    }
                },
            ),
            Unary::Sin => $run($($with,)* libm::sinf),
            Unary::Sqrt => $run($($with,)* libm::sqrtf),
            Unary::Tanh => $run($($with,)* libm::tanhf),
        }
    };
}

/// Applies `op` to each entry of `x` and writes `out`, which has the same length.
///
/// # Errors
///
/// Fails if the lengths differ.
///
/// ```
/// use damper_nn::elementwise::{Unary, unary};
///
/// let mut out = [0.0; 2];
/// unary(Unary::Sigmoid, &[0.0, 100.0], &mut out)?;
/// assert_eq!(out, [0.5, 1.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn unary(op: Unary, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    with_unary!(op, map(x, out))
}

/// Applies `op` to each entry of `x` in place.
///
/// ```
/// use damper_nn::elementwise::{Unary, unary_in_place};
///
/// let mut x = [-2.0, 3.0];
/// unary_in_place(Unary::Abs, &mut x);
/// assert_eq!(x, [2.0, 3.0]);
/// ```
#[inline(always)]
pub fn unary_in_place(op: Unary, x: &mut [f32]) {
    with_unary!(op, map_in_place(x));
}

/// Applies `f` to each entry of `x` in place.
#[inline(always)]
fn map_in_place<T: Copy>(x: &mut [T], f: impl Fn(T) -> T) {
    for x in x {
        *x = f(*x);
    }
}

/// Applies `f` to each entry of `x` and writes `out`, which has the same length.
///
/// # Errors
///
/// Fails if the lengths differ.
///
/// ```
/// use damper_nn::elementwise::map;
///
/// let mut out = [0i64; 2];
/// map(&[1.5f32, -2.5], &mut out, |x| x as i64)?;
/// assert_eq!(out, [1, -2]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn map<A: Copy, B>(x: &[A], out: &mut [B], f: impl Fn(A) -> B) -> Result<(), Error> {
    check(x.len() == out.len())?;
    for (out, x) in out.iter_mut().zip(x) {
        *out = f(*x);
    }
    Ok(())
}

/// Function of two values.
///
/// ```
/// use damper_nn::{Walk, elementwise::{Binary, binary}};
///
/// // A bias of each column.
/// let walk = Walk::broadcast(&[2, 2], [&[2, 2], &[2]]).unwrap();
/// let mut out = [0.0; 4];
/// binary(Binary::Add, &walk, &[1.0, 2.0, 3.0, 4.0], &[10.0, 20.0], &mut out)?;
/// assert_eq!(out, [11.0, 22.0, 13.0, 24.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a / b`.
    Div,
    /// `b` if `a` is greater than 0, else 0: the gradient of [`Unary::Relu`].
    Gate,
    /// Maximum. `b` if they are equal, NaN if either is NaN.
    Max,
    /// Minimum. `b` if they are equal, NaN if either is NaN.
    Min,
    /// `a · b`.
    Mul,
    /// `aᵇ`.
    Pow,
    /// `a − b`.
    Sub,
}

/// Applies `op` to `a` and `b`, broadcast by `walk`, and writes `out`.
///
/// # Errors
///
/// Fails if an operand is shorter than the walk needs, or if the length of `out` differs from the walk's.
#[inline(always)]
pub fn binary(op: Binary, walk: &Walk<2>, a: &[f32], b: &[f32], out: &mut [f32]) -> Result<(), Error> {
    match op {
        Binary::Add => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a + b,
        ),
        Binary::Div => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a / b,
        ),
        Binary::Gate => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| if a > 0.0 { b } else { 0.0 },
        ),
        Binary::Max => zip(walk, a, b, out, larger),
        Binary::Min => zip(walk, a, b, out, smaller),
        Binary::Mul => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a * b,
        ),
        Binary::Pow => zip(walk, a, b, out, libm::powf),
        Binary::Sub => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a - b,
        ),
    }
}

/// Returns the maximum. `b` if they are equal, NaN if either is NaN.
///
/// ```
/// use damper_nn::elementwise::{larger, smaller};
///
/// assert_eq!((larger(1.0, 2.0), smaller(1.0, 2.0)), (2.0, 1.0));
/// assert!(larger(f32::NAN, 1.0).is_nan() && smaller(1.0, f32::NAN).is_nan());
/// ```
#[inline(always)]
#[must_use]
pub fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// Returns the minimum. `b` if they are equal, NaN if either is NaN.
#[inline(always)]
#[must_use]
pub fn smaller(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

#[cfg(test)]
mod tests;
