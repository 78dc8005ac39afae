//! `AveragePool`: `Y[l]` = mean of the counted taps of window `l` ⇒ `dX` at each tap `+= dY[l] / count[l]`.
//!
//! The counts depend only on the shape. If the windows tile the plane, `Resize` repeats the gradient. Otherwise it is
//! scattered axis by axis. (A depthwise transposed convolution with all-one kernels would also work, but tract loses
//! its channels after a reshaped product.)

use super::resize::repeat;
use super::rule::GradRule;
use crate::axis_map::AxisMap;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::window::SlidingWindow;

pub const RULE: GradRule = GradRule { op: "AveragePool", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let window = SlidingWindow::of_pool(p)?;
    let gy = p.gy_rows();
    let shares = shares(&window, p.int("count_include_pad", 0) != 0);
    let scaled = if shares.iter().all(|&s| s == shares[0]) {
        p.em.scale(&gy, shares[0])
    } else {
        let shares = p.em.floats(gy.dtype, &[&[1, 1], &window.output[..]].concat(), shares);
        p.em.mul(&gy, &shares)
    };
    let gx = if window.tiles() && window.input.len() == 2 {
        repeat(p.em, &scaled, &[1, 1, window.kernel[0], window.kernel[1]])
    } else {
        (0..window.input.len()).fold(scaled, |gx, i| sums(&window, i).backward(p.em, &gx, i + 2))
    };
    p.gx_rows(0, gx);
    Ok(())
}

/// Sums over the taps of each window along spatial axis `i`.
fn sums(window: &SlidingWindow, i: usize) -> AxisMap {
    let inside = window.before[i]..window.before[i] + window.input[i];
    let taps = |o: usize| {
        let places = (0..window.kernel[i]).map(|k| o * window.stride[i] + k * window.dilation[i]);
        places.filter(|place| inside.contains(place)).map(|place| (place - inside.start, 1.0)).collect()
    };
    AxisMap::new(window.input[i], (0..window.output[i]).map(taps).collect())
}

/// Reciprocal of the number of counted taps, for each window.
fn shares(window: &SlidingWindow, include_padding: bool) -> Vec<f64> {
    let mut shares = vec![1.0];
    for i in 0..window.input.len() {
        let counted = if include_padding {
            0..window.before[i] + window.input[i] + window.after[i]
        } else {
            window.before[i]..window.before[i] + window.input[i]
        };
        let count = |o: usize| {
            let taps = (0..window.kernel[i]).map(|k| o * window.stride[i] + k * window.dilation[i]);
            taps.filter(|tap| counted.contains(tap)).count() as f64
        };
        shares = shares.iter().flat_map(|s| (0..window.output[i]).map(move |o| s / count(o))).collect();
    }
    shares
}
