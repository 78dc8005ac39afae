//! GaLore: an optimizer in a low-rank subspace of each parameter matrix.
//!
//! Applies to each tensor with first axis `m` and product of the remaining axes `n`, if both are above the rank `r`:
//!
//! ```text
//! every I steps, from the first:   P = the r leading singular directions of g, on the shorter side       m ← P_newᵀ·P_old·m
//! each step (left):                d = the optimizer's step from Pᵀ·ĝ and Pᵀ·g                           θ ← θ + α·P·d
//! ```
//!
//! with `g` the released gradient of this step, `ĝ` the filtered gradient and `m` the optimizer's first moments. `d`
//! includes the learning rate and the sign. All other tensors are updated as without GaLore.
//!
//! Source: Zhao, Zhang, Chen, Wang, Anandkumar, Tian, "GaLore", ICML 2024. With a filter in front, it is LP-GaLore of
//! Zhang, Bu, Hong, Razaviyayn, "DOPPLER", Algorithm 3. Choices that the papers leave open:
//!
//! - The filter runs before the projection, on whole gradients. It commutes with a fixed `P`. When `P` changes, the new
//!   `P` projects all of the filter's state. A filter after the projection would mix coordinates of two bases.
//! - First moments are rotated into the new basis. Components outside its span are dropped.
//! - Second moments are kept, as in GaLore's own code. Axes are sorted by strength, so an axis inherits the scale of
//!   its predecessor at that index. The noise has the same variance along all axes, which a kept average still has. If
//!   they were rotated with the squares of `P_newᵀ·P_old`, or reset, they would be near 0 along new axes. Their bias
//!   correction would still treat them as full, and the next step could be too long by a factor of up to `1/√(1−β₂)`.
//! - If the signal of a step is below its noise, the basis of one noisy gradient is mostly noise. GaLore's 200 steps
//!   suit long runs. A run of a few hundred steps needs a new basis about every ten steps.
//! - Decoupled weight decay (Adam's) shrinks the whole tensor. An L2 penalty acts within the subspace, as in the
//!   source.
//!
//! # Memory
//!
//! For a projected tensor, the optimizer's state has `r·max(m, n)` coordinates instead of `m·n`. In addition there are
//! `P`, two whole gradients (`2·D` values), and scratch of one tensor.
//!
//! # Numerics
//!
//! `P` by `subspace` in f64, rounded to f32. Products by [`Basis`]. Then `θ ← S(θ + S(α·(P·d)))`, with `S` of
//! [`damper_core::optimizer`]. `d` is the optimizer's displacement of zeros or, with an L2 penalty, of `Pᵀθ`. Decoupled
//! decay comes first: `θ ← S(S(1−ηλ)·θ)`.
//!
//! # Privacy
//!
//! `P` is a function of one released gradient, so everything after it is post-processing. It is first applied to the
//! gradient that it was computed from. In these steps the noise along `P` is larger than along fixed directions,
//! because `P` maximises energy, and DP-AdamBC subtracts too little. In the other steps the noise along `P` has its
//! usual variance.

mod subspace;

use crate::choice::{OptimizerState, WeightDecay};
use damper_core::error::{CallError, ConfigError};
use damper_core::numerics::basis::{Basis, Side};
use damper_core::numerics::digest::{Digest, Digested};
use damper_core::numerics::round::saturate;
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::{Released, ReleasedBuffer};
use damper_core::record::ToRecord;
use damper_core::slots::OptimizerSlot;
use damper_core::state::{SaveState, StateField};
use damper_grad::GradGraph;
use damper_onnx::Dim;
use std::num::{NonZeroU32, NonZeroUsize};

/// Settings of GaLore.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LowRank {
    /// `r`.
    pub rank: NonZeroUsize,
    /// `I`, the number of steps between basis updates.
    pub every: NonZeroU32,
    /// `α`.
    pub scale: f32,
}

impl LowRank {
    /// Returns true if a tensor of this shape is projected.
    pub fn projects(&self, form: MatrixShape) -> bool {
        form.rows.min(form.columns) > self.rank.get()
    }

    /// Returns the number of coordinates that the optimizer sees of a tensor of this shape.
    pub fn coordinates(&self, form: MatrixShape) -> usize {
        if self.projects(form) { self.rank.get() * form.rows.max(form.columns) } else { form.rows * form.columns }
    }
}

/// A tensor as a matrix: its first axis, and the product of all others (1 if there are none).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixShape {
    /// `m`.
    pub rows: usize,
    /// `n`.
    pub columns: usize,
}

