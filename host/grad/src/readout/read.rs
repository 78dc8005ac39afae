//! Readouts, and the form in which each gradient is computed.

use crate::factor::{Costs, Grad};
use damper_onnx::graph::DType;

/// Outputs of a reverse sweep.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum Readout {
    /// `dp.grad.NAME` `[N, *shape]` for each trained parameter.
    #[default]
    PerSample,
    /// `dp.norm` `[N]`: norm of each sample's gradient, over all trained parameters together.
    Norms,
    /// `dp.norm` `[N]`, and `dp.sum.NAME` `[*shape]` for each trained parameter. The sum is over gradients clipped to
    /// the norm `dp.clip` (float scalar, above 0 and finite). It includes the rows with `dp.weight` (`[N]`, each 0 or
    /// 1) equal to 1 and a finite norm.
    ClippedSum,
    /// Like [`PerSample`](Self::PerSample), for a reader that multiplies. A gradient that is one outer product is
    /// returned as `dp.left.NAME` `[N, r]` and `dp.right.NAME` `[N, c]`. Their product `[N, r · c]` is the gradient in
    /// row-major order. For the gradient of a convolution kernel, see
    /// [`GradGraph::windows`](crate::GradGraph::windows). With `positions`, a sum of outer products over `T` positions
    /// of a sample (tokens) is returned as `[N, T, r]` and `[N, T, c]`. The gradient of a table's rows is returned as
    /// row indices `[N, T]` (as floats) and the vectors `[N, T, c]`. The reader adds the vectors to these rows in order
    /// of position.
    Factored {
        /// True if the reader sums over positions.
        positions: bool,
        /// True if the reader computes the gradients of grouped convolution kernels.
        groups: bool,
    },
}

impl std::str::FromStr for Readout {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|readout| readout.name() == name);
        named.ok_or_else(|| "use per-sample, norms or clipped-sum".into())
    }
}

impl Readout {
    /// All readouts with distinct names.
    pub const ALL: [Self; 3] = [Self::PerSample, Self::Norms, Self::ClippedSum];

    /// Name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PerSample | Self::Factored { .. } => "per-sample",
            Self::Norms => "norms",
            Self::ClippedSum => "clipped-sum",
        }
    }
}

/// Form in which a readout gets the gradient of one trained parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GradStrategy {
    /// `[N, *shape]`, directly from the sweep: for biases, scales, and parameters that are used elementwise.
    Dense,
    /// `[N, *shape]`, materialised from its factors: the cheaper strategy, or required by the readout.
    Materialised(Costs),
    /// Factors only: norms by Gram matrices over the positions.
    Gram(Costs),
}

impl GradStrategy {
    /// Name of the form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Materialised(_) => "materialised",
            Self::Gram(_) => "gram",
        }
    }
}

/// Gradient of one trained parameter.
#[derive(Clone, Debug)]
pub struct ParamGrad {
    pub grad: Grad,
    /// Element type of the parameter.
    pub dtype: DType,
    /// Shape of the parameter.
    pub shape: Vec<usize>,
}
