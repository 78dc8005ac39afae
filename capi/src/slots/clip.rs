//! Clipping: flat, automatic, and either of them per layer.

use super::choosing;
pub use super::layer::EachLayer;
use crate::ffi::{self, IdleMut};
use crate::memory::{Run, Slot};
use crate::status::{FfiResult, Status, status};
use damper_core::clip::{Automatic, Layer, Layers};
use damper_core::slots::AnyClip;

/// Returns the share of each of `layers` layers with equal shares.
#[unsafe(no_mangle)]
pub extern "C" fn damper_equal_share(layers: usize) -> u32 {
    Layer::equal(0, layers).share
}

/// Chooses automatic clipping: every gradient is divided by its norm plus `gamma` (finite, at least 1e-18) and scaled
/// to the clip.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_automatic_clip(run: *mut Run, gamma: f32) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { choosing(run, Slot::Clip) }.and_then(|mut idle| {
        let rule = Automatic::new(gamma).map_err(|error| idle.head.refuse(error))?;
        idle.fill(Slot::Clip, |choices| choices.clip = AnyClip::automatic(rule))
    });
    status(answer)
}

/// Chooses per-layer clipping of `count` layers: to the layer's share of the clip, or automatically if `gamma` is not
/// 0. The layers are copied into the run's memory. Together they must have as many coordinates as the run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_choose_layers(
    run: *mut Run,
    layers: *const EachLayer,
    count: usize,
    gamma: f32,
) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { choosing(run, Slot::Clip) }.and_then(|mut idle| {
        // SAFETY: the contract of the header.
        let layers = unsafe { ffi::input(idle.head, layers, count) }?;
        idle.attempt(|idle| choose_layers(idle, layers, gamma))
    });
    status(answer)
}

fn choose_layers(idle: &mut IdleMut<'_>, layers: &[EachLayer], gamma: f32) -> FfiResult {
    let coordinates = layers.iter().fold(0usize, |sum, layer| sum.saturating_add(layer.len));
    if coordinates != idle.head.dim {
        return Err(Status::Length);
    }
    let layers = idle.layers(layers)?;
    let clip = Layers::new(layers).and_then(|layers| {
        let rule = if gamma == 0.0 { AnyClip::FLAT } else { AnyClip::automatic(Automatic::new(gamma)?) };
        Ok(rule.by_layer(layers))
    });
    let clip = clip.map_err(|error| idle.head.refuse(error))?;
    idle.fill(Slot::Clip, |choices| choices.clip = clip)
}
