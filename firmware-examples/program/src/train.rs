//! Private training on the device: the digits in flash, the gradients computed here, by the model and the method that the build
//! chose.
//!
//! # Memory
//!
//! Three vectors of `D` words, parameters, gradient and sum, and what the method takes: DP-SGD one more, for the momentum. 10.4 KB
//! with the softmax regression. With `model-streamed` there is no gradient, but a row of one.

pub mod method;
mod run;

pub use run::{BUDGET, DeviceRun, EXPECTED_BATCH};

use crate::line::ReportLine;
use crate::model::{self, DeviceModel};

/// Trains the chosen model by the chosen method until the budget is spent; whether it went as it should. Every line goes to `say`.
pub fn run(mut say: impl FnMut(ReportLine<'_>)) -> bool {
    by(&model::CHOSEN, method::chosen(), &mut say)
}

/// The same with this model and method.
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
