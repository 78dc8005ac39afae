//! Data movement. Transposes, slices and expansions are copies by a [`Walk`]. Concatenation and padding write blocks
//! into a larger tensor.

use crate::{Error, Walk, check};

/// Copies the elements of `x` that `walk` visits, in order, into `out`.
///
/// # Errors
///
/// Fails if `x` is shorter than the walk needs, or if the length of `out` differs from the walk's.
///
/// ```
/// use damper_nn::{Walk, layout::copy};
///
/// // The transpose of a matrix of two rows.
/// let walk = Walk::new(&[3, 2], [&[1, 3]], [0]).unwrap();
/// let mut out = [0; 6];
/// copy(&walk, &[1, 2, 3, 4, 5, 6], &mut out)?;
/// assert_eq!(out, [1, 4, 2, 5, 3, 6]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn copy<T: Copy>(walk: &Walk<1>, x: &[T], out: &mut [T]) -> Result<(), Error> {
    check(x.len() >= walk.needed(0) && out.len() == walk.len())?;
    let row = walk.row();
    let [stride] = walk.row_strides();
    walk.each_row(
        #[inline(always)]
        |position, [mut at]| {
            let Some(out) = out.get_mut(position..position.wrapping_add(row)) else { return };
            match (stride, x.get(at..)) {
                (1, Some(x)) => {
                    for (out, x) in out.iter_mut().zip(x) {
                        *out = *x;
                    }
                }
                (0, Some([x, ..])) => out.fill(*x),
                _ => {
                    for out in out {
                        if let Some(x) = x.get(at) {
                            *out = *x;
                        }
                        at = at.wrapping_add_signed(stride);
                    }
                }
            }
        },
    );
    Ok(())
}

/// Writes the elements of `x`, in order, to the positions of `out` that `walk` visits. It is the inverse of [`copy`].
/// The rest of `out` is unchanged.
///
/// # Errors
///
/// Fails if `out` is shorter than the walk needs, or if the length of `x` differs from the walk's.
///
/// ```
/// use damper_nn::{Walk, layout::place};
///
/// // Every second element.
/// let walk = Walk::new(&[2], [&[2]], [1]).unwrap();
/// let mut out = [0; 4];
/// place(&walk, &[7, 8], &mut out)?;
/// assert_eq!(out, [0, 7, 0, 8]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn place<T: Copy>(walk: &Walk<1>, x: &[T], out: &mut [T]) -> Result<(), Error> {
    check(out.len() >= walk.needed(0) && x.len() == walk.len())?;
    let row = walk.row();
    let [stride] = walk.row_strides();
    walk.each_row(
        #[inline(always)]
        |position, [mut at]| {
            let Some(x) = x.get(position..position.wrapping_add(row)) else { return };
            if stride == 1 {
                for (out, x) in out.iter_mut().skip(at).zip(x) {
                    *out = *x;
                }
                return;
            }
            for x in x {
                if let Some(out) = out.get_mut(at) {
                    *out = *x;
                }
                at = at.wrapping_add_signed(stride);
            }
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // A transpose with one axis reversed, and the same block written into a larger tensor.
    #[test]
    fn copies_and_places_follow_strides() {
        let turned = Walk::new(&[3, 2], [&[-1, 3]], [2]).unwrap();
        let mut out = [0; 6];
        copy(&turned, &[1, 2, 3, 4, 5, 6], &mut out).unwrap();
        assert_eq!(out, [3, 6, 2, 5, 1, 4]);
        let mut back = [0; 6];
        place(&turned, &out, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 4, 5, 6]);
        let block = Walk::new(&[2, 2], [&[4, 1]], [1]).unwrap();
        let mut whole = [9; 8];
        place(&block, &[1, 2, 3, 4], &mut whole).unwrap();
        assert_eq!(whole, [9, 1, 2, 9, 9, 3, 4, 9]);
        let repeat = Walk::broadcast(&[2, 3], [&[2, 1]]).unwrap();
        let mut out = [0; 6];
        copy(&repeat, &[7, 8], &mut out).unwrap();
        assert_eq!(out, [7, 7, 7, 8, 8, 8]);
        assert_eq!(copy(&repeat, &[7], &mut out), Err(Error::Length));
        assert_eq!(place(&block, &[1, 2, 3, 4], &mut [0; 6]), Err(Error::Length));
    }
}
