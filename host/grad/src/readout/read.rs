//! The readouts, and the form in which each gradient is computed.

use crate::factor::{Costs, Grad};
use damper_onnx::graph::DType;

/// The outputs of a reverse sweep.
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
    /// As [`PerSample`](Self::PerSample), for a reader that multiplies: a gradient that is one outer product comes as
    /// `dp.left.NAME` `[N, r]` and `dp.right.NAME` `[N, c]`, whose product `[N, r · c]` is the gradient in row-major order, and that
    /// of a convolution's kernel as [`GradGraph::windows`](crate::GradGraph::windows) says. With `positions` a gradient that is a sum of outer
    /// products over `T` positions of a sample (tokens) comes as `[N, T, r]` and `[N, T, c]`, and that of a table's rows as the indices `[N, T]`,
    /// as floats, of the rows that `[N, T, c]` are added to, position after position.
    Factored {
        /// The reader computes sums over positions.
        positions: bool,
        /// The reader computes the kernels of grouped convolutions too.
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
    /// Each that has a name of its own.
    pub const ALL: [Self; 3] = [Self::PerSample, Self::Norms, Self::ClippedSum];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PerSample | Self::Factored { .. } => "per-sample",
            Self::Norms => "norms",
            Self::ClippedSum => "clipped-sum",
        }
    }
}

/// In which form a readout takes the gradient of one trained parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GradStrategy {
    /// `[N, *shape]`, as the sweep gives it: of biases, scales, and parameters that are used elementwise.
    Dense,
    /// `[N, *shape]`, formed of its factors: of the two ways the cheaper, or what the readout asks for.
    Materialised(Costs),
    /// Its factors alone: norms by Gram matrices over the positions.
    Gram(Costs),
}

impl GradStrategy {
    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Materialised(_) => "materialised",
            Self::Gram(_) => "gram",
        }
    }
}

/// The gradient of one trained parameter.
#[derive(Clone, Debug)]
pub struct ParamGrad {
    pub grad: Grad,
    /// The parameter's.
    pub dtype: DType,
    /// The parameter's.
    pub shape: Vec<usize>,
}
