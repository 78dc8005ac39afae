//! GaLore: an optimizer that lives in a few directions of each matrix of parameters.
//!
//! For each tensor whose first axis `m` and remaining axes together, `n`, are both above the rank `r`:
//!
//! ```text
//! every I steps, from the first:   P = the r leading singular directions of g, on the shorter side       m ← P_newᵀ·P_old·m
//! each step (left):                d = the optimizer's step from Pᵀ·ĝ and Pᵀ·g                           θ ← θ + α·P·d
//! ```
//!
//! with `g` the released gradient of this step, `ĝ` the filtered one, `m` the optimizer's first moments, `d` holding the
//! learning rate and the sign. All other tensors follow the optimizer as they would without GaLore.
//!
//! Source: Zhao, Zhang, Chen, Wang, Anandkumar, Tian, "GaLore", ICML 2024; with a filter in front LP-GaLore of Zhang, Bu,
//! Hong, Razaviyayn, "DOPPLER", Algorithm 3. What the papers leave open is decided so:
//!
//! - The filter runs before the projection, on whole gradients. It commutes with a fixed `P`; when `P` changes, all that it
//!   remembers is seen through the new `P`, where a filter behind the projection would mix coordinates of two bases.
//! - First moments are turned into the new basis. What they held outside its span is forgotten.
//! - Second moments are kept as they are, as in GaLore's own code. Axes come strongest first, so an axis inherits the scale
//!   of the one that had its place; noise has one variance along all of them, which a kept average goes on to hold.
//!   Turned with the squares of `P_newᵀ·P_old`, or reset, they would be near 0 along new axes while their bias correction
//!   takes them to be full, and the next step as much as `1/√(1−β₂)` times too long.
//! - The basis of one noisy gradient is mostly one of noise where the signal of a step is below its noise. GaLore's 200
//!   steps suit long runs; a run of a few hundred steps wants a new basis every ten or so.
//! - Decoupled weight decay (Adam's) shortens the whole tensor, an L2 penalty acts within the directions, as in the source.
//!
//! # Memory
//!
//! The optimizer's state is `r·max(m, n)` coordinates a projected tensor instead of `m·n`; beside it `P`, two whole
//! gradients (`2·D` words), and scratch of one tensor.
//!
//! # Numerics
//!
//! `P` by `subspace` in f64, rounded to f32; products by [`Basis`]; then `θ ← S(θ + S(α·(P·d)))`, with `S` of
//! [`damper_core::optimizer`]. `d` is how far the optimizer moves zeros or, with an L2 penalty, `Pᵀθ`. Decoupled decay comes
//! first: `θ ← S(S(1−ηλ)·θ)`.
//!
//! # Privacy
//!
//! `P` is a function of one released gradient, hence all that follows is post-processing. It is used first on the gradient
//! it was computed from: at those steps the noise along `P` is more than along fixed directions, since `P` looks for
//! energy, and DP-AdamBC takes off too little. Between them the noise along `P` has the variance it always has.

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

/// GaLore's settings.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LowRank {
    /// `r`.
    pub rank: NonZeroUsize,
    /// `I`, steps from one basis to the next.
    pub every: NonZeroU32,
    /// `α`.
    pub scale: f32,
}

impl LowRank {
    /// Returns true if a tensor of this form is projected.
    pub fn projects(&self, form: MatrixShape) -> bool {
        form.rows.min(form.columns) > self.rank.get()
    }

    /// Coordinates that the optimizer sees of a tensor of this form.
    pub fn coordinates(&self, form: MatrixShape) -> usize {
        if self.projects(form) { self.rank.get() * form.rows.max(form.columns) } else { form.rows * form.columns }
    }
}

/// A tensor as a matrix: its first axis, and all others together (1 where there is none).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixShape {
    /// `m`.
    pub rows: usize,
    /// `n`.
    pub columns: usize,
}

/// The trained parameters as matrices, in order.
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

/// Its memory.
pub(crate) struct GaLoreState {
    inner: OptimizerState,
    tensors: Vec<Tensor>,
    /// Steps so far.
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
    /// Start of its coordinates in the optimizer's state.
    inner_at: usize,
    /// Their number.
    coordinates: usize,
    projection: Option<Projection>,
}

struct Projection {
    form: MatrixShape,
    side: Side,
    rank: NonZeroUsize,
    /// `P`; zeros before the first.
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
    /// GaLore for tensors of these forms over what `inner` makes for the coordinates that are left.
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

    /// Takes the basis from a released gradient, and turns first moments, of the tensor's length in coordinates or none.
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

/// No recording has it.
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

    /// Collects; the parameters move at the end.
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

/// The bases, the number of steps, and the optimizer's state. All else is set by the next step.
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

/// Of the inner optimizer. Recordings refuse GaLore.
impl Digested<GaLoreState> for GaLore {
    fn add_to(&self, state: &GaLoreState, digest: &mut Digest) {
        self.inner.add_to(&state.inner, digest);
    }
}

impl Scratch {
    /// Memory for a tensor of `len` numbers and so many coordinates; `before` is zeros.
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