/// Returns the trained parameters as matrices, in order.
pub fn forms(grad: &GradGraph) -> Vec<MatrixShape> {
    let extent = |dim: &Dim| dim.extent(1);
    let form = |shape: &[Dim]| MatrixShape {
        rows: shape.first().map_or(1, extent),
        columns: shape.iter().skip(1).map(extent).product(),
    };
    grad.parameters.iter().map(|spec| form(&spec.shape)).collect()
}

/// GaLore over an optimizer.
#[derive(Clone, Copy)]
pub(crate) struct GaLore {
    inner: OptimizerSlot,
    decay: WeightDecay,
    settings: LowRank,
}

/// State of GaLore.
pub(crate) struct GaLoreState {
    inner: OptimizerState,
    tensors: Vec<Tensor>,
    /// Number of steps so far.
    steps: u32,
    /// `1 − ηλ` of this step.
    keep: f32,
    filtered: ReleasedBuffer<Vec<f32>>,
    released: ReleasedBuffer<Vec<f32>>,
    scratch: Scratch,
}

struct Tensor {
    at: usize,
    len: usize,
    /// Offset of its coordinates in the optimizer's state.
    inner_at: usize,
    /// Number of its coordinates.
    coordinates: usize,
    projection: Option<Projection>,
}

struct Projection {
    form: MatrixShape,
    side: Side,
    rank: NonZeroUsize,
    /// `P`, or zeros before the first basis.
    entries: Vec<f32>,
}

#[derive(Default)]
struct Scratch {
    filtered: Vec<f32>,
    released: Vec<f32>,
    /// Coordinates of the parameters, or zeros, before and after the optimizer's step.
    before: Vec<f32>,
    after: Vec<f32>,
    whole: Vec<f32>,
}

impl GaLore {
    /// Builds GaLore for tensors of these shapes, over the optimizer that `inner` builds for the remaining coordinates.
    pub(crate) fn build(
        settings: LowRank,
        decay: WeightDecay,
        forms: &[MatrixShape],
        inner: impl FnOnce(usize) -> Result<(OptimizerSlot, OptimizerState), ConfigError>,
    ) -> Result<(Self, GaLoreState), ConfigError> {
        if !(settings.scale.is_normal() && settings.scale > 0.0) {
            return Err(ConfigError { parameter: "GaLore's scale", must_be: "a normal number above 0" });
        }
        let (mut at, mut inner_at) = (0, 0);
        let mut tensors = Vec::new();
        for form in forms {
            let len = form.rows * form.columns;
            let coordinates = settings.coordinates(*form);
            let projection = settings.projects(*form).then(|| Projection {
                form: *form,
                side: if form.rows <= form.columns { Side::Left } else { Side::Right },
                rank: settings.rank,
                entries: vec![0.0; settings.rank.get() * form.rows.min(form.columns)],
            });
            tensors.push(Tensor { at, len, inner_at, coordinates, projection });
            at += len;
            inner_at += coordinates;
        }
        let (inner, inner_state) = inner(inner_at)?;
        let state = GaLoreState {
            inner: inner_state,
            tensors,
            steps: 0,
            keep: 1.0,
            filtered: ReleasedBuffer::new(vec![0.0; at]),
            released: ReleasedBuffer::new(vec![0.0; at]),
            scratch: Scratch::default(),
        };
        Ok((Self { inner, decay, settings }, state))
    }
}

impl Projection {
    fn basis(&self) -> Basis<'_> {
        Basis::new(&self.entries, self.rank, self.side).expect("the entries were made for the rank")
    }

    fn project(&self, whole: &[f32], coordinates: &mut [f32]) {
        self.basis().project(whole, coordinates).expect("a tensor has its form's length");
    }

    fn lift(&self, coordinates: &[f32], whole: &mut [f32]) {
        self.basis().lift(coordinates, whole).expect("a tensor has its form's length");
    }

    /// Computes the basis from a released gradient, and rotates first moments. `moments` has the tensor's coordinates,
    /// or is empty.
    fn renew(&mut self, first: bool, released: &Released<'_>, moments: &mut [f32], whole: &mut [f32]) {
        if !first && !moments.is_empty() {
            self.lift(moments, whole);
        }
        self.entries = subspace::leading(released.grad(), self.form.columns, self.side, self.rank.get());
        if !first && !moments.is_empty() {
            self.project(whole, moments);
        }
    }
}

