//! The factored form of a per-sample gradient that is a linear map.
//!
//! With left factors `L: [N, T, r]` and right factors `R: [N, T, c]` (activations and output gradients, in the order in
//! which the parameter holds them) the gradient of sample `n` is the matrix `Σ_t L[n,t] ⊗ R[n,t]: [r, c]`. With a group
//! axis (`[N, T, g, r]`, `[N, T, g, c]`) it is one such matrix a group, `[g, r, c]`. What a parameter goes through before
//! it is used as a matrix (transposes, reshapes) is kept as a list of views from the matrix back to the parameter.

use super::emit::{BATCH_FIRST, Emitter, Var};

/// One of the two factors.
#[derive(Clone, PartialEq, Debug)]
pub struct Side {
    /// `[N, T, r]` or `[N, T, g, r]`; with `positions_last` `[N, r, T]` or `[N, g, r, T]`.
    pub var: Var,
    pub positions_last: bool,
}

impl Side {
    /// A factor laid out `[N, T, (g,) r]`.
    pub fn positions_first(var: Var) -> Self {
        Self { var, positions_last: false }
    }

    /// A factor laid out `[N, (g,) r, T]`.
    pub fn positions_last(var: Var) -> Self {
        Self { var, positions_last: true }
    }

    fn positions(&self) -> usize {
        self.var.shape[if self.positions_last { self.var.rank() - 1 } else { 1 }]
    }

    fn groups(&self) -> Option<usize> {
        (self.var.rank() == 4).then(|| self.var.shape[if self.positions_last { 1 } else { 2 }])
    }

    fn extent(&self) -> usize {
        self.var.shape[self.var.rank() - if self.positions_last { 2 } else { 1 }]
    }

    /// `[N, (g,) r, T]`.
    fn with_positions_last(&self, em: &mut Emitter) -> Var {
        match (self.positions_last, self.groups()) {
            (true, _) => self.var.clone(),
            (false, None) => em.transpose(&self.var, &[0, 2, 1]),
            (false, Some(_)) => em.transpose(&self.var, &[0, 2, 3, 1]),
        }
    }

    /// `[N, (g,) T, r]`: what a matrix product over the positions takes on its right.
    fn with_positions_inside(&self, em: &mut Emitter) -> Var {
        match (self.positions_last, self.groups()) {
            (true, _) => em.transpose_last(&self.var),
            (false, None) => self.var.clone(),
            (false, Some(_)) => em.transpose(&self.var, &[0, 2, 1, 3]),
        }
    }

    /// `[N, T, (g,) r]`.
    fn with_positions_first(&self, em: &mut Emitter) -> Var {
        match (self.positions_last, self.groups()) {
            (false, _) => self.var.clone(),
            (true, None) => em.transpose(&self.var, &[0, 2, 1]),
            (true, Some(_)) => em.transpose(&self.var, &[0, 3, 1, 2]),
        }
    }
}

/// How the parameter is seen from the matrix; shapes and permutations do not count the sample axis.
#[derive(Clone, PartialEq, Debug)]
enum View {
    Reshape(Vec<usize>),
    Transpose(Vec<usize>),
}

/// A factored per-sample gradient.
#[derive(Clone, PartialEq, Debug)]
pub struct Factors {
    left: Side,
    right: Side,
    views: Vec<View>,
}

impl Factors {
    /// The gradient `Σ_t left ⊗ right`.
    pub fn new(left: Side, right: Side) -> Self {
        debug_assert_eq!(left.positions(), right.positions(), "{left:?} {right:?}");
        debug_assert_eq!(left.groups(), right.groups());
        Self { left, right, views: Vec::new() }
    }

    /// The shape of the matrix, or of the stack of matrices.
    fn matrix_shape(&self) -> Vec<usize> {
        let mut shape: Vec<usize> = self.left.groups().into_iter().collect();
        shape.extend([self.left.extent(), self.right.extent()]);
        shape
    }

    /// One sample's shape.
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
            std::mem::swap(&mut self.left, &mut self.right);
        } else {
            self.views.push(View::Transpose(perm.to_vec()));
        }
        self
    }

    /// `factor` times the gradient; `factor` is a scalar known now, or a tensor of one element.
    pub fn scale(mut self, em: &mut Emitter, factor: &Var) -> Self {
        let side = if self.left.var.len() <= self.right.var.len() { &mut self.left } else { &mut self.right };
        let factor = em.reshape(factor, &[], None);
        side.var = em.mul(&side.var, &factor);
        self
    }

    /// Both gradients' sum as one, by joining the positions; `None` where the two have different forms.
    pub fn join(&self, other: &Self, em: &mut Emitter) -> Option<Self> {
        if self.matrix_shape() != other.matrix_shape() || self.views != other.views {
            return None;
        }
        let mut joined = |a: &Side, b: &Side| {
            if a.positions_last && b.positions_last {
                return Side::positions_last(em.concat(&[&a.var, &b.var], a.var.rank() - 1));
            }
            let (a, b) = (a.with_positions_first(em), b.with_positions_first(em));
            Side::positions_first(em.concat(&[&a, &b], 1))
        };
        let (left, right) = (joined(&self.left, &other.left), joined(&self.right, &other.right));
        Some(Self { left, right, views: self.views.clone() })
    }

    /// Every sample's gradient: `[N, *shape]`.
    pub fn materialise(&self, em: &mut Emitter) -> Var {
        let mut grad = if self.left.positions() == 1 {
            let groups: Vec<usize> = self.left.groups().into_iter().collect();
            let shaped = |rows: usize, columns: usize| [&groups[..], &[rows, columns]].concat();
            let left = em.per_sample(&self.left.var, &shaped(self.left.extent(), 1));
            let right = em.per_sample(&self.right.var, &shaped(1, self.right.extent()));
            em.mul(&left, &right)
        } else {
            let left = self.left.with_positions_last(em);
            let right = self.right.with_positions_inside(em);
            em.matmul(&left, &right)
        };
        for view in &self.views {
            grad = match view {
                View::Reshape(shape) => em.reshape(&grad, &[&[1], &shape[..]].concat(), Some(BATCH_FIRST)),
                View::Transpose(perm) => em.transpose(&grad, &behind_samples(perm)),
            };
        }
        grad
    }
}

/// `perm` of one sample's axes as a permutation of a tensor that has the samples in front.
pub fn behind_samples(perm: &[usize]) -> Vec<usize> {
    std::iter::once(0).chain(perm.iter().map(|p| p + 1)).collect()
}

/// The per-sample gradient of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Grad {
    /// In the layout of the value; `[N, *shape]` for a value that is not batched.
    Dense(Var),
    /// Only of values that are not batched.
    Factored(Factors),
}

impl Grad {
    /// The sum of two gradients of one value.
    pub fn sum(self, other: Self, em: &mut Emitter) -> Self {
        if let (Grad::Factored(a), Grad::Factored(b)) = (&self, &other)
            && let Some(joined) = a.join(b, em)
        {
            return Grad::Factored(joined);
        }
        let (a, b) = (self.dense(em), other.dense(em));
        Grad::Dense(em.add(&a, &b))
    }

    /// The gradient as one tensor.
    pub fn dense(&self, em: &mut Emitter) -> Var {
        match self {
            Grad::Dense(var) => var.clone(),
            Grad::Factored(factors) => factors.materialise(em),
        }
    }
}
