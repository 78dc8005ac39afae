//! No schedule: one learning rate, one noise.
//!
//! # Memory
//!
//! None, and none of the functions that other schedules link: on a device without an FPU for f64 they are kilobytes.

use super::Schedule;
use crate::noise::sealed::Sealed;

/// The same learning rate at every step, and the mechanism's own noise.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Constant(pub f64);

impl Sealed for Constant {}

impl Schedule for Constant {
    fn learning_rate(&self, _step: u32) -> f64 {
        self.0
    }
}