/// Recordings do not support GaLore.
impl ToRecord<GaLoreState> for GaLore {}

impl Optimizer<GaLoreState> for GaLore {
    type Step = ();

    fn check(&self, state: &GaLoreState, dim: usize) -> Result<(), CallError> {
        if state.released.dim() != dim {
            return Err(CallError::Length { what: "GaLore's gradient", expected: dim, got: state.released.dim() });
        }
        self.inner.check(&state.inner, state.tensors.iter().map(|tensor| tensor.coordinates).sum())
    }

    fn moves_by_coordinate(&self) -> bool {
        false
    }

    fn begin(&self, state: &mut GaLoreState, begin: Begin) {
        if let WeightDecay::Decoupled(decay) = self.decay {
            state.keep = saturate((1.0 - begin.lr * decay) as f32);
        }
        self.inner.begin(&mut state.inner, begin);
    }

    /// Collects segments. The parameters move at the end.
    fn update(
        &self,
        (): (),
        state: &mut GaLoreState,
        at: usize,
        _params: &mut [f32],
        filtered: &Released<'_>,
        released: &Released<'_>,
    ) {
        state.filtered.keep(at, filtered);
        state.released.keep(at, released);
    }

    fn end(&self, (): (), state: &mut GaLoreState, params: &mut [f32]) {
        let GaLoreState { inner, tensors, steps, keep, filtered, released, scratch } = state;
        let first = *steps == 0;
        let renew = steps.is_multiple_of(self.settings.every.get());
        *steps = steps.wrapping_add(1);
        for Tensor { at, len, inner_at, coordinates, projection } in tensors {
            let params = &mut params[*at..][..*len];
            let filtered = filtered.piece(*at, *len).expect(COLLECTED);
            let released = released.piece(*at, *len).expect(COLLECTED);
            let Some(projection) = projection else {
                self.inner.update((), inner, *inner_at, params, &filtered, &released);
                continue;
            };
            scratch.fit(*len, *coordinates);
            if renew {
                let moments = inner.first_moments().get_mut(*inner_at..).unwrap_or_default();
                let moments = moments.get_mut(..*coordinates).unwrap_or_default();
                projection.renew(first, &released, moments, &mut scratch.whole);
            }
            match self.decay {
                WeightDecay::Penalty => projection.project(params, &mut scratch.before),
                WeightDecay::Decoupled(_) => params.iter_mut().for_each(|param| *param = saturate(*keep * *param)),
                WeightDecay::None => {}
            }
            let filtered = filtered.projected(&projection.basis(), &mut scratch.filtered).expect(FORM);
            let released = released.projected(&projection.basis(), &mut scratch.released).expect(FORM);
            scratch.after.copy_from_slice(&scratch.before);
            self.inner.update((), inner, *inner_at, &mut scratch.after, &filtered, &released);
            for (after, before) in scratch.after.iter_mut().zip(&scratch.before) {
                *after = saturate(*after - before);
            }
            projection.lift(&scratch.after, &mut scratch.whole);
            for (param, direction) in params.iter_mut().zip(&scratch.whole) {
                *param = saturate(*param + saturate(self.settings.scale * direction));
            }
        }
    }
}

/// Saves the bases, the number of steps, and the optimizer's state. The next step sets everything else.
impl SaveState for GaLoreState {
    fn each(&mut self, take: &mut dyn FnMut(StateField<'_>)) {
        take(StateField::Owner("galore"));
        take(StateField::Count(&mut self.steps));
        for projection in self.tensors.iter_mut().filter_map(|tensor| tensor.projection.as_mut()) {
            take(StateField::Floats(&mut projection.entries));
        }
        self.inner.each(take);
    }
}

/// Digests the inner optimizer. Recordings reject GaLore.
impl Digested<GaLoreState> for GaLore {
    fn add_to(&self, state: &GaLoreState, digest: &mut Digest) {
        self.inner.add_to(&state.inner, digest);
    }
}

impl Scratch {
    /// Resizes the buffers for a tensor of `len` values and this many coordinates. `before` is set to zeros.
    fn fit(&mut self, len: usize, coordinates: usize) {
        for part in [&mut self.filtered, &mut self.released, &mut self.after] {
            part.resize(coordinates, 0.0);
        }
        self.before.clear();
        self.before.resize(coordinates, 0.0);
        self.whole.resize(len, 0.0);
    }
}

const COLLECTED: &str = "every piece was collected before the end";
const FORM: &str = "a tensor has its form's length";

#[cfg(test)]
mod tests;
