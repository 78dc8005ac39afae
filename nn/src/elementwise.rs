//! One output for each position: functions, arithmetic, comparisons and choices, with operands broadcast by a [`Walk`].
//!
//! Each entry is rounded by itself, so there is no order to define. `+ − · ÷` and the square root are rounded correctly; the other functions
//! have the bits of the pinned `libm`.

use crate::{Error, Walk, check};

/// A function of one number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Unary {
    /// `|x|`.
    Abs,
    /// The least whole number not below `x`.
    Ceil,
    /// `x` between two bounds, NaN where it is NaN.
    Clip {
        /// The lower bound.
        low: f32,
        /// The upper one, which wins where it is below the lower.
        high: f32,
    },
    /// Cosine.
    Cos,
    /// The error function.
    Erf,
    /// `eˣ`.
    Exp,
    /// The largest whole number not above `x`.
    Floor,
    /// `x`, or `slope · x` below 0.
    LeakyRelu {
        /// The slope below 0.
        slope: f32,
    },
    /// Natural logarithm.
    Log,
    /// `−x`.
    Neg,
    /// `1 / x`.
    Reciprocal,
    /// `x`, or 0 below 0. NaN stays.
    Relu,
    /// The nearest whole number, the even one of two.
    Round,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// −1, 0 or 1. NaN stays.
    Sign,
    /// Sine.
    Sin,
    /// Square root.
    Sqrt,
    /// Hyperbolic tangent.
    Tanh,
}

/// `op` of each entry of `x`, into `out` of the same length.
///
/// # Errors
///
/// The lengths differ.
#[inline(always)]
pub fn unary(op: Unary, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    match op {
        Unary::Abs => map(
            x,
            out,
            #[inline(always)]
            |x| f32::from_bits(x.to_bits() & 0x7fff_ffff),
        ),
        Unary::Ceil => map(x, out, libm::ceilf),
        Unary::Clip { low, high } => map(
            x,
            out,
            #[inline(always)]
            |x| {
                let raised = if x < low { low } else { x };
                if raised > high { high } else { raised }
            },
        ),
        Unary::Cos => map(x, out, libm::cosf),
        Unary::Erf => map(x, out, libm::erff),
        Unary::Exp => map(x, out, libm::expf),
        Unary::Floor => map(x, out, libm::floorf),
        Unary::LeakyRelu { slope } => map(
            x,
            out,
            #[inline(always)]
            |x| if x < 0.0 { slope * x } else { x },
        ),
        Unary::Log => map(x, out, libm::logf),
        Unary::Neg => map(
            x,
            out,
            #[inline(always)]
            |x| -x,
        ),
        Unary::Reciprocal => map(
            x,
            out,
            #[inline(always)]
            |x| 1.0 / x,
        ),
        Unary::Relu => map(
            x,
            out,
            #[inline(always)]
            |x| if x < 0.0 { 0.0 } else { x },
        ),
        Unary::Round => map(x, out, libm::rintf),
        Unary::Sigmoid => map(
            x,
            out,
            #[inline(always)]
            |x| 1.0 / (1.0 + libm::expf(-x)),
        ),
        Unary::Sign => map(
            x,
            out,
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
        Unary::Sin => map(x, out, libm::sinf),
        Unary::Sqrt => map(x, out, libm::sqrtf),
        Unary::Tanh => map(x, out, libm::tanhf),
    }
}

/// `f` of each entry of `x`, into `out` of the same length.
///
/// # Errors
///
/// The lengths differ.
#[inline(always)]
pub fn map<A: Copy, B>(x: &[A], out: &mut [B], f: impl Fn(A) -> B) -> Result<(), Error> {
    check(x.len() == out.len())?;
    for (out, x) in out.iter_mut().zip(x) {
        *out = f(*x);
    }
    Ok(())
}

/// A function of two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a / b`.
    Div,
    /// The larger, `b` where they are equal. NaN where one is.
    Max,
    /// The smaller, `b` where they are equal. NaN where one is.
    Min,
    /// `a · b`.
    Mul,
    /// `aᵇ`.
    Pow,
    /// `a − b`.
    Sub,
}

