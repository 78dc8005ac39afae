//! The Poisson draw that a step makes itself.

use crate::accounting::Rate;

/// A Poisson draw of the step's own: its rate, and the number of samples; 0 if there is none.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Draw {
    pub rate: Rate,
    pub samples: u32,
}
