//! Factored form of a per-sample gradient that is a linear map.
//!
//! The left factors are `L: [N, T, r]` and the right factors `R: [N, T, c]` (activations and output gradients, in the
//! parameter's order). The gradient of sample `n` is the matrix `Σ_t L[n,t] ⊗ R[n,t]: [r, c]`. With a group axis
//! (`[N, T, g, r]`, `[N, T, g, c]`) there is one such matrix per group, `[g, r, c]`. The row factor of an embedding
//! stays indices. Several uses of one parameter, and several evaluation points, are several terms. Their positions are
//! concatenated if that costs less. Transposes and reshapes of a parameter before its use as a matrix are a list of
//! views from the matrix back to the parameter.
//!
//! The factors yield every sample's gradient (here), its squared norm (`norm`), and a weighted sum over the samples
//! (`contract`).

mod contract;
mod norm;
mod side;
#[cfg(test)]
mod tests;

pub use contract::weighted_sum;
pub use norm::{Costs, norm_squared, rounding, sum_of_squares};
pub use side::FactorSide;

use super::custom::kernel_grad;
use super::emit::{BATCH_FIRST, Emitter, Var};
use super::window::SlidingWindow;
use damper_onnx::graph::DType;
use side::scatter_add;

/// Integers up to this bound are exact in `f32`.
const EXACT_IN_F32: usize = 1 << f32::MANTISSA_DIGITS;

/// View from the matrix to the parameter. Shapes and permutations exclude the sample axis.
#[derive(Clone, PartialEq, Debug)]
enum View {
    Reshape(Vec<usize>),
    Transpose(Vec<usize>),
}

/// `Σ_t left ⊗ right`.
#[derive(Clone, PartialEq, Debug)]
struct Term {
    left: FactorSide,
    right: FactorSide,
}

impl Term {
    fn kind(&self) -> (bool, bool) {
        (self.left.is_indices(), self.right.is_indices())
    }

    fn is_indexed(&self) -> bool {
        self.left.is_indices() || self.right.is_indices()
    }

    fn positions(&self) -> usize {
        self.left.positions()
    }

    /// Float type of the term.
    fn dtype(&self) -> DType {
        if self.left.is_indices() { self.right.var.dtype } else { self.left.var.dtype }
    }
}

/// Factors of the gradient of a convolution kernel.
#[derive(Clone, Debug)]
pub struct KernelFactors {
    /// Gradient of the products, `[N, O, *output]`.
    pub left: Var,
    /// Source of the patches, `[N, C, *input]`.
    pub input: Var,
    /// Windows over the input.
    pub window: SlidingWindow,
    /// Number of groups of the convolution.
    pub groups: usize,
}

/// Factored per-sample gradient: a sum of terms of one shape, under one list of views.
#[derive(Clone, PartialEq, Debug)]
pub struct FactoredGrad {
    terms: Vec<Term>,
    views: Vec<View>,
}

impl FactoredGrad {
    /// Gradient `Σ_t left ⊗ right`. At most one side may be indices.
    pub fn new(left: FactorSide, right: FactorSide) -> Self {
        debug_assert_eq!(left.positions(), right.positions(), "{left:?} {right:?}");
        debug_assert!(left.groups() == right.groups() && !(left.is_indices() && right.is_indices()));
        Self { terms: vec![Term { left, right }], views: Vec::new() }
    }

    /// Gradient of a convolution kernel `[O, C, *kernel]`. `left` is the gradient of the products, `[N, O, L]`. The
    /// patches under `window` are from `x: [N, C, *input]`.
    pub fn of_kernel(left: FactorSide, x: Var, window: SlidingWindow, by_conv: bool) -> Self {
        let (outputs, channels, taps) = (left.extent(), x.shape[1], window.taps());
        let shape = [&[outputs, channels], &window.kernel[..]].concat();
        let grad = Self::new(left, FactorSide::patches(x, window, by_conv));
        if by_conv {
            return grad.reshape(&shape);
        }
        grad.reshape(&[outputs, taps, channels]).transpose(&[0, 2, 1]).reshape(&shape)
    }