/// `op` of `a` and `b`, broadcast by `walk`, into `out`.
///
/// # Errors
///
/// A slice is shorter than the walk needs, or `out` has another length.
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

/// The larger, `b` where they are equal; NaN where one is.
#[inline(always)]
#[must_use]
pub fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The smaller, `b` where they are equal; NaN where one is.
#[inline(always)]
#[must_use]
pub fn smaller(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

/// A comparison: false where an operand is NaN.
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

/// `op` of `a` and `b`, broadcast by `walk`, into `out`.
///
/// # Errors
///
/// A slice is shorter than the walk needs, or `out` has another length.
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

/// A function of two whole numbers, which wraps where it overflows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whole {
    /// `a + b`.
    Add,
    /// `a / b`, towards 0; 0 where `b` is 0.
    Div,
    /// The larger.
    Max,
    /// The smaller.
    Min,
    /// `a · b`.
    Mul,
    /// `a − b`.
    Sub,
}

/// `op` of `a` and `b`, broadcast by `walk`, into `out`.
///
/// # Errors
///
/// A slice is shorter than the walk needs, or `out` has another length.
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

/// `f` of `a` and `b`, broadcast by `walk`, into `out`.
///
/// # Errors
///
/// A slice is shorter than the walk needs, or `out` has another length.
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

/// `a` where `condition` holds, else `b`, all broadcast by `walk`, into `out`.
///
/// # Errors
///
/// A slice is shorter than the walk needs, or `out` has another length.
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
mod tests {
    use super::*;
    use std::vec::Vec;

    const UNUSUAL: [f32; 12] =
        [0.0, -0.0, 1.0, -1.5, 2.5, 1e-40, -1e-40, 88.8, -104.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];

    // Every function is near that of std in f64, also where it overflows, and NaN stays NaN.
    #[test]
    fn functions_match_f64() {
        type Case = (Unary, fn(f64) -> f64);
        let cases: [Case; 17] = [
            (Unary::Abs, f64::abs),
            (Unary::Ceil, f64::ceil),
            (Unary::Clip { low: -1.0, high: 2.0 }, |x| x.clamp(-1.0, 2.0)),
            (Unary::Cos, f64::cos),
            (Unary::Erf, libm::erf),
            (Unary::Exp, libm::exp),
            (Unary::Floor, f64::floor),
            (Unary::LeakyRelu { slope: 0.1 }, |x| if x < 0.0 { f64::from(0.1f32) * x } else { x }),
            (Unary::Log, libm::log),
            (Unary::Neg, |x| -x),
            (Unary::Reciprocal, |x| 1.0 / x),
            (Unary::Relu, |x| if x < 0.0 { 0.0 } else { x }),
            (Unary::Round, f64::round_ties_even),
            (Unary::Sigmoid, |x| 1.0 / (1.0 + libm::exp(-x))),
            (Unary::Sin, f64::sin),
            (Unary::Sqrt, libm::sqrt),
            (Unary::Tanh, libm::tanh),
        ];
        let mut random = damper_testing::Random(19);
        let drawn = (0..500).map(|_| random.below(1 << 20) as f32 * 4e-5 - 20.0);
        let x: Vec<f32> = UNUSUAL.into_iter().chain(drawn).collect();
        for (op, want) in cases {
            let mut out = std::vec![0.0; x.len()];
            unary(op, &x, &mut out).unwrap();
            for (x, got) in x.iter().zip(&out) {
                let want = want(f64::from(*x));
                let near = (f64::from(*got) - want).abs() <= 4e-7 * want.abs() + 1e-37;
                let same = near || got.is_nan() && want.is_nan() || f64::from(*got) == want;
                assert!(
                    same || want.abs() > f64::from(f32::MAX) && got.is_infinite(),
                    "{op:?} of {x}: {got}, not {want}"
                );
            }
        }
        let mut out = [0.0; 4];
        unary(Unary::Sign, &[-2.0, 0.0, 3.0, f32::NAN], &mut out).unwrap();
        assert!(out[..3] == [-1.0, 0.0, 1.0] && out[3].is_nan());
    }

