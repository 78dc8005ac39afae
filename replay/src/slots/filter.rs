//! Every filter.

use super::Input;
use crate::error::PackError;
use crate::grammar::{HIGHEST_ORDER, MOST_ITERATES};
use damper_core::filter::{
    Gain, Identity, Iir, IirState, Kalman, KalmanState, LookAhead, PerSampleMomentum, PerSampleMomentumState,
};
use damper_core::slots::{AnyDigested, AnyFilter, StatefulSlot};

/// A filter of a run.
pub(crate) trait PlayedFilter: AnyFilter + AnyDigested {}

impl<T: AnyFilter + AnyDigested> PlayedFilter for T {}

/// What plays a run with its filter. The last argument is true if that has memory.
type Then<'t, 'a, R> = dyn FnMut(Input<'_, '_, 'a>, &mut dyn PlayedFilter, bool) -> Result<R, PackError> + 't;

/// Lends the filter that the pack has next to `then`.
#[inline(never)]
pub(crate) fn lend<'a, R>(mut input: Input<'_, '_, 'a>, then: &mut Then<'_, 'a, R>) -> Result<R, PackError> {
    match input.pack.u8() {
        0 => then(input, &mut StatefulSlot::filter(Identity, ()), false),
        1 => {
            let (iir, state) = iir(&mut input)?;
            then(input, &mut StatefulSlot::filter(iir, state), true)
        }
        kind @ (2 | 3) => {
            let (iterates, beta) = (usize::from(input.pack.u8()), input.pack.f64());
            let (inner, state) = iir(&mut input)?;
            let build = if kind == 2 { PerSampleMomentum::new } else { PerSampleMomentum::unnormalised };
            let momentum: PerSampleMomentum<Iir, MOST_ITERATES> = build(iterates, beta, inner)?;
            let past = input.floats.take(momentum.iterates_len(input.dim))?;
            then(input, &mut StatefulSlot::filter(momentum, PerSampleMomentumState::new(past, state)), true)
        }
        4 => {
            let pack = &mut *input.pack;
            let gain = match pack.u8() {
                0 => Gain::Constant(pack.f64()),
                1 => Gain::Recursion { noise: pack.f64(), drift: pack.f64(), process: pack.f64() },
                _ => return Err(PackError::Field("kind of gain")),
            };
            let look_ahead = match pack.u8() {
                1 => LookAhead::One,
                2 => LookAhead::Two { gamma: pack.f64() },
                _ => return Err(PackError::Field("points of a filter")),
            };
            let kalman = Kalman::new(gain, look_ahead)?;
            let state = KalmanState::new(&kalman, input.zeros()?, input.zeros()?);
            then(input, &mut StatefulSlot::filter(kalman, state), true)
        }
        _ => Err(PackError::Field("kind of filter")),
    }
}

fn iir<'a>(input: &mut Input<'_, '_, 'a>) -> Result<(Iir, IirState<&'a mut [f32]>), PackError> {
    let (mut a, mut b) = ([0.0; HIGHEST_ORDER], [0.0; HIGHEST_ORDER + 1]);
    let (na, nb) = (usize::from(input.pack.u8()), usize::from(input.pack.u8()));
    let (Some(a), Some(b)) = (a.get_mut(..na), b.get_mut(..nb)) else {
        return Err(PackError::Field("order of a filter"));
    };
    input.pack.f32s(a);
    input.pack.f32s(b);
    let iir = Iir::new(a, b)?;
    let memory = input.floats.take(iir.order().saturating_mul(input.dim))?;
    Ok((iir, IirState::new(memory)))
}