    /// Like [`of_kernel`](Self::of_kernel), for a grouped convolution. `left` is `[N, groups, O / groups, L]`.
    pub fn of_grouped_kernel(left: FactorSide, x: Var, window: SlidingWindow, groups: usize) -> Self {
        let shape = [&[groups * left.extent(), x.shape[1] / groups], &window.kernel[..]].concat();
        Self::new(left, FactorSide::grouped_patches(x, window, groups)).reshape(&shape)
    }

    /// Inputs of [`of_kernel`](Self::of_kernel) or [`of_grouped_kernel`](Self::of_grouped_kernel) for a convolution
    /// kernel's gradient. `None` except for floats in one or two dimensions, with dilation 1 along the line.
    pub fn kernel(&self, em: &mut Emitter) -> Option<KernelFactors> {
        let [Term { left, right }] = &self.terms[..] else { return None };
        let (x, window) = right.window()?;
        let groups = right.groups().unwrap_or(1);
        let as_given = match groups {
            1 => Self::of_kernel(left.clone(), x.clone(), window.clone(), right.has_positions_last()),
            _ => Self::of_grouped_kernel(left.clone(), x.clone(), window.clone(), groups),
        };
        let has_form = x.dtype == DType::F32 && window.kernel.len() <= 2 && window.dilation.last() == Some(&1);
        if self.views != as_given.views || !has_form {
            return None;
        }
        let left = left.with_positions_last(em);
        // As from the sweep, before the reshape.
        let outputs = left.shape[1..left.rank() - 1].iter().product();
        let by_window = [&[left.shape[0], outputs], &window.output[..]].concat();
        let left = em.reshape(&left, &by_window, left.batch);
        Some(KernelFactors { left, input: x.clone(), window: window.clone(), groups })
    }

    /// Returns true if the gradient is a stack of matrices, one for each group.
    pub fn has_groups(&self) -> bool {
        self.groups().is_some()
    }

    fn groups(&self) -> Option<usize> {
        self.terms[0].left.groups()
    }

    /// Rows and columns of the matrix.
    fn extents(&self) -> (usize, usize) {
        (self.terms[0].left.extent(), self.terms[0].right.extent())
    }

    /// Shape of the matrix, or of the stack of matrices.
    fn matrix_shape(&self) -> Vec<usize> {
        let mut shape: Vec<usize> = self.groups().into_iter().collect();
        let (rows, columns) = self.extents();
        shape.extend([rows, columns]);
        shape
    }

    /// Number of entries in one sample's gradient.
    pub fn len(&self) -> usize {
        self.matrix_shape().iter().product()
    }

    /// Shape of one sample's gradient.
    pub fn shape(&self) -> Vec<usize> {
        self.views.iter().fold(self.matrix_shape(), |shape, view| match view {
            View::Reshape(to) => to.clone(),
            View::Transpose(perm) => perm.iter().map(|&p| shape[p]).collect(),
        })
    }

    /// The same gradient, reshaped.
    pub fn reshape(mut self, shape: &[usize]) -> Self {
        if let Some(View::Reshape(_)) = self.views.last() {
            self.views.pop();
        }
        if self.shape() != shape {
            self.views.push(View::Reshape(shape.to_vec()));
        }
        self
    }