    // Every pair of unusual numbers, in every way in which the operands may lie.
    #[test]
    fn arithmetic_matches_single_operations() {
        let n = UNUSUAL.len();
        let grid = Walk::broadcast(&[n, n], [&[n, 1], &[n]]).unwrap();
        let turned = Walk::new(&[n, n], [&[1, n as isize], &[0, 1]], [0, 0]).unwrap();
        let all: Vec<f32> = (0..n * n).map(|at| UNUSUAL[at / n]).collect();
        type Case = (Binary, fn(f32, f32) -> f32);
        let cases: [Case; 6] = [
            (Binary::Add, |a, b| a + b),
            (Binary::Div, |a, b| a / b),
            (Binary::Mul, |a, b| a * b),
            (Binary::Sub, |a, b| a - b),
            (Binary::Max, |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }),
            (Binary::Min, |a, b| if a.is_nan() || b.is_nan() { f32::NAN } else { a.min(b) }),
        ];
        for (op, want) in cases {
            let mut out = std::vec![0.0; n * n];
            binary(op, &grid, &UNUSUAL, &UNUSUAL, &mut out).unwrap();
            for (at, got) in out.iter().enumerate() {
                let want = want(UNUSUAL[at / n], UNUSUAL[at % n]);
                assert!(*got == want || got.is_nan() && want.is_nan(), "{op:?} at {at}: {got}, not {want}");
            }
            binary(op, &turned, &all, &UNUSUAL, &mut out).unwrap();
            for (at, got) in out.iter().enumerate() {
                let want = want(all[at / n + at % n * n], UNUSUAL[at % n]);
                assert!(*got == want || got.is_nan() && want.is_nan(), "{op:?} at {at}: {got}, not {want}");
            }
        }
        let mut out = [0.0];
        let one = Walk::broadcast(&[], [&[], &[]]).unwrap();
        binary(Binary::Pow, &one, &[3.0], &[2.0], &mut out).unwrap();
        assert_eq!(out, [9.0]);
        assert_eq!(binary(Binary::Add, &grid, &UNUSUAL[1..], &UNUSUAL, &mut std::vec![0.0; n * n]), Err(Error::Length));
    }

    // A choice takes no part of what it does not choose, NaN included.
    #[test]
    fn choices_take_one_side() {
        let walk = Walk::broadcast(&[2, 2], [&[2, 2], &[2], &[]]).unwrap();
        let mut out = [0.0; 4];
        select(&walk, &[true, false, false, true], &[1.0, 2.0], &[f32::NAN], &mut out).unwrap();
        assert!(out[0] == 1.0 && out[1].is_nan() && out[2].is_nan() && out[3] == 2.0);
        let mut truths = [false; 3];
        let walk = Walk::broadcast(&[3], [&[3], &[]]).unwrap();
        for (op, want) in [
            (Compare::Equal, [false, true, false]),
            (Compare::Greater, [false, false, true]),
            (Compare::GreaterOrEqual, [false, true, true]),
            (Compare::Less, [true, false, false]),
            (Compare::LessOrEqual, [true, true, false]),
        ] {
            compare(op, &walk, &[1.0, 2.0, 3.0], &[2.0], &mut truths).unwrap();
            assert_eq!(truths, want);
            compare(op, &walk, &[1.0, 2.0, 3.0], &[f32::NAN], &mut truths).unwrap();
            assert_eq!(truths, [false; 3]);
        }
        let mut out = [0i64; 2];
        let walk = Walk::broadcast(&[2], [&[2], &[2]]).unwrap();
        whole(Whole::Div, &walk, &[7, i64::MIN], &[0, -1], &mut out).unwrap();
        assert_eq!(out, [0, i64::MIN]);
    }
}
