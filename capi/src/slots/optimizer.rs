//! Optimizers.

use super::held::{KeptOptimizer, Norm, Vector};
use super::{choosing, described};
use crate::ffi::IdleMut;
use crate::memory::{Run, Slot, SlotStorage};
use crate::status::{FfiResult, Status, status};
use damper_core::described::Described;
use damper_core::error::ConfigError;
use damper_core::optimizer::{AdaGrad, AdaGradNorm, AdaGradNormState, Adam, AdamBc, Optimizer, RmsProp, Sgd, SgdState};
use damper_core::slots::{OptimizerSlot, StatefulSlot};

/// SGD without momentum.
pub(crate) fn plain() -> Result<StatefulSlot<Sgd, SgdState<Vector<f32>>, f32>, ConfigError> {
    Ok(StatefulSlot::optimizer(Sgd::new(0.0, false, 0.0)?, SgdState { momentum: &mut [] }))
}

/// Fills the slot with what `make` makes of the run.
unsafe fn choose(
    run: *mut Run,
    make: impl FnOnce(&mut IdleMut<'_>) -> FfiResult<&'static mut dyn KeptOptimizer>,
) -> Status {
    // SAFETY: the caller's contract.
    let answer = unsafe { choosing(run, Slot::Optimizer) }.and_then(|mut idle| {
        let optimizer = idle.attempt(make)?;
        let slot = OptimizerSlot::of(optimizer);
        idle.state()?.optimizer = optimizer;
        idle.fill(Slot::Optimizer, |choices| choices.optimizer = slot)
    });
    status(answer)
}

/// Fills the slot with the optimizer of these settings.
unsafe fn choose_described<O>(run: *mut Run, numbers: &[f64]) -> Status
where
    O: Described + Optimizer<O::State<Vector<f32>>> + 'static,
{
    let make = |idle: &mut IdleMut<'_>| {
        let (optimizer, state) = described::build::<O>(idle, numbers, [&[]; 2])?;
        Ok(idle.hold(SlotStorage::optimizer, StatefulSlot::optimizer(optimizer, state)) as &mut dyn KeptOptimizer)
    };
    // SAFETY: the caller's contract.
    unsafe { choose(run, make) }
}

/// SGD with `momentum` in [0, 1), Nesterov's form if `nesterov` is not 0, and weight decay. Takes 1 vector, none
/// without momentum.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_sgd(run: *mut Run, momentum: f32, nesterov: u32, weight_decay: f32) -> Status {
    // Not by its description: this is the optimizer of the smallest images, which then do without what reads numbers.
    let make = |idle: &mut IdleMut<'_>| {
        let optimizer = Sgd::new(momentum, nesterov != 0, weight_decay).map_err(|error| idle.head.refuse(error))?;
        let state = SgdState { momentum: idle.vectors(usize::from(momentum != 0.0))? };
        Ok(idle.hold(SlotStorage::optimizer, StatefulSlot::optimizer(optimizer, state)) as &mut dyn KeptOptimizer)
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}

/// Adam with `beta1`, `beta2` in [0, 1), `epsilon` above 0 and decoupled weight decay (AdamW). The second moment is of
/// the released gradient, or, if `filtered_second_moment` is not 0, of the filtered one (DiSK's Adam). Takes 2 vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adam(
    run: *mut Run,
    beta1: f64,
    beta2: f64,
    epsilon: f32,
    weight_decay: f64,
    filtered_second_moment: u32,
) -> Status {
    let numbers = [beta1, beta2, epsilon.into(), weight_decay, filtered_second_moment.into()];
    // SAFETY: the contract of the header.
    unsafe { choose_described::<Adam>(run, &numbers) }
}

/// DP-AdamBC: Adam whose second moment has the noise's share subtracted, kept above `floor` (a squared gradient, above
/// 0), and, if `floor_by_noise` is not 0, above what the noise spreads by. Takes 2 vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adam_bc(
    run: *mut Run,
    beta1: f64,
    beta2: f64,
    floor: f32,
    weight_decay: f64,
    floor_by_noise: u32,
) -> Status {
    let numbers = [beta1, beta2, floor.into(), floor_by_noise.into(), weight_decay];
    // SAFETY: the contract of the header.
    unsafe { choose_described::<AdamBc>(run, &numbers) }
}

/// AdaGrad with `epsilon` above 0 (PyTorch: 1e-10) and weight decay, added to the gradient. Takes 1 vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adagrad(run: *mut Run, epsilon: f32, weight_decay: f32) -> Status {
    // SAFETY: the contract of the header.
    unsafe { choose_described::<AdaGrad>(run, &[epsilon.into(), weight_decay.into()]) }
}

/// RMSprop with `alpha` in [0, 1) (PyTorch: 0.99), `epsilon` above 0 (PyTorch: 1e-8) and weight decay, added to the
/// gradient. Takes 1 vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_rmsprop(run: *mut Run, alpha: f64, epsilon: f32, weight_decay: f32) -> Status {
    // SAFETY: the contract of the header.
    unsafe { choose_described::<RmsProp>(run, &[alpha, epsilon.into(), weight_decay.into()]) }
}

/// AdaGrad-norm over SGD: the step is divided by the root of `initial` (b_0^2, not negative) and all squared norms of
/// released gradients, each at least `floor` (above 0), less the noise's known share if `subtract_noise` is not 0.
/// SGD's numbers and vectors as in `damper_choose_sgd`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adagrad_norm(
    run: *mut Run,
    initial: f64,
    floor: f64,
    subtract_noise: u32,
    momentum: f32,
    nesterov: u32,
    weight_decay: f32,
) -> Status {
    let make = |idle: &mut IdleMut<'_>| {
        let numbers = [momentum.into(), nesterov.into(), weight_decay.into()];
        let (sgd, state) = described::build::<Sgd>(idle, &numbers, [&[]; 2])?;
        let norm = AdaGradNorm::new(initial, floor, subtract_noise != 0, sgd);
        let norm = norm.map_err(|error| idle.head.refuse(error))?;
        let norm: Norm = StatefulSlot::optimizer(norm, AdaGradNormState::new(state));
        Ok(idle.hold(SlotStorage::optimizer, norm) as &mut dyn KeptOptimizer)
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}
