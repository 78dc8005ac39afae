//! Pooling over the windows of each channel, in one and two dimensions. The window has as many outputs and groups as
//! channels.

use crate::elementwise::larger;
use crate::sum::Sum;
use crate::window::{Window, split};
use crate::{Error, check};

/// Writes the maximum of each window of `x` `[channels, H, W]` to `out` `[channels, *windows]`.
///
/// It is NaN if an entry of the window is NaN. Taps outside the image do not count. A window completely outside gives
/// −∞.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
///
/// ```
/// use damper_nn::{Axis, Window, pool::max_pool};
///
/// let axis = Axis { input: 4, output: 2, kernel: 2, stride: 2, ..Axis::POINT };
/// let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
/// let mut out = [0.0; 2];
/// max_pool(&window, &[1.0, 3.0, 4.0, 2.0], &mut out)?;
/// assert_eq!(out, [3.0, 4.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn max_pool(window: &Window, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    each(window, x, out, f32::NEG_INFINITY, |most: &mut f32, x| *most = larger(x, *most), |most, _| most)
}

/// Writes the mean of each window of `x` `[channels, H, W]` to `out` `[channels, *windows]`.
///
/// It is the sum over the taps inside the image, in the [order of sums](crate::sum), divided by their count. If
/// `counts_outside` is true, the divisor is the count of all taps.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
///
/// ```
/// use damper_nn::{Axis, Window, pool::average_pool};
///
/// let axis = Axis { input: 4, output: 2, kernel: 2, stride: 2, ..Axis::POINT };
/// let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
/// let mut out = [0.0; 2];
/// average_pool(&window, false, &[1.0, 3.0, 4.0, 2.0], &mut out)?;
/// assert_eq!(out, [2.0, 3.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn average_pool(window: &Window, counts_outside: bool, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
    let all = window.taps();
    let mean = |sum: Sum, inside: usize| sum.value() / (if counts_outside { all } else { inside }) as f32;
    each(window, x, out, Sum::default(), |sum, x| sum.add(x), mean)
}

/// Computes the gradient of [`max_pool`] with respect to `x`, for windows that tile the image.
///
/// `dy` `[channels, *windows]` is the gradient of the output `y`. In each window, the first tap that equals `y` has the
/// window's gradient. If none does, the last tap has it. `out` is `[channels, H, W]`.
///
/// # Errors
///
/// Fails if the length of a slice does not match the window.
///
/// ```
/// use damper_nn::{Axis, Window, pool::max_pool_grad};
///
/// let axis = Axis { input: 4, output: 2, kernel: 2, stride: 2, ..Axis::POINT };
/// let window = Window::new(1, 1, 1, [Axis::POINT, axis]).unwrap();
/// let mut out = [0.0; 4];
/// max_pool_grad(&window, &[10.0, 20.0], &[1.0, 3.0, 4.0, 2.0], &[3.0, 4.0], &mut out)?;
/// assert_eq!(out, [0.0, 10.0, 20.0, 0.0]);
/// # Ok::<(), damper_nn::Error>(())
/// ```
#[inline(always)]
pub fn max_pool_grad(window: &Window, dy: &[f32], x: &[f32], y: &[f32], out: &mut [f32]) -> Result<(), Error> {
    check(x.len() == window.input_len() && out.len() == x.len())?;
    check(y.len() == window.output_len() && dy.len() == y.len())?;
    let [height, width] = window.axes;
    out.fill(0.0);
    let (mut channel, mut row, mut column) = (0usize, 0usize, 0usize);
    for (dy, y) in dy.iter().zip(y) {
        let corner =
            channel.wrapping_add(height.at(row, 0).wrapping_mul(width.input)).wrapping_add(width.at(column, 0));
        let mut place = corner;
        'taps: for i in 0..height.kernel {
            for j in 0..width.kernel {
                place = corner.wrapping_add(i.wrapping_mul(width.input)).wrapping_add(j);
                if x.get(place) == Some(y) {
                    break 'taps;
                }
            }
        }
        if let Some(out) = out.get_mut(place) {
            *out = *dy;
        }
        column += 1;
        if column == width.output {
            (row, column) = (row + 1, 0);
            if row == height.output {
                (channel, row) = (channel.wrapping_add(window.area()), 0);
            }
        }
    }
    Ok(())
}

