//! Elementwise kernels: functions, arithmetic, comparisons and selection, with operands broadcast by a [`Walk`].
//!
//! Each entry is rounded separately, so no order matters. `+ − · ÷` and the square root are correctly rounded. The
//! other functions have the bits of the pinned `libm`.

mod in_place;

pub use in_place::{add_in_place, gate_in_place};

use crate::{Error, Walk, check};

/// Function of one value.
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
#[inline(always)]
pub fn unary(op: Unary, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    with_unary!(op, map(x, out))
}

/// Applies `op` to each entry of `x` in place.
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
#[inline(always)]
pub fn map<A: Copy, B>(x: &[A], out: &mut [B], f: impl Fn(A) -> B) -> Result<(), Error> {
    check(x.len() == out.len())?;
    for (out, x) in out.iter_mut().zip(x) {
        *out = f(*x);
    }
    Ok(())
}

/// Function of two values.
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

/// Comparison. False if an operand is NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// `a = b`.
    Equal,
    /// `a > b`.
    Greater,
    /// `a ≥ b`.
    GreaterOrEqual,
    /// `a < b`.
    Less,
    /// `a ≤ b`.
    LessOrEqual,
}

/// Compares `a` with `b` by `op`, broadcast by `walk`, and writes `out`.
///
/// # Errors
///
/// Fails if an operand is shorter than the walk needs, or if the length of `out` differs from the walk's.
#[inline(always)]
pub fn compare<T: Copy + PartialOrd>(
    op: Compare,
    walk: &Walk<2>,
    a: &[T],
    b: &[T],
    out: &mut [bool],
) -> Result<(), Error> {
    match op {
        Compare::Equal => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a == b,
        ),
        Compare::Greater => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a > b,
        ),
        Compare::GreaterOrEqual => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a >= b,
        ),
        Compare::Less => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a < b,
        ),
        Compare::LessOrEqual => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| a <= b,
        ),
    }
}

/// Function of two integers. Wraps on overflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whole {
    /// `a + b`.
    Add,
    /// `a / b`, rounded towards 0. 0 if `b` is 0.
    Div,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// `a · b`.
    Mul,
    /// `a − b`.
    Sub,
}

/// Applies `op` to the integers `a` and `b`, broadcast by `walk`, and writes `out`.
///
/// # Errors
///
/// Fails if an operand is shorter than the walk needs, or if the length of `out` differs from the walk's.
#[inline(always)]
pub fn whole(op: Whole, walk: &Walk<2>, a: &[i64], b: &[i64], out: &mut [i64]) -> Result<(), Error> {
    match op {
        Whole::Add => zip(walk, a, b, out, i64::wrapping_add),
        Whole::Div => zip(
            walk,
            a,
            b,
            out,
            #[inline(always)]
            |a, b| if b == 0 { 0 } else { a.wrapping_div(b) },
        ),
        Whole::Max => zip(walk, a, b, out, i64::max),
        Whole::Min => zip(walk, a, b, out, i64::min),
        Whole::Mul => zip(walk, a, b, out, i64::wrapping_mul),
        Whole::Sub => zip(walk, a, b, out, i64::wrapping_sub),
    }
}

/// Applies `f` to `a` and `b`, broadcast by `walk`, and writes `out`.
///
/// # Errors
///
/// Fails if an operand is shorter than the walk needs, or if the length of `out` differs from the walk's.
#[inline(always)]
pub fn zip<A: Copy, B: Copy, C>(
    walk: &Walk<2>,
    a: &[A],
    b: &[B],
    out: &mut [C],
    f: impl Fn(A, B) -> C,
) -> Result<(), Error> {
    check(a.len() >= walk.needed(0) && b.len() >= walk.needed(1) && out.len() == walk.len())?;
    let row = walk.row();
    let [a_stride, b_stride] = walk.row_strides();
    let (all_a, all_b) = (a, b);
    walk.each_row(
        #[inline(always)]
        |position, [a_at, b_at]| {
            let Some(out) = out.get_mut(position..position.wrapping_add(row)) else { return };
            let (Some(a), Some(b)) = (a.get(a_at..), b.get(b_at..)) else { return };
            match (a_stride, b_stride) {
                (1, 1) => {
                    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                        *out = f(*a, *b);
                    }
                }
                (1, 0) => {
                    let Some(b) = b.first().copied() else { return };
                    for (out, a) in out.iter_mut().zip(a) {
                        *out = f(*a, b);
                    }
                }
                (0, 1) => {
                    let Some(a) = a.first().copied() else { return };
                    for (out, b) in out.iter_mut().zip(b) {
                        *out = f(a, *b);
                    }
                }
                _ => {
                    let (mut a_at, mut b_at) = (a_at, b_at);
                    for out in out {
                        if let (Some(a), Some(b)) = (all_a.get(a_at), all_b.get(b_at)) {
                            *out = f(*a, *b);
                        }
                        a_at = a_at.wrapping_add_signed(a_stride);
                        b_at = b_at.wrapping_add_signed(b_stride);
                    }
                }
            }
        },
    );
    Ok(())
}

/// Writes `a` to `out` if `condition` is true, else `b`. All operands are broadcast by `walk`.
///
/// # Errors
///
/// Fails if an operand is shorter than the walk needs, or if the length of `out` differs from the walk's.
#[inline(always)]
pub fn select<T: Copy>(walk: &Walk<3>, condition: &[bool], a: &[T], b: &[T], out: &mut [T]) -> Result<(), Error> {
    check(condition.len() >= walk.needed(0) && a.len() >= walk.needed(1) && b.len() >= walk.needed(2))?;
    check(out.len() == walk.len())?;
    let row = walk.row();
    let strides = walk.row_strides();
    walk.each_row(
        #[inline(always)]
        |position, [mut c_at, mut a_at, mut b_at]| {
            let Some(out) = out.get_mut(position..position.wrapping_add(row)) else { return };
            match strides {
                [1, 1, 0] => {
                    let (Some(c), Some(a), Some(b)) = (condition.get(c_at..), a.get(a_at..), b.get(b_at)) else {
                        return;
                    };
                    for ((out, c), a) in out.iter_mut().zip(c).zip(a) {
                        *out = if *c { *a } else { *b };
                    }
                }
                [1, 1, 1] => {
                    let (Some(c), Some(a), Some(b)) = (condition.get(c_at..), a.get(a_at..), b.get(b_at..)) else {
                        return;
                    };
                    for (((out, c), a), b) in out.iter_mut().zip(c).zip(a).zip(b) {
                        *out = if *c { *a } else { *b };
                    }
                }
                [c_stride, a_stride, b_stride] => {
                    for out in out {
                        if let (Some(c), Some(a), Some(b)) = (condition.get(c_at), a.get(a_at), b.get(b_at)) {
                            *out = if *c { *a } else { *b };
                        }
                        c_at = c_at.wrapping_add_signed(c_stride);
                        a_at = a_at.wrapping_add_signed(a_stride);
                        b_at = b_at.wrapping_add_signed(b_stride);
                    }
                }
            }
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests;
