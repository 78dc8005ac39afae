//! Weight decay.

use crate::choice::slot::Rule;
use damper_core::optimizer::DECOUPLED;

/// How an optimizer treats weight decay.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Decay {
    None,
    /// Part of the gradient.
    Penalty,
    /// `λ`, apart from it.
    Decoupled(f64),
}

impl Rule {
    /// Its weight decay.
    pub(super) fn decay(&self) -> Decay {
        match self.settings().find(|(setting, _)| setting.name == DECOUPLED.name) {
            None | Some((_, 0.0)) => Decay::None,
            Some((setting, decay)) if *setting == DECOUPLED => Decay::Decoupled(decay),
            Some(_) => Decay::Penalty,
        }
    }
}
