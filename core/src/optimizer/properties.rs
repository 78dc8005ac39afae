//! Properties of every optimizer, for their tests.

use super::base::{Begin, Optimizer};
use crate::private::Released;
use proptest::prelude::*;
use std::vec::Vec;

/// Number of parameters in the test steps.
pub(super) const DIM: usize = 5;

/// Input of one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) begin: Begin,
    filtered: [f32; DIM],
    pub(super) released: [f32; DIM],
}

/// Generates any finite number: usual, huge, tiny, subnormal, zero.
fn number() -> impl Strategy<Value = f32> {
    use prop::num::f32::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    prop_oneof![
        4 => -2f32..2.0,
        1 => -1e18f32..1e18,
        1 => POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO,
        1 => prop::sample::select(std::vec![f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, 0.0, -0.0]),
    ]
}

/// Generates runs of a few steps with any finite numbers.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lr = prop_oneof![3 => 1e-6f64..1.0, 1 => 1f64..1e30];
    let noise_std = prop_oneof![Just(0.0), 1e-6f64..10.0, 1f64..1e38];
    let step = (lr, noise_std, prop::array::uniform5(number()), prop::array::uniform5(number()))
        .prop_map(|(lr, noise_std, filtered, released)| Step { begin: Begin { lr, noise_std }, filtered, released });
    prop::collection::vec(step, 1..12)
}

/// Returns the values of a state's vectors.
pub(super) fn widen(vectors: &[&[f32]]) -> Vec<f64> {
    vectors.concat().into_iter().map(f64::from).collect()
}

/// Runs one step of all parameters in one segment.
pub(super) fn step<S, O: Optimizer<S>>(
    optimizer: &O,
    state: &mut S,
    begin: Begin,
    params: &mut [f32],
    filtered: &[f32],
    released: &[f32],
) {
    step_in_pieces(optimizer, state, begin, params, filtered, released, params.len());
}

fn step_in_pieces<S, O: Optimizer<S>>(
    optimizer: &O,
    state: &mut S,
    begin: Begin,
    params: &mut [f32],
    filtered: &[f32],
    released: &[f32],
    cut: usize,
) {
    let pieces = [0..cut, cut..params.len()];
    if optimizer.needs_full_gradient() {
        for piece in pieces.clone() {
            optimizer.observe(state, piece.start, &Released::new(&released[piece], begin.noise_std));
        }
    }
    let shared = optimizer.begin(state, begin);
    for piece in pieces {
        let released = Released::new(&released[piece.clone()], begin.noise_std);
        let at = piece.start;
        optimizer.update(
            shared,
            state,
            at,
            &mut params[piece.clone()],
            &Released::new(&filtered[piece], begin.noise_std),
            &released,
        );
    }
    optimizer.end(shared, state, params);
}

/// Fails if a finite input makes a parameter or a value of the state (`numbers`) non-finite, or a split into segments
/// changes a bit.
pub(super) fn state_is_finite_and_segment_invariant<S, O: Optimizer<S>>(
    make: impl Fn() -> (O, S),
    numbers: impl Fn(&S) -> Vec<f64>,
    steps: &[Step],
    cut: usize,
) -> Result<(), TestCaseError> {
    let ((optimizer, mut whole), (_, mut pieces)) = (make(), make());
    prop_assert!(optimizer.check(&whole, DIM).is_ok());
    let (mut params, mut in_pieces) = ([0.5f32; DIM], [0.5f32; DIM]);
    for Step { begin, filtered, released } in steps {
        step(&optimizer, &mut whole, *begin, &mut params, filtered, released);
        step_in_pieces(&optimizer, &mut pieces, *begin, &mut in_pieces, filtered, released, cut);
        prop_assert!(params.iter().all(|param| param.is_finite()), "{params:?}");
        prop_assert!(numbers(&whole).iter().all(|x| x.is_finite()), "{:?}", numbers(&whole));
        prop_assert_eq!(params.map(f32::to_bits), in_pieces.map(f32::to_bits));
        prop_assert_eq!(numbers(&whole), numbers(&pieces));
    }
    Ok(())
}
