//! Private training on the device: the digits in flash, and gradients computed here, by the model and the method that
//! the build chose.
//!
//! # Memory
//!
//! Three vectors of `D` 32-bit words for parameters, gradient and sum, and the memory of the method. For DP-SGD that is
//! one more, for the momentum. With the softmax regression it is 10.4 KB. With `model-streamed` there is only a row of
//! the gradient.

pub mod method;
mod run;

pub use run::{BUDGET, DeviceRun, EXPECTED_BATCH};

use crate::line::ReportLine;
use crate::model::{self, DeviceModel};

/// Trains the chosen model by the chosen method until the budget is spent. Returns true on success. Every line is
/// passed to `say`.
pub fn run(mut say: impl FnMut(ReportLine<'_>)) -> bool {
    by(&model::CHOSEN, method::chosen(), &mut say)
}

/// Trains with this model and method.
pub fn by<const D: usize>(
    model: &DeviceModel<D>,
    (name, method): method::NamedMethod<D>,
    say: &mut dyn FnMut(ReportLine<'_>),
) -> bool {
    match method(DeviceRun { model, method: name, say: &mut *say }) {
        Ok(()) => true,
        Err(failure) => {
            say(failure.line());
            false
        }
    }
}
