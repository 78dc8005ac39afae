//! Poisson sampling by the step itself.

use crate::accounting::Rate;

/// Settings of Poisson sampling: sampling rate and number of samples. `samples` is 0 if the step does not sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Draw {
    pub rate: Rate,
    pub samples: u32,
}
