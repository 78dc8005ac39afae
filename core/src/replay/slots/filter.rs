//! Every filter.

use super::Floats;
use crate::error::CallError;
use crate::filter::{
    Filter, Gain, Identity, Iir, IirState, IirStep, Kalman, KalmanState, KalmanStep, LookAhead, PerSampleMomentum,
    PerSampleMomentumState,
};
use crate::numerics::digest::{Digest, Digested};
use crate::private::Released;
use crate::replay::error::PackError;
use crate::replay::grammar::{HIGHEST_ORDER, MOST_ITERATES};
use crate::replay::pack::Reader;

type Momentum = PerSampleMomentum<Iir<HIGHEST_ORDER>, MOST_ITERATES>;
type MomentumState<'a> = PerSampleMomentumState<&'a mut [f32], IirState<&'a mut [f32]>>;

/// A filter and its memory.
#[allow(clippy::large_enum_variant)] // One at a time.
pub(in crate::replay) enum AnyFilter<'a> {
    Identity,
    Iir(Iir, IirState<&'a mut [f32]>),
    Momentum(Momentum, MomentumState<'a>),
    Kalman(Kalman, KalmanState<&'a mut [f32]>),
}

/// A filter that is kept with its memory.
#[derive(Clone, Copy)]
pub(in crate::replay) struct HeldFilter;

#[derive(Clone, Copy)]
pub(in crate::replay) enum Step {
    None,
    Iir(IirStep),
    Kalman(KalmanStep),
}

fn iir<'a>(
    pack: &mut Reader<'_>,
    dim: usize,
    floats: &mut Floats<'a>,
) -> Result<(Iir, IirState<&'a mut [f32]>), PackError> {
    let (mut a, mut b) = ([0.0; HIGHEST_ORDER], [0.0; HIGHEST_ORDER + 1]);
    let (na, nb) = (usize::from(pack.u8()), usize::from(pack.u8()));
    let (Some(a), Some(b)) = (a.get_mut(..na), b.get_mut(..nb)) else {
        return Err(PackError::Field("order of a filter"));
    };
    pack.f32s(a);
    pack.f32s(b);
    let iir = Iir::new(a, b)?;
    let memory = floats.take(iir.order().saturating_mul(dim))?;
    Ok((iir, IirState::new(memory)))
}

impl<'a> AnyFilter<'a> {
    pub(in crate::replay) fn read(
        pack: &mut Reader<'_>,
        dim: usize,
        floats: &mut Floats<'a>,
    ) -> Result<Self, PackError> {
        Ok(match pack.u8() {
            0 => Self::Identity,
            1 => {
                let (iir, state) = iir(pack, dim, floats)?;
                Self::Iir(iir, state)
            }
            kind @ (2 | 3) => {
                let (iterates, beta) = (usize::from(pack.u8()), pack.f64());
                let (inner, state) = iir(pack, dim, floats)?;
                let build = if kind == 2 { Momentum::new } else { Momentum::unnormalised };
                let momentum = build(iterates, beta, inner)?;
                let past = floats.take(momentum.iterates_len(dim))?;
                Self::Momentum(momentum, PerSampleMomentumState::new(past, state))
            }
            4 => {
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
                let state = KalmanState::new(&kalman, floats.take(dim)?, floats.take(dim)?);
                Self::Kalman(kalman, state)
            }
            _ => return Err(PackError::Field("kind of filter")),
        })
    }

    /// The digest of the memory; none without memory.
    pub(in crate::replay) fn digest(&self) -> Option<Digest> {
        let mut digest = Digest::default();
        match self {
            Self::Identity => return None,
            Self::Iir(filter, state) => filter.add_to(state, &mut digest),
            Self::Momentum(filter, state) => filter.add_to(state, &mut digest),
            Self::Kalman(filter, state) => filter.add_to(state, &mut digest),
        }
        Some(digest)
    }
}

impl Filter<AnyFilter<'_>> for HeldFilter {
    type Step = Step;

    fn eval_points(&self, state: &AnyFilter<'_>) -> usize {
        match state {
            AnyFilter::Identity => Identity.eval_points(&()),
            AnyFilter::Iir(filter, state) => filter.eval_points(state),
            AnyFilter::Momentum(filter, state) => filter.eval_points(state),
            AnyFilter::Kalman(filter, state) => filter.eval_points(state),
        }
    }

    fn eval_point(
        &self,
        state: &AnyFilter<'_>,
        index: usize,
        params: &[f32],
        out: &mut [f32],
    ) -> Result<f32, CallError> {
        match state {
            AnyFilter::Identity => Identity.eval_point(&(), index, params, out),
            AnyFilter::Iir(filter, state) => filter.eval_point(state, index, params, out),
            AnyFilter::Momentum(filter, state) => filter.eval_point(state, index, params, out),
            AnyFilter::Kalman(filter, state) => filter.eval_point(state, index, params, out),
        }
    }

    fn weight(&self, state: &AnyFilter<'_>, index: usize) -> f32 {
        match state {
            AnyFilter::Identity => Identity.weight(&(), index),
            AnyFilter::Iir(filter, state) => filter.weight(state, index),
            AnyFilter::Momentum(filter, state) => filter.weight(state, index),
            AnyFilter::Kalman(filter, state) => filter.weight(state, index),
        }
    }

    fn check(&self, state: &AnyFilter<'_>, dim: usize) -> Result<(), CallError> {
        match state {
            AnyFilter::Identity => Identity.check(&(), dim),
            AnyFilter::Iir(filter, state) => filter.check(state, dim),
            AnyFilter::Momentum(filter, state) => filter.check(state, dim),
            AnyFilter::Kalman(filter, state) => filter.check(state, dim),
        }
    }

    fn begin(&self, state: &mut AnyFilter<'_>) -> Step {
        match state {
            AnyFilter::Identity => Step::None,
            AnyFilter::Iir(filter, state) => Step::Iir(filter.begin(state)),
            AnyFilter::Momentum(filter, state) => Step::Iir(filter.begin(state)),
            AnyFilter::Kalman(filter, state) => Step::Kalman(filter.begin(state)),
        }
    }

    fn apply(&self, step: Step, state: &mut AnyFilter<'_>, at: usize, released: &Released<'_>, filtered: &mut [f32]) {
        match (state, step) {
            (AnyFilter::Iir(filter, state), Step::Iir(step)) => filter.apply(step, state, at, released, filtered),
            (AnyFilter::Momentum(filter, state), Step::Iir(step)) => filter.apply(step, state, at, released, filtered),
            (AnyFilter::Kalman(filter, state), Step::Kalman(step)) => filter.apply(step, state, at, released, filtered),
            _ => Identity.apply((), &mut (), at, released, filtered),
        }
    }

    fn before_update(&self, step: Step, state: &mut AnyFilter<'_>, at: usize, params: &[f32]) {
        match (state, step) {
            (AnyFilter::Momentum(filter, state), Step::Iir(step)) => filter.before_update(step, state, at, params),
            (AnyFilter::Kalman(filter, state), Step::Kalman(step)) => filter.before_update(step, state, at, params),
            _ => {}
        }
    }

    fn after_update(&self, step: Step, state: &mut AnyFilter<'_>, at: usize, params: &[f32]) {
        match (state, step) {
            (AnyFilter::Momentum(filter, state), Step::Iir(step)) => filter.after_update(step, state, at, params),
            (AnyFilter::Kalman(filter, state), Step::Kalman(step)) => filter.after_update(step, state, at, params),
            _ => {}
        }
    }
}
