//! Functions of two operands that overwrite one of them.

use crate::{Error, Walk, check};

/// Replaces each entry of `grad` by [`Binary::Gate`](super::Binary::Gate) of the entry of `x` and itself.
///
/// # Errors
///
/// Fails if the lengths differ.
///
/// ```
/// use damper_nn::elementwise::gate_in_place;
///
/// let mut grad = [1.0, 2.0, 3.0];
/// gate_in_place(&[-1.0, 0.0, 4.0], &mut grad)?;
/// assert_eq!(grad, [0.0, 0.0, 3.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn gate_in_place(x: &[f32], grad: &mut [f32]) -> Result<(), Error> {
    check(x.len() == grad.len())?;
    for (grad, x) in grad.iter_mut().zip(x) {
        *grad = if *x > 0.0 { *grad } else { 0.0 };
    }
    Ok(())
}

/// Adds the entries of `x` to those of `out`. Operand 0 of `walk` is `out`, and the walk must not visit an entry of it
/// twice. Operand 1 is `x`, which is broadcast.
///
/// ```
/// use damper_nn::{Walk, elementwise::add_in_place};
///
/// let walk = Walk::broadcast(&[2, 2], [&[2, 2], &[2]]).unwrap();
/// let mut out = [1.0, 2.0, 3.0, 4.0];
/// add_in_place(&walk, &[10.0, 20.0], &mut out)?;
/// assert_eq!(out, [11.0, 22.0, 13.0, 24.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
///
/// # Errors
///
/// Fails if an operand is shorter than the walk needs.
#[inline(always)]
pub fn add_in_place(walk: &Walk<2>, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    check(out.len() >= walk.needed(0) && x.len() >= walk.needed(1))?;
    let row = walk.row();
    let [out_stride, x_stride] = walk.row_strides();
    walk.each_row(
        #[inline(always)]
        |_, [mut out_at, mut x_at]| {
            if let ((1, 1), Some(out), Some(x)) = ((out_stride, x_stride), out.get_mut(out_at..), x.get(x_at..)) {
                for (out, x) in out.iter_mut().zip(x).take(row) {
                    *out += *x;
                }
                return;
            }
            for _ in 0..row {
                if let (Some(out), Some(x)) = (out.get_mut(out_at), x.get(x_at)) {
                    *out += *x;
                }
                out_at = out_at.wrapping_add_signed(out_stride);
                x_at = x_at.wrapping_add_signed(x_stride);
            }
        },
    );
    Ok(())
}
