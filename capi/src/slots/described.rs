//! A described method from the numbers of a C function, with vectors of the run's memory.

use super::held::Vector;
use crate::ffi::IdleMut;
use crate::status::{FfiResult, Status};
use core::slice::Iter;
use damper_core::described::{Described, Description, Values};
use damper_core::error::ConfigError;

/// Why a method is refused.
pub(crate) enum Refused {
    Number(ConfigError),
    Status(Status),
}

impl From<ConfigError> for Refused {
    fn from(error: ConfigError) -> Self {
        Self::Number(error)
    }
}

/// The method `M` with the settings `numbers`, in the order of its description, and with the coefficients `taps` if it has any; and
/// its state.
#[allow(clippy::type_complexity)] // A method and its state.
pub(crate) fn build<M: Described>(
    idle: &mut IdleMut<'_>,
    numbers: &[f64],
    taps: [&[f32]; 2],
) -> FfiResult<(M, M::State<Vector<f32>>)> {
    M::build(&mut Given { idle, numbers: numbers.iter(), taps }).map_err(|refused| match refused {
        Refused::Number(error) => idle.head.refuse(error),
        Refused::Status(status) => status,
    })
}

struct Given<'g, 'i> {
    idle: &'g mut IdleMut<'i>,
    numbers: Iter<'g, f64>,
    taps: [&'g [f32]; 2],
}

impl Values for Given<'_, '_> {
    type Vector = Vector<f32>;
    type Error = Refused;

    fn wants(&mut self, _: &Description) -> bool {
        true
    }

    fn f64(&mut self) -> f64 {
        self.numbers.next().copied().unwrap_or(f64::NAN)
    }

    fn skip(&mut self, count: usize) {
        self.numbers.by_ref().take(count).for_each(drop);
    }

    fn taps(&mut self, a: &mut [f32], b: &mut [f32]) -> Result<(usize, usize), Refused> {
        for (out, of) in [a, b].into_iter().zip(self.taps) {
            let order =
                ConfigError { parameter: "a filter's order", must_be: "at most its capacity, the parameter ORDER" };
            let out = out.get_mut(..of.len()).ok_or(order)?;
            out.iter_mut().zip(of).for_each(|(out, of)| *out = *of);
        }
        let [a, b] = self.taps;
        Ok((a.len(), b.len()))
    }

    fn dim(&self) -> usize {
        self.idle.head.dim
    }

    fn zeros(&mut self, len: usize) -> Result<Vector<f32>, Refused> {
        self.idle.vectors(len.checked_div(self.idle.head.dim).unwrap_or_default()).map_err(Refused::Status)
    }
}
