//! The slots of a run, as the core's run-time slots.
//!
//! Each `lend` reads a slot, holds its method and memory on its own stack, and calls the rest of the run with them. So each method is
//! named once.

pub(super) mod filter;
pub(super) mod optimizer;
pub(super) mod threshold;

use super::error::PackError;
use super::grammar::MOST_LAYERS;
use super::memory::Vector;
use super::pack::Reader;
use damper_core::clip::{Automatic, Layer, Layers};
use damper_core::schedule::{Decay, Declared, LearningRate, NoiseSchedule};
use damper_core::slots::AnyClip;

/// A pack and the memory to play it in.
pub(super) struct Input<'p, 'r, 'a> {
    pub(super) pack: &'p mut Reader<'r>,
    pub(super) floats: Floats<'a>,
    /// Parameters of the run.
    pub(super) dim: usize,
}

impl<'a> Input<'_, '_, 'a> {
    /// A vector of zeros, of as many elements as there are parameters.
    fn zeros(&mut self) -> Result<&'a mut [f32], PackError> {
        self.floats.take(self.dim)
    }
}

/// Memory that is handed out in pieces of zeros.
pub(super) struct Floats<'a>(pub(super) &'a mut [f32]);

impl<'a> Floats<'a> {
    #[inline(never)]
    pub(super) fn take(&mut self, len: usize) -> Result<&'a mut [f32], PackError> {
        let free = core::mem::take(&mut self.0);
        let got = free.len();
        let (taken, rest) =
            free.split_at_mut_checked(len).ok_or(PackError::Memory { of: Vector::Floats, needed: len, got })?;
        taken.fill(0.0);
        self.0 = rest;
        Ok(taken)
    }
}

/// A rule of clipping, and the layers that it clips each on its own.
pub(super) fn clip<'a>(pack: &mut Reader<'_>, memory: &'a mut [Layer; MOST_LAYERS]) -> Result<AnyClip<'a>, PackError> {
    let rule = match pack.u8() {
        0 => AnyClip::FLAT,
        1 => AnyClip::automatic(Automatic::new(pack.f32())?),
        _ => return Err(PackError::Field("kind of clipping")),
    };
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

pub(super) fn schedule(pack: &mut Reader<'_>) -> Result<Declared, PackError> {
    let (base, warmup) = (pack.f64(), pack.u32());
    let decay = match pack.u8() {
        0 => Decay::Constant,
        1 => Decay::Step { every: pack.u32(), factor: pack.f64() },
        2 => Decay::Cosine { steps: pack.u32(), floor: pack.f64() },
        3 => Decay::Polynomial { offset: pack.f64(), slope: pack.f64() },
        4 => Decay::RootLinear { steps: pack.u32(), floor: pack.f64() },
        _ => return Err(PackError::Field("kind of learning rate")),
    };
    let noise = match pack.u8() {
        0 => NoiseSchedule::Constant,
        1 => NoiseSchedule::Matched { exponent: pack.f64() },
        2 => NoiseSchedule::Polynomial { growth: pack.f64(), exponent: pack.f64() },
        _ => return Err(PackError::Field("kind of noise schedule")),
    };
    Ok(Declared { learning_rate: LearningRate::new(base, warmup, decay)?, noise })
}
