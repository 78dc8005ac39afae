//! Optimizers.

use super::choosing;
use super::held::{KeptOptimizer, Norm, Vector};
use crate::ffi::IdleMut;
use crate::memory::{Run, Slot, SlotStorage};
use crate::status::{FfiResult, Status, status};
use damper_core::error::ConfigError;
use damper_core::optimizer::{
    AdaGrad, AdaGradNorm, AdaGradNormState, AdaGradState, Adam, AdamBc, AdamBcState, AdamState, Optimizer, RmsProp,
    RmsPropState, Sgd, SgdState,
};
use damper_core::slots::{OptimizerSlot, StatefulSlot};
use damper_core::state::SaveState;

/// Returns SGD without momentum.
pub(crate) fn plain() -> Result<StatefulSlot<Sgd, SgdState<Vector<f32>>, f32>, ConfigError> {
    Ok(StatefulSlot::optimizer(Sgd::new(0.0, false, 0.0)?, SgdState { momentum: &mut [] }))
}

/// Fills the slot with the optimizer that `make` creates.
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

/// Fills the slot with this optimizer and the state that `state` creates in the run's memory.
unsafe fn choose_with<O, S>(
    run: *mut Run,
    optimizer: Result<O, ConfigError>,
    state: impl FnOnce(&mut IdleMut<'_>) -> FfiResult<S>,
) -> Status
where
    O: Optimizer<S> + 'static,
    S: SaveState + 'static,
{
    let make = |idle: &mut IdleMut<'_>| {
        let optimizer = idle.accept(optimizer)?;
        let state = state(idle)?;
        Ok(idle.hold(SlotStorage::optimizer, StatefulSlot::optimizer(optimizer, state)) as &mut dyn KeptOptimizer)
    };
    // SAFETY: the caller's contract.
    unsafe { choose(run, make) }
}

/// Creates the state of SGD with this momentum.
fn sgd_state(idle: &mut IdleMut<'_>, momentum: f32) -> FfiResult<SgdState<Vector<f32>>> {
    Ok(SgdState { momentum: idle.vectors(usize::from(momentum != 0.0))? })
}

/// Chooses SGD with `momentum` in [0, 1) and weight decay, in Nesterov's form if `nesterov` is not 0. Takes 1 vector,
/// or none without momentum.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_sgd(run: *mut Run, momentum: f32, nesterov: u32, weight_decay: f32) -> Status {
    let sgd = Sgd::new(momentum, nesterov != 0, weight_decay);
    // SAFETY: the contract of the header.
    unsafe { choose_with(run, sgd, |idle| sgd_state(idle, momentum)) }
}

/// Chooses Adam with `beta1`, `beta2` in [0, 1), `epsilon` above 0 and decoupled weight decay (AdamW). The second
/// moment is that of the released gradient. If `filtered_second_moment` is not 0, it is that of the filtered gradient
/// (DiSK's Adam). Takes 2 vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adam(
    run: *mut Run,
    beta1: f64,
    beta2: f64,
    epsilon: f32,
    weight_decay: f64,
    filtered_second_moment: u32,
) -> Status {
    let adam = Adam::new(beta1, beta2, epsilon, weight_decay);
    let adam = if filtered_second_moment != 0 { adam.map(Adam::with_filtered_second_moment) } else { adam };
    // SAFETY: the contract of the header.
    unsafe { choose_with(run, adam, |idle| Ok(AdamState::new(idle.vectors(1)?, idle.vectors(1)?))) }
}

/// Chooses DP-AdamBC: Adam with the noise's share subtracted from its second moment. The second moment stays above
/// `floor` (a squared gradient, above 0). If `floor_by_noise` is not 0, it also stays above the spread of the noise.
/// Takes 2 vectors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adam_bc(
    run: *mut Run,
    beta1: f64,
    beta2: f64,
    floor: f32,
    weight_decay: f64,
    floor_by_noise: u32,
) -> Status {
    let adam = AdamBc::new(beta1, beta2, floor, weight_decay);
    let adam = if floor_by_noise != 0 { adam.map(AdamBc::with_floor_by_noise) } else { adam };
    // SAFETY: the contract of the header.
    unsafe { choose_with(run, adam, |idle| Ok(AdamBcState::new(idle.vectors(1)?, idle.vectors(1)?))) }
}

/// Chooses AdaGrad with `epsilon` above 0 (PyTorch: 1e-10) and weight decay, added to the gradient. Takes 1 vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_adagrad(run: *mut Run, epsilon: f32, weight_decay: f32) -> Status {
    let adagrad = AdaGrad::new(epsilon, weight_decay);
    // SAFETY: the contract of the header.
    unsafe { choose_with(run, adagrad, |idle| Ok(AdaGradState { sum: idle.vectors(1)? })) }
}

/// Chooses RMSprop with `alpha` in [0, 1) (PyTorch: 0.99), `epsilon` above 0 (PyTorch: 1e-8) and weight decay, added to
/// the gradient. Takes 1 vector.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_rmsprop(run: *mut Run, alpha: f64, epsilon: f32, weight_decay: f32) -> Status {
    let rmsprop = RmsProp::new(alpha, epsilon, weight_decay);
    // SAFETY: the contract of the header.
    unsafe { choose_with(run, rmsprop, |idle| Ok(RmsPropState { second: idle.vectors(1)? })) }
}

/// Chooses AdaGrad-norm over SGD. The step is divided by the root of `initial` (b_0^2, not negative) plus all squared
/// norms of released gradients. If `subtract_noise` is not 0, the noise's known share is first subtracted from each
/// squared norm. Each is at least `floor` (above 0). SGD's values and vectors as in `damper_choose_sgd`.
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
        let sgd = idle.accept(Sgd::new(momentum, nesterov != 0, weight_decay))?;
        let state = sgd_state(idle, momentum)?;
        let norm = idle.accept(AdaGradNorm::new(initial, floor, subtract_noise != 0, sgd))?;
        let norm: Norm = StatefulSlot::optimizer(norm, AdaGradNormState::new(state));
        Ok(idle.hold(SlotStorage::optimizer, norm) as &mut dyn KeptOptimizer)
    };
    // SAFETY: the contract of the header.
    unsafe { choose(run, make) }
}