/// Folds the taps of each window that are inside the image, in order.
#[inline(always)]
fn each<S: Copy>(
    window: &Window,
    x: &[f32],
    out: &mut [f32],
    from: S,
    mut fold: impl FnMut(&mut S, f32),
    finish: impl Fn(S, usize) -> f32,
) -> Result<(), Error> {
    check(x.len() == window.input_len() && out.len() == window.output_len())?;
    let [height, width] = window.axes;
    // Does not zip chunks: compiled for size, their division may keep a panic.
    for (channel, out) in out.chunks_mut(window.positions().max(1)).enumerate() {
        let x = x.get(channel.wrapping_mul(window.area())..).unwrap_or_default();
        for (position, out) in out.iter_mut().enumerate() {
            let (y, column) = split(position, width.output);
            let (mut state, mut inside) = (from, 0);
            for i in 0..height.kernel {
                for j in 0..width.kernel {
                    if let Some(x) = window.inside((y, column), (i, j)).and_then(|at| x.get(at)) {
                        fold(&mut state, *x);
                        inside += 1;
                    }
                }
            }
            *out = finish(state, inside);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Axis;

    // Windows of 3 taps at stride 2 with padding 1, over two channels of 5 elements.
    #[test]
    fn pools_match_hand_results() {
        let line = Axis { input: 5, output: 3, kernel: 3, stride: 2, dilation: 1, before: 1 };
        let window = Window::new(2, 2, 2, [Axis::POINT, line]).unwrap();
        let x = [1.0, 5.0, 2.0, 4.0, 3.0, -1.0, -5.0, -2.0, f32::NAN, -3.0];
        let mut out = [0.0; 6];
        max_pool(&window, &x, &mut out).unwrap();
        assert_eq!(out[..4], [5.0, 5.0, 4.0, -1.0]);
        assert!(out[4].is_nan() && out[5].is_nan());
        average_pool(&window, false, &x, &mut out).unwrap();
        assert_eq!(out[..4], [3.0, 11.0 / 3.0, 3.5, -3.0]);
        average_pool(&window, true, &x, &mut out).unwrap();
        assert_eq!(out[..4], [2.0, 11.0 / 3.0, 7.0 / 3.0, -2.0]);
        assert_eq!(max_pool(&window, &x[1..], &mut out), Err(Error::Length));
    }

    // The first of equal taps has the gradient. If no tap equals the maximum, the last tap has it.
    #[test]
    fn pool_gradients_go_to_first_of_equals() {
        let axis = |input: usize| Axis { input, output: input / 2, kernel: 2, stride: 2, dilation: 1, before: 0 };
        let window = Window::new(2, 2, 2, [axis(2), axis(4)]).unwrap();
        let x = [1.0, 7.0, -0.0, 0.0, 7.0, 2.0, 0.0, -1.0, f32::NAN, 3.0, 5.0, 5.0, 4.0, 3.0, 5.0, 5.0];
        let mut y = [0.0; 4];
        max_pool(&window, &x, &mut y).unwrap();
        let mut out = [f32::NAN; 16];
        max_pool_grad(&window, &[1.0, 2.0, 3.0, 4.0], &x, &y, &mut out).unwrap();
        assert_eq!(out, [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
        assert_eq!(max_pool_grad(&window, &[1.0; 3], &x, &y, &mut out), Err(Error::Length));
    }

    #[test]
    fn windows_outside_hold_nothing() {
        let line = Axis { input: 1, output: 3, kernel: 1, stride: 2, dilation: 1, before: 2 };
        let window = Window::new(1, 1, 1, [Axis::POINT, line]).unwrap();
        let mut out = [0.0; 3];
        max_pool(&window, &[4.0], &mut out).unwrap();
        assert_eq!(out, [f32::NEG_INFINITY, 4.0, f32::NEG_INFINITY]);
    }
}
