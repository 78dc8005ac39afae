//! Functions of two operands of any type: the loop over broadcast operands, comparisons, integers and selection.

use crate::{Error, Walk, check};

/// Comparison. False if an operand is NaN.
///
/// ```
/// use damper_nn::{Walk, elementwise::{Compare, compare}};
///
/// let walk = Walk::broadcast(&[3], [&[3], &[1]]).unwrap();
/// let mut out = [false; 3];
/// compare(Compare::GreaterOrEqual, &walk, &[1.0, 2.0, f32::NAN], &[2.0], &mut out)?;
/// assert_eq!(out, [false, true, false]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
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
///
/// ```
/// use damper_nn::{Walk, elementwise::{Whole, whole}};
///
/// let walk = Walk::broadcast(&[2], [&[2], &[1]]).unwrap();
/// let mut out = [0; 2];
/// whole(Whole::Mul, &walk, &[3, i64::MAX], &[2], &mut out)?;
/// assert_eq!(out, [6, -2]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
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
///
/// ```
/// use damper_nn::{Walk, elementwise::zip};
///
/// let walk = Walk::broadcast(&[2], [&[2], &[2]]).unwrap();
/// let mut out = [0.0; 2];
/// zip(&walk, &[3.0, 5.0], &[4.0, 12.0], &mut out, |a: f32, b: f32| a * a + b * b)?;
/// assert_eq!(out, [25.0, 169.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
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
///
/// ```
/// use damper_nn::{Walk, elementwise::select};
///
/// let walk = Walk::broadcast(&[2], [&[2], &[2], &[1]]).unwrap();
/// let mut out = [0.0; 2];
/// select(&walk, &[true, false], &[1.0, 2.0], &[9.0], &mut out)?;
/// assert_eq!(out, [1.0, 9.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
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