    /// The same gradient, transposed.
    pub fn transpose(mut self, perm: &[usize]) -> Self {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return self;
        }
        let rank = self.shape().len();
        let swaps_matrix = perm[..rank - 2].iter().enumerate().all(|(i, &p)| i == p);
        if self.views.is_empty() && swaps_matrix {
            for term in &mut self.terms {
                std::mem::swap(&mut term.left, &mut term.right);
            }
        } else {
            self.views.push(View::Transpose(perm.to_vec()));
        }
        self
    }

    /// `factor` times the gradient. `factor` is a known scalar, or a tensor of one element.
    pub fn scale(mut self, em: &mut Emitter, factor: &Var) -> Self {
        let factor = em.reshape(factor, &[], None);
        for term in &mut self.terms {
            let left =
                !term.left.is_indices() && (term.right.is_indices() || term.left.var.len() <= term.right.var.len());
            let side = if left { &mut term.left } else { &mut term.right };
            *side = side.map(|var| em.mul(var, &factor));
        }
        self
    }

    /// Sum of both gradients. `None` if their forms differ.
    pub fn join(&self, other: &Self) -> Option<Self> {
        if self.matrix_shape() != other.matrix_shape() || self.views != other.views {
            return None;
        }
        let terms = self.terms.iter().chain(&other.terms).cloned().collect();
        Some(Self { terms, views: self.views.clone() })
    }

    /// Terms, with the positions of terms of the same kind concatenated.
    fn joined(&self, em: &mut Emitter) -> Vec<Term> {
        let mut kinds: Vec<(bool, bool)> = Vec::new();
        for term in &self.terms {
            if !kinds.contains(&term.kind()) {
                kinds.push(term.kind());
            }
        }
        let join = |kind| {
            let of_kind: Vec<&Term> = self.terms.iter().filter(|term| term.kind() == kind).collect();
            let lefts: Vec<&FactorSide> = of_kind.iter().map(|term| &term.left).collect();
            let rights: Vec<&FactorSide> = of_kind.iter().map(|term| &term.right).collect();
            Term { left: FactorSide::concat(em, &lefts), right: FactorSide::concat(em, &rights) }
        };
        kinds.into_iter().map(join).collect()
    }

    /// Every sample's gradient: `[N, *shape]`.
    pub fn materialise(&self, em: &mut Emitter) -> Var {
        // Concatenation copies the factors. Addition reads two products and writes one.
        let (rows, columns) = self.extents();
        let positions: usize = self.terms.iter().map(Term::positions).sum();
        let adding = 3 * (self.terms.len() - 1) * rows * columns;
        let terms = if adding < 2 * positions * (rows + columns) { self.terms.clone() } else { self.joined(em) };
        let mut grad: Option<Var> = None;
        for term in terms.iter().filter(|term| !term.is_indexed()) {
            let product = product(em, term);
            grad = Some(match grad {
                Some(sum) => em.add(&sum, &product),
                None => product,
            });
        }
        for term in terms.iter().filter(|term| term.is_indexed()) {
            let onto = grad.unwrap_or_else(|| em.filled(term.dtype(), 0.0, &[rows, columns]));
            grad = Some(if term.left.is_indices() {
                let indices = term.left.spread_indices(em, columns, false);
                let updates = term.right.with_positions_first(em);
                scatter_add(em, &onto, &indices, &updates, 1)
            } else {
                let indices = term.right.spread_indices(em, rows, true);
                let updates = term.left.with_positions_last(em);
                scatter_add(em, &onto, &indices, &updates, 2)
            });
        }
        let mut grad = grad.expect("a gradient has a term");
        for view in &self.views {
            grad = match view {
                View::Reshape(shape) => em.reshape(&grad, &[&[1], &shape[..]].concat(), Some(BATCH_FIRST)),
                View::Transpose(perm) => em.transpose(&grad, &behind_samples(perm)),
            };
        }
        grad
    }

    /// Like [`materialise`](Self::materialise), but the gradient of a convolution kernel is a single operator.
    pub fn materialise_at_once(&self, em: &mut Emitter) -> Var {
        // The operator has no groups.
        let factors = if self.has_groups() { None } else { self.kernel(em) };
        let Some(KernelFactors { left, input, window, .. }) = factors else { return self.materialise(em) };
        let by_conv = self.terms[0].right.has_positions_last();
        kernel_grad(em, [&left, &input], &window, |em| {
            let rows = em.per_sample(&left, &[left.shape[1], window.positions()]);
            Self::of_kernel(FactorSide::positions_last(rows), input.clone(), window.clone(), by_conv).materialise(em)
        })
    }
}

impl FactoredGrad {
    /// Factors `[N, r]` and `[N, c]` of a gradient that is one outer product, in the parameter's order.
    pub fn outer(&self, em: &mut Emitter) -> Option<(Var, Var)> {
        let term = self.matrix()?;
        if term.positions() != 1 {
            return None;
        }
        let (rows, columns) = self.extents();
        let (left, right) = (term.left.unfolded(em), term.right.unfolded(em));
        Some((em.per_sample(&left.var, &[rows]), em.per_sample(&right.var, &[columns])))
    }
}

