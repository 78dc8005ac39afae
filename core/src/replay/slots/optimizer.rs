//! Every optimizer; AdaGrad-norm over any other.

use super::Floats;
use crate::error::CallError;
use crate::numerics::digest::{Digest, Digested};
use crate::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamBcStep, AdamState, AdamStep,
    Begin, Optimizer, RmsProp, RmsPropState, Sgd, SgdState,
};
use crate::private::Released;
use crate::replay::error::PackError;
use crate::replay::pack::Reader;

/// An optimizer and its memory.
pub(in crate::replay) enum Inner<'a> {
    Sgd(Sgd, SgdState<&'a mut [f32]>),
    Adam(Adam, AdamState<&'a mut [f32]>),
    AdamBc(AdamBc, AdamBcState<&'a mut [f32]>),
    AdaGrad(AdaGrad, AdaGradState<&'a mut [f32]>),
    RmsProp(RmsProp, RmsPropState<&'a mut [f32]>),
}

/// An optimizer and its memory, and perhaps AdaGrad-norm over it.
#[allow(clippy::large_enum_variant)] // One at a time.
pub(in crate::replay) enum AnyOptimizer<'a> {
    Alone(Inner<'a>),
    Norm(AdaGradNorm<HeldInner>, AdaGradNormState<Inner<'a>>),
}

/// An optimizer that is kept with its memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::replay) struct HeldInner;

/// The same of all of them; what is asked for without the memory.
#[derive(Clone, Copy)]
pub(in crate::replay) struct HeldOptimizer {
    needs_full_gradient: bool,
}

#[derive(Clone, Copy)]
pub(in crate::replay) enum Step {
    Rate(f32),
    Adam(AdamStep),
    AdamBc(AdamBcStep),
}

impl<'a> Inner<'a> {
    fn read(kind: u8, pack: &mut Reader<'_>, dim: usize, floats: &mut Floats<'a>) -> Result<Self, PackError> {
        Ok(match kind {
            0 | 1 => {
                let sgd = Sgd::new(pack.f32(), kind == 1, pack.f32())?;
                Self::Sgd(sgd, SgdState { momentum: floats.take(sgd.momentum_len(dim))? })
            }
            2 | 3 => {
                let adam = Adam::new(pack.f64(), pack.f64(), pack.f32(), pack.f64())?;
                let adam = if kind == 3 { adam.with_filtered_second_moment() } else { adam };
                Self::Adam(adam, AdamState::new(floats.take(dim)?, floats.take(dim)?))
            }
            4 | 5 => {
                let adam = AdamBc::new(pack.f64(), pack.f64(), pack.f32(), pack.f64())?;
                let adam = if kind == 5 { adam.with_floor_by_noise() } else { adam };
                Self::AdamBc(adam, AdamBcState::new(floats.take(dim)?, floats.take(dim)?))
            }
            6 => {
                let adagrad = AdaGrad::new(pack.f32(), pack.f32())?;
                Self::AdaGrad(adagrad, AdaGradState { sum: floats.take(dim)? })
            }
            7 => {
                let rmsprop = RmsProp::new(pack.f64(), pack.f32(), pack.f32())?;
                Self::RmsProp(rmsprop, RmsPropState { second: floats.take(dim)? })
            }
            _ => return Err(PackError::Field("kind of optimizer")),
        })
    }
}

impl Digested<Inner<'_>> for HeldInner {
    fn add_to(&self, state: &Inner<'_>, digest: &mut Digest) {
        match state {
            Inner::Sgd(config, state) => config.add_to(state, digest),
            Inner::Adam(config, state) => config.add_to(state, digest),
            Inner::AdamBc(config, state) => config.add_to(state, digest),
            Inner::AdaGrad(config, state) => config.add_to(state, digest),
            Inner::RmsProp(config, state) => config.add_to(state, digest),
        }
    }
}

impl<'a> AnyOptimizer<'a> {
    pub(in crate::replay) fn read(
        pack: &mut Reader<'_>,
        dim: usize,
        floats: &mut Floats<'a>,
    ) -> Result<(HeldOptimizer, Self), PackError> {
        let optimizer = match pack.u8() {
            kind @ (8 | 9) => {
                let norm = AdaGradNorm::new(pack.f64(), pack.f64(), kind == 9, HeldInner)?;
                let inner = pack.u8();
                Self::Norm(norm, AdaGradNormState::new(Inner::read(inner, pack, dim, floats)?))
            }
            kind => Self::Alone(Inner::read(kind, pack, dim, floats)?),
        };
        let needs_full_gradient = match &optimizer {
            Self::Alone(_) => HeldInner.needs_full_gradient(),
            Self::Norm(norm, _) => norm.needs_full_gradient(),
        };
        Ok((HeldOptimizer { needs_full_gradient }, optimizer))
    }

    /// The digest of the memory; none without memory.
    pub(in crate::replay) fn digest(&self) -> Option<Digest> {
        let mut digest = Digest::default();
        match self {
            Self::Alone(Inner::Sgd(_, SgdState { momentum: [] })) => return None,
            Self::Alone(inner) => HeldInner.add_to(inner, &mut digest),
            Self::Norm(norm, state) => norm.add_to(state, &mut digest),
        }
        Some(digest)
    }
}

impl Optimizer<Inner<'_>> for HeldInner {
    type Step = Step;

    fn check(&self, state: &Inner<'_>, dim: usize) -> Result<(), CallError> {
        match state {
            Inner::Sgd(config, state) => config.check(state, dim),
            Inner::Adam(config, state) => config.check(state, dim),
            Inner::AdamBc(config, state) => config.check(state, dim),
            Inner::AdaGrad(config, state) => config.check(state, dim),
            Inner::RmsProp(config, state) => config.check(state, dim),
        }
    }

    fn begin(&self, state: &mut Inner<'_>, begin: Begin) -> Step {
        match state {
            Inner::Sgd(config, state) => Step::Rate(config.begin(state, begin)),
            Inner::Adam(config, state) => Step::Adam(config.begin(state, begin)),
            Inner::AdamBc(config, state) => Step::AdamBc(config.begin(state, begin)),
            Inner::AdaGrad(config, state) => Step::Rate(config.begin(state, begin)),
            Inner::RmsProp(config, state) => Step::Rate(config.begin(state, begin)),
        }
    }

    fn update(
        &self,
        step: Step,
        state: &mut Inner<'_>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        match (state, step) {
            (Inner::Sgd(config, state), Step::Rate(lr)) => config.update(lr, state, at, params, filtered, released),
            (Inner::Adam(config, state), Step::Adam(step)) => {
                config.update(step, state, at, params, filtered, released)
            }
            (Inner::AdamBc(config, state), Step::AdamBc(step)) => {
                config.update(step, state, at, params, filtered, released);
            }
            (Inner::AdaGrad(config, state), Step::Rate(lr)) => config.update(lr, state, at, params, filtered, released),
            (Inner::RmsProp(config, state), Step::Rate(lr)) => config.update(lr, state, at, params, filtered, released),
            _ => {}
        }
    }
}

impl Optimizer<AnyOptimizer<'_>> for HeldOptimizer {
    type Step = Step;

    fn check(&self, state: &AnyOptimizer<'_>, dim: usize) -> Result<(), CallError> {
        match state {
            AnyOptimizer::Alone(inner) => HeldInner.check(inner, dim),
            AnyOptimizer::Norm(norm, state) => norm.check(state, dim),
        }
    }

    fn needs_full_gradient(&self) -> bool {
        self.needs_full_gradient
    }

    fn observe(&self, state: &mut AnyOptimizer<'_>, at: usize, released: &Released<'_>) {
        match state {
            AnyOptimizer::Alone(inner) => HeldInner.observe(inner, at, released),
            AnyOptimizer::Norm(norm, state) => norm.observe(state, at, released),
        }
    }

    fn begin(&self, state: &mut AnyOptimizer<'_>, begin: Begin) -> Step {
        match state {
            AnyOptimizer::Alone(inner) => HeldInner.begin(inner, begin),
            AnyOptimizer::Norm(norm, state) => norm.begin(state, begin),
        }
    }

    fn update(
        &self,
        step: Step,
        state: &mut AnyOptimizer<'_>,
        at: usize,
        params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        match state {
            AnyOptimizer::Alone(inner) => HeldInner.update(step, inner, at, params, filtered, released),
            AnyOptimizer::Norm(norm, state) => norm.update(step, state, at, params, filtered, released),
        }
    }

    fn end(&self, step: Step, state: &mut AnyOptimizer<'_>, params: &mut [f32]) {
        match state {
            AnyOptimizer::Alone(inner) => HeldInner.end(step, inner, params),
            AnyOptimizer::Norm(norm, state) => norm.end(step, state, params),
        }
    }
}
