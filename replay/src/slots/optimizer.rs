//! Every optimizer; AdaGrad-norm over any other.

use super::Input;
use crate::error::PackError;
use damper_core::described::{Description, Values};
use damper_core::numerics::digest::Digested;
use damper_core::optimizer::{AdaGradNorm, AdaGradNormState, Builder, Optimizer, build};
use damper_core::slots::{AnyDigested, AnyOptimizer, OptimizerSlot, StatefulSlot};
use damper_core::state::SaveState;

/// An optimizer of a run.
pub(crate) trait PlayedOptimizer: AnyOptimizer + AnyDigested {}

impl<T: AnyOptimizer + AnyDigested> PlayedOptimizer for T {}

/// What plays a run with its optimizer.
type Then<'t, 'a, R> = dyn FnMut(Input<'_, '_, 'a>, &mut dyn PlayedOptimizer) -> Result<R, PackError> + 't;

/// Lends the optimizer that the pack has next to `then`.
#[inline(never)]
pub(crate) fn lend<'a, R>(input: Input<'_, '_, 'a>, then: &mut Then<'_, 'a, R>) -> Result<R, PackError> {
    match input.pack.u8() {
        kind @ (8 | 9) => {
            let (initial, floor, inner) = (input.pack.f64(), input.pack.f64(), input.pack.u8());
            plain(inner, input, &mut |input, inner| {
                let norm = AdaGradNorm::new(initial, floor, kind == 9, OptimizerSlot::of(inner))?;
                then(input, &mut StatefulSlot::optimizer(norm, AdaGradNormState::new(inner)))
            })
        }
        kind => plain(kind, input, then),
    }
}

/// Lends an optimizer that is over no other.
#[inline(never)]
fn plain<'a, R>(kind: u8, input: Input<'_, '_, 'a>, then: &mut Then<'_, 'a, R>) -> Result<R, PackError> {
    build(Played { kind, switch: false, input, then })?.ok_or(PackError::Field("kind of optimizer"))
}

/// Reads an optimizer of this kind, and plays the run with it.
struct Played<'b, 'p, 'r, 't, 'a, R> {
    kind: u8,
    switch: bool,
    input: Input<'p, 'r, 'a>,
    then: &'b mut Then<'t, 'a, R>,
}

impl<R> Values for Played<'_, '_, '_, '_, '_, R> {
    fn f32(&mut self) -> f32 {
        self.input.pack.f32()
    }

    fn f64(&mut self) -> f64 {
        self.input.pack.f64()
    }

    fn switch(&mut self) -> bool {
        self.switch
    }
}

impl<'a, R> Builder<'a> for Played<'_, '_, '_, '_, 'a, R> {
    type Vector = &'a mut [f32];
    type Built = R;
    type Error = PackError;

    fn wants(&mut self, description: &Description) -> bool {
        let place = description.recorded.iter().position(|kind| *kind == self.kind);
        self.switch = place == Some(1);
        place.is_some()
    }

    fn dim(&self) -> usize {
        self.input.dim
    }

    fn zeros(&mut self, len: usize) -> Result<&'a mut [f32], PackError> {
        self.input.floats.take(len)
    }

    fn take<O, S>(self, optimizer: O, state: S) -> Result<R, PackError>
    where
        O: Optimizer<S> + Digested<S> + 'a,
        S: SaveState + 'a,
    {
        (self.then)(self.input, &mut StatefulSlot::optimizer(optimizer, state))
    }
}
