//! Filters, optimizers and thresholds by their kinds, and AdaGrad-norm over any other optimizer.

use super::{Floats, Input};
use crate::error::PackError;
use crate::grammar::{MOST, MOST_LAYERS};
use crate::pack::Reader;
use damper_core::clip::{AnyRule, Layer, Layers};
use damper_core::filter::{self, Filter};
use damper_core::numerics::digest::Digested;
use damper_core::optimizer::{self, AdaGradNorm, AdaGradNormState, Optimizer};
use damper_core::record::RecordSource;
use damper_core::schedule::{Decay, Declared, LearningRate, NoiseSchedule};
use damper_core::slots::{AnyClip, AnyDigested, AnyFilter, AnyOptimizer, AnyThreshold, OptimizerSlot, StatefulSlot};
use damper_core::state::SaveState;
use damper_core::threshold::{self, Threshold};

/// A filter of a run.
pub(crate) trait PlayedFilter: AnyFilter + AnyDigested {}

impl<T: AnyFilter + AnyDigested> PlayedFilter for T {}

/// An optimizer of a run.
pub(crate) trait PlayedOptimizer: AnyOptimizer + AnyDigested {}

impl<T: AnyOptimizer + AnyDigested> PlayedOptimizer for T {}

/// Plays a run with its filter. The last argument is true if the filter has state.
type ThenFilter<'t, 'a, R> = dyn FnMut(Input<'_, '_, 'a>, &mut dyn PlayedFilter, bool) -> Result<R, PackError> + 't;
/// Plays a run with its optimizer.
type ThenOptimizer<'t, 'a, R> = dyn FnMut(Input<'_, '_, 'a>, &mut dyn PlayedOptimizer) -> Result<R, PackError> + 't;
/// Plays a run with its threshold. The last argument is true if the threshold has state.
type ThenThreshold<'t, 'a, R> = dyn FnMut(Input<'_, '_, 'a>, &mut dyn AnyThreshold, bool) -> Result<R, PackError> + 't;

/// Lends the next filter of the pack to `then`.
#[inline(never)]
pub(crate) fn filter<'a, R>(input: Input<'_, '_, 'a>, then: &mut ThenFilter<'_, 'a, R>) -> Result<R, PackError> {
    let kind = input.pack.u8();
    filter::read::<MOST, _>(kind, Played { kind, input, then })?.ok_or(PackError::Field("kind of filter"))
}

/// Lends the next threshold of the pack to `then`.
#[inline(never)]
pub(crate) fn threshold<'a, R>(input: Input<'_, '_, 'a>, then: &mut ThenThreshold<'_, 'a, R>) -> Result<R, PackError> {
    let kind = input.pack.u8();
    threshold::read(kind, Played { kind, input, then })?.ok_or(PackError::Field("kind of threshold"))
}

/// Lends the next optimizer of the pack to `then`.
#[inline(never)]
pub(crate) fn optimizer<'a, R>(input: Input<'_, '_, 'a>, then: &mut ThenOptimizer<'_, 'a, R>) -> Result<R, PackError> {
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

/// Lends an optimizer without an inner optimizer.
#[inline(never)]
fn plain<'a, R>(kind: u8, input: Input<'_, '_, 'a>, then: &mut ThenOptimizer<'_, 'a, R>) -> Result<R, PackError> {
    optimizer::read(kind, Played { kind, input, then })?.ok_or(PackError::Field("kind of optimizer"))
}

/// Reads a clip rule, and the layers that it clips separately.
pub(crate) fn clip<'a>(pack: &mut Reader<'_>, memory: &'a mut [Layer; MOST_LAYERS]) -> Result<AnyClip<'a>, PackError> {
    let rule = AnyRule::read(&mut numbers(pack))?;
    let rule = AnyClip::of(rule);
    let count = usize::from(pack.u8());
    if count == 0 {
        return Ok(rule);
    }
    let layers = memory.get_mut(..count).ok_or(PackError::Field("number of layers"))?;
    for layer in &mut *layers {
        *layer = Layer { len: pack.u32() as usize, share: pack.u32() };
    }
    Ok(rule.by_layer(Layers::new(layers)?))
}

/// Reads the next schedule of the pack.
pub(crate) fn schedule(pack: &mut Reader<'_>) -> Result<Declared, PackError> {
    let (base, warmup) = (pack.f64(), pack.u32());
    let decay = Decay::read(&mut numbers(pack))?;
    let noise = NoiseSchedule::read(&mut numbers(pack))?;
    Ok(Declared { learning_rate: LearningRate::new(base, warmup, decay)?, noise })
}

/// A reader for methods without state.
fn numbers<'p, 'r>(pack: &'p mut Reader<'r>) -> Played<'p, 'r, 'static, ()> {
    Played { kind: 0, input: Input { pack, floats: Floats(&mut []), dim: 0 }, then: () }
}

/// Reads a method of this kind, and plays the run with it.
struct Played<'p, 'r, 'a, T> {
    kind: u8,
    input: Input<'p, 'r, 'a>,
    then: T,
}

impl<'a, T> RecordSource for Played<'_, '_, 'a, T> {
    type Vector = &'a mut [f32];
    type Error = PackError;

    fn u8(&mut self) -> u8 {
        self.input.pack.u8()
    }

    fn u32(&mut self) -> u32 {
        self.input.pack.u32()
    }

    fn f32(&mut self) -> f32 {
        self.input.pack.f32()
    }

    fn f64(&mut self) -> f64 {
        self.input.pack.f64()
    }

    fn f32s(&mut self, out: &mut [f32]) {
        self.input.pack.f32s(out);
    }

    fn wrong(what: &'static str) -> PackError {
        PackError::Field(what)
    }

    fn dim(&self) -> usize {
        self.input.dim
    }

    fn zeros(&mut self, len: usize) -> Result<&'a mut [f32], PackError> {
        self.input.floats.take(len)
    }
}

impl<'a, R> filter::Take<'a> for Played<'_, '_, 'a, &mut ThenFilter<'_, 'a, R>> {
    type Taken = R;

    fn take<M: Filter<S> + Digested<S> + 'a, S: SaveState + 'a>(self, method: M, state: S) -> Result<R, PackError> {
        (self.then)(self.input, &mut StatefulSlot::filter(method, state), self.kind != 0)
    }
}

impl<'a, R> optimizer::Take<'a> for Played<'_, '_, 'a, &mut ThenOptimizer<'_, 'a, R>> {
    type Taken = R;

    fn take<M: Optimizer<S> + Digested<S> + 'a, S: SaveState + 'a>(self, method: M, state: S) -> Result<R, PackError> {
        (self.then)(self.input, &mut StatefulSlot::optimizer(method, state))
    }
}

impl<'a, R> threshold::Take<'a> for Played<'_, '_, 'a, &mut ThenThreshold<'_, 'a, R>> {
    type Taken = R;

    fn take<M: Threshold<State = S> + 'a, S: SaveState + 'a>(self, method: M, state: S) -> Result<R, PackError> {
        (self.then)(self.input, &mut StatefulSlot::threshold(method, state), self.kind != 0)
    }
}
