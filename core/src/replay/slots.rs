//! Any method behind one type a slot, so that one player plays every combination: configuration and memory together, in what is
//! the slot's state.

mod clip;
mod filter;
mod optimizer;
mod threshold;

pub(super) use clip::AnyClip;
pub(super) use filter::{AnyFilter, HeldFilter};
pub(super) use optimizer::{AnyOptimizer, HeldOptimizer};
pub(super) use threshold::{AnyThreshold, HeldThreshold};

use super::error::PackError;
use super::memory::Vector;
use super::pack::Reader;
use crate::schedule::{Decay, Declared, LearningRate, NoiseSchedule};

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
