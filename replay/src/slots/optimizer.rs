//! Every optimizer; AdaGrad-norm over any other.

use super::{Input, Recorded};
use crate::error::PackError;
use damper_core::numerics::digest::{Digest, Digested};
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, RmsProp, RmsPropState,
    Sgd, SgdState,
};
use damper_core::slots::{AnyOptimizer, OptimizerSlot, StatefulSlot};

/// An optimizer of a run.
pub(crate) trait PlayedOptimizer: AnyOptimizer + Recorded {}

impl<T: AnyOptimizer + Recorded> PlayedOptimizer for T {}

impl<'a> Digested<&'a mut (dyn PlayedOptimizer + 'a)> for OptimizerSlot {
    fn add_to(&self, state: &&'a mut (dyn PlayedOptimizer + 'a), digest: &mut Digest) {
        state.add_to(digest);
    }
}

/// What plays a run with its optimizer. The last argument is true if that has memory.
type Then<'t, 'a, R> = dyn FnMut(Input<'_, '_, 'a>, &mut dyn PlayedOptimizer, bool) -> Result<R, PackError> + 't;

/// Lends the optimizer that the pack has next to `then`.
#[inline(never)]
pub(crate) fn lend<'a, R>(input: Input<'_, '_, 'a>, then: &mut Then<'_, 'a, R>) -> Result<R, PackError> {
    match input.pack.u8() {
        kind @ (8 | 9) => {
            let (initial, floor, inner) = (input.pack.f64(), input.pack.f64(), input.pack.u8());
            plain(inner, input, &mut |input, inner, _| {
                let norm = AdaGradNorm::new(initial, floor, kind == 9, OptimizerSlot::of(inner))?;
                then(input, &mut StatefulSlot::optimizer(norm, AdaGradNormState::new(inner)), true)
            })
        }
        kind => plain(kind, input, then),
    }
}

/// Lends an optimizer that is over no other.
#[inline(never)]
fn plain<'a, R>(kind: u8, mut input: Input<'_, '_, 'a>, then: &mut Then<'_, 'a, R>) -> Result<R, PackError> {
    let pack = &mut *input.pack;
    match kind {
        0 | 1 => {
            let sgd = Sgd::new(pack.f32(), kind == 1, pack.f32())?;
            let momentum = input.floats.take(sgd.momentum_len(input.dim))?;
            let has_memory = !momentum.is_empty();
            then(input, &mut StatefulSlot::optimizer(sgd, SgdState { momentum }), has_memory)
        }
        2 | 3 => {
            let adam = Adam::new(pack.f64(), pack.f64(), pack.f32(), pack.f64())?;
            let adam = if kind == 3 { adam.with_filtered_second_moment() } else { adam };
            let state = AdamState::new(input.zeros()?, input.zeros()?);
            then(input, &mut StatefulSlot::optimizer(adam, state), true)
        }
        4 | 5 => {
            let adam = AdamBc::new(pack.f64(), pack.f64(), pack.f32(), pack.f64())?;
            let adam = if kind == 5 { adam.with_floor_by_noise() } else { adam };
            let state = AdamBcState::new(input.zeros()?, input.zeros()?);
            then(input, &mut StatefulSlot::optimizer(adam, state), true)
        }
        6 => {
            let adagrad = AdaGrad::new(pack.f32(), pack.f32())?;
            let state = AdaGradState { sum: input.zeros()? };
            then(input, &mut StatefulSlot::optimizer(adagrad, state), true)
        }
        7 => {
            let rmsprop = RmsProp::new(pack.f64(), pack.f32(), pack.f32())?;
            let state = RmsPropState { second: input.zeros()? };
            then(input, &mut StatefulSlot::optimizer(rmsprop, state), true)
        }
        _ => Err(PackError::Field("kind of optimizer")),
    }
}
