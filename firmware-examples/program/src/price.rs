//! The step of [`step`](crate::step), and the privacy cost of a run of such steps by the Rényi curve at fractional
//! orders, on the device. Its image less that of `step` is the flash for computing ε.

use core::hint::black_box;
use damper_core::accounting::renyi::RenyiCurve;
use damper_core::accounting::{Rate, SampledGaussian};

/// ε of 1,000 steps at δ = 10⁻⁵, computed with mpmath at the best of the orders (4.25). Each step draws 60 of 6,000
/// samples, with a noise multiplier of ¾.
const EPSILON: f64 = 4.435_403_441_895_149;

/// Returns true if the step ran, and ε on the device is an upper bound within a millionth.
#[must_use]
pub fn run() -> bool {
    let epsilon = || {
        let event = SampledGaussian::new(Rate::of(black_box(60), black_box(6000)).ok()?, black_box(0.75)).ok()?;
        let mut curve = RenyiCurve::EMPTY;
        curve.add(&event, black_box(1000));
        Some(curve.epsilon(black_box(1e-5)).ok()?.epsilon)
    };
    crate::step::run().is_some()
        && epsilon().is_some_and(|epsilon| (EPSILON..=EPSILON * (1.0 + 1e-6)).contains(&epsilon))
}
