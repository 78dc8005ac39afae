//! What an emitted graph says of the gradients: a stage of its own over their factored form.

mod clipped_sum;
mod norms;
mod per_sample;

pub use clipped_sum::{Bounds, clipped_sum};
pub use norms::norms;
pub use per_sample::per_sample;

use super::factor::Grad;
use crate::graph::DType;

/// What to read out of one sweep.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Readout {
    /// `dp.grad.NAME` `[N, *shape]` for each trained parameter.
    #[default]
    PerSample,
    /// `dp.norm` `[N]`: the norm of each sample's gradient, over all trained parameters together.
    Norms,
    /// `dp.norm` `[N]`, and `dp.sum.NAME` `[*shape]` for each trained parameter: the sum of the gradients, each clipped to the
    /// norm `dp.clip` (float scalar, above 0 and finite), over the rows whose `dp.weight` (`[N]`) is 1 rather than 0 and whose
    /// norm is finite.
    ClippedSum,
}

impl std::str::FromStr for Readout {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "per-sample" => Ok(Self::PerSample),
            "norms" => Ok(Self::Norms),
            "clipped-sum" => Ok(Self::ClippedSum),
            _ => Err("use per-sample, norms or clipped-sum".into()),
        }
    }
}

/// The gradient of one trained parameter; none where the loss does not depend on it.
#[derive(Clone, Debug)]
pub struct Read {
    pub grad: Option<Grad>,
    /// The parameter's.
    pub dtype: DType,
    /// The parameter's.
    pub shape: Vec<usize>,
}