impl FactoredGrad {
    /// Factors `[N, T, r]` and `[N, T, c]` of a gradient that is a sum over `T > 1` positions, in the parameter's
    /// order. `None` if they are larger than the gradient.
    pub fn positions(&self, em: &mut Emitter) -> Option<(Var, Var)> {
        let term = self.matrix()?;
        let (rows, columns) = self.extents();
        let is_smaller = term.positions() * (rows + columns) <= rows * columns;
        let is_unfolded = term.left.window().is_none() && term.right.window().is_none();
        if term.positions() == 1 || !is_smaller || !is_unfolded || term.dtype() != DType::F32 {
            return None;
        }
        Some((term.left.with_positions_first(em), term.right.with_positions_first(em)))
    }

    /// Factors of the gradient of an embedding matrix, in the parameter's order. They are the row index of each
    /// position as floats `[N, T]`, and the vectors added to these rows, `[N, T, c]`. `None` if they are larger than
    /// the gradient.
    pub fn rows(&self, em: &mut Emitter) -> Option<(Var, Var)> {
        let [Term { left, right }] = &self.terms[..] else { return None };
        let (rows, columns) = self.extents();
        let is_smaller = left.positions() * (columns + 1) <= rows * columns;
        let is_read = left.is_indices() && right.window().is_none() && right.var.dtype == DType::F32;
        if !is_read || !is_smaller || rows > EXACT_IN_F32 || !self.is_in_order() {
            return None;
        }
        let indices = em.cast(&left.var, DType::F32);
        let indices = em.per_sample(&indices, &[left.positions()]);
        Some((indices, right.with_positions_first(em)))
    }

    /// The only term of a gradient that is one matrix in the parameter's order.
    fn matrix(&self) -> Option<&Term> {
        let [term] = &self.terms[..] else { return None };
        (!term.is_indexed() && self.groups().is_none() && self.is_in_order()).then_some(term)
    }

    /// Returns true if the matrix's entries have the parameter's order.
    fn is_in_order(&self) -> bool {
        self.views.iter().all(|view| matches!(view, View::Reshape(_)))
    }
}

/// `[N, (g,) r, c]` of a term without indices.
fn product(em: &mut Emitter, term: &Term) -> Var {
    if term.positions() == 1 {
        let groups: Vec<usize> = term.left.groups().into_iter().collect();
        let shaped = |rows: usize, columns: usize| [&groups[..], &[rows, columns]].concat();
        let (left, right) = (term.left.unfolded(em), term.right.unfolded(em));
        let left = em.per_sample(&left.var, &shaped(left.extent(), 1));
        let right = em.per_sample(&right.var, &shaped(1, right.extent()));
        return em.mul(&left, &right);
    }
    // The runtimes repack the right side of a product, at the same cost for few or many rows. With many positions and a
    // wide right side, this costs more than transposing the result.
    let (rows, columns) = (term.left.extent(), term.right.extent());
    if term.right.has_positions_last() && term.positions() * columns.saturating_sub(rows) > 4 * rows * columns {
        let right = term.right.with_positions_last(em);
        let left = term.left.with_positions_inside(em);
        let product = em.matmul(&right, &left);
        return em.transpose_last(&product);
    }
    let left = term.left.with_positions_last(em);
    let right = term.right.with_positions_inside(em);
    em.matmul(&left, &right)
}

/// Permutation of a tensor with the samples first, from the permutation `perm` of one sample's axes.
pub fn behind_samples(perm: &[usize]) -> Vec<usize> {
    std::iter::once(0).chain(perm.iter().map(|p| p + 1)).collect()
}

/// Per-sample gradient of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Grad {
    /// Dense, in the layout of the value, or `[N, *shape]` for a value that is not batched.
    Dense(Var),
    /// Factored, only for values that are not batched.
    Factored(FactoredGrad),
}

impl Grad {
    /// Sum of two gradients of one value.
    pub fn sum(self, other: Self, em: &mut Emitter) -> Self {
        if let (Grad::Factored(a), Grad::Factored(b)) = (&self, &other)
            && let Some(joined) = a.join(b)
        {
            return Grad::Factored(joined);
        }
        let (a, b) = (self.dense(em), other.dense(em));
        Grad::Dense(em.add(&a, &b))
    }

    /// Gradient as one tensor.
    pub fn dense(&self, em: &mut Emitter) -> Var {
        match self {
            Grad::Dense(var) => var.clone(),
            Grad::Factored(factors) => factors.materialise(em),
        }
    }
}
