//! Custom operators of gradient graphs, each with its lowering to standard operators. They are row normalisation to
//! mean 0 and variance 1, softmax, GELU, and the gradients of these. Others are the gradients of tanh, of max pools and
//! of convolution kernels. Two more implement the clipped sum of per-sample gradients. For all of them, onnxruntime has
//! single-pass kernels (`host/runtime/src/ort/`).
//!
//! The kernels process floats in rows, which are the last axis. For other axes the emitter writes the lowering
//! directly.

use super::emit::{BATCH_FIRST, Emitter, Var};
use super::window::SlidingWindow;
use damper_onnx::graph::{BatchAxis, DType};
use damper_onnx::{make_attr_float, make_attr_int, make_attr_ints};

/// Normalised values `x̂ = (x − mean) · scale` with `scale = 1 / √(variance + ε)`.
pub struct Normalized {
    /// `x̂`, in the shape of `x`.
    pub value: Var,
    /// `scale`, with extent 1 along the normalised axes.
    pub scale: Var,
    /// `x̂ · γ + β`, or without `β`, or `x̂` if neither is given.
    pub output: Var,
    axes: Vec<usize>,
}

impl Normalized {
    /// Normalises `x` over `axes`. `affine` is empty, `γ`, or both `γ` and `β`.
    ///
    /// `Normalize`: `(x [.., n], γ [n]?, β [n]?) → (x̂ [.., n], scale [.., 1], (x̂ · γ + β) [.., n]?)`. It has the
    /// attribute `epsilon`.
    pub fn new(em: &mut Emitter, x: &Var, axes: Vec<usize>, epsilon: f64, affine: &[&Var]) -> Self {
        let lowering = |em: &mut Emitter| {
            let mean = em.reduce_mean(x, &axes, true);
            let centred = em.sub(x, &mean);
            let square = em.mul(&centred, &centred);
            let variance = em.reduce_mean(&square, &axes, true);
            let epsilon = em.scalar(x.dtype, epsilon);
            let sum = em.add(&variance, &epsilon);
            let root = em.unary("Sqrt", &sum);
            let scale = em.unary("Reciprocal", &root);
            let value = em.mul(&centred, &scale);
            let [gamma, beta @ ..] = affine else { return vec![value, scale] };
            let scaled = em.mul(&value, gamma);
            let output = beta.iter().fold(scaled, |sum, beta| em.add(&sum, beta));
            vec![value, scale, output]
        };
        let made = if has_rows(x, &axes) && affine.iter().all(|vector| is_vector_of(x, vector)) {
            let attributes = vec![make_attr_float("epsilon", epsilon as f32)];
            em.custom("Normalize", &[&[x], affine].concat(), attributes, lowering)
        } else {
            lowering(em)
        };
        let output = made.last().expect("it has a value").clone();
        let [value, scale] = [0, 1].map(|at| made[at].clone());
        Self { output: if affine.is_empty() { value.clone() } else { output }, value, scale, axes }
    }

    /// The same with the samples as the first axis, for gradients of a value that is not batched.
    pub fn behind_samples(self, em: &mut Emitter) -> Self {
        let [value, scale] = [&self.value, &self.scale].map(|x| em.reshape(x, &[&[1], &x.shape[..]].concat(), None));
        Self { value, scale, axes: self.axes.iter().map(|axis| axis + 1).collect(), ..self }
    }

    /// `dx = scale · (g − mean(g) − x̂ · mean(g · x̂))` with `g = dY · γ`, or `g = dY`.
    ///
    /// `NormalizeGrad`: `(dY [.., n], x̂ [.., n], scale [.., 1], γ [n]?) → dX [.., n]`. `x̂` and `scale` may be the
    /// same for all samples.
    pub fn backward(&self, em: &mut Emitter, gy: &Var, gamma: Option<&Var>) -> Var {
        let lowering = |em: &mut Emitter| {
            let grad = gamma.map_or(gy.clone(), |gamma| em.mul(gy, gamma));
            let mean = em.reduce_mean(&grad, &self.axes, true);
            let product = em.mul(&grad, &self.value);
            let derivative = em.reduce_mean(&product, &self.axes, true);
            let along = em.mul(&self.value, &derivative);
            let centred = em.sub(&grad, &mean);
            let rest = em.sub(&centred, &along);
            vec![em.mul(&rest, &self.scale)]
        };
        let is_vector = gamma.is_none_or(|gamma| is_vector_of(gy, gamma));
        if is_vector && has_rows(gy, &self.axes) && lies_as(&self.value, gy) {
            let inputs: Vec<&Var> = [gy, &self.value, &self.scale].into_iter().chain(gamma).collect();
            em.custom("NormalizeGrad", &inputs, vec![], lowering).remove(0)
        } else {
            lowering(em).remove(0)
        }
    }
}

/// `e = exp(x − max)` over some axes, which never overflows.
pub struct Exponentials {
    /// `max`, with extent 1 along the axes.
    pub top: Var,
    /// `x − max`.
    pub shifted: Var,
    /// `e`.
    pub value: Var,
    /// `Σe`, with extent 1 along the axes.
    pub sum: Var,
}

impl Exponentials {
    /// Exponentials of `x`. NaN if all entries are minus infinity, as in PyTorch's softmax.
    pub fn new(em: &mut Emitter, x: &Var, axes: &[usize]) -> Self {
        let top = em.reduce_max(x, axes, true);
        Self::below(em, x, top, axes)
    }

    /// Exponentials of `x`, shifted by 0 if the maximum is infinite, as in PyTorch's `logsumexp`. All 0 if all entries
    /// are minus infinity.
    pub fn bounded(em: &mut Emitter, x: &Var, axes: &[usize]) -> Self {
        let top = em.reduce_max(x, axes, true);
        let [zero, infinite] = [0.0, f64::INFINITY].map(|value| em.scalar(x.dtype, value));
        let magnitude = em.unary("Abs", &top);
        let finite = em.compare("Less", &magnitude, &infinite);
        let top = em.choose(&finite, &top, &zero);
        Self::below(em, x, top, axes)
    }

    fn below(em: &mut Emitter, x: &Var, top: Var, axes: &[usize]) -> Self {
        let shifted = em.sub(x, &top);
        let value = em.unary("Exp", &shifted);
        let sum = em.reduce_sum(&value, axes, true);
        Self { top, shifted, value, sum }
    }
}

/// `Softmax`: `x [.., n] → (e / Σe) [.., n]`, by [`Exponentials`].
pub fn softmax(em: &mut Emitter, x: &Var, axis: usize) -> Var {
    let lowering = |em: &mut Emitter| {
        let exponentials = Exponentials::new(em, x, &[axis]);
        vec![em.div(&exponentials.value, &exponentials.sum)]
    };
    match has_rows(x, &[axis]) {
        true => em.custom("Softmax", &[x], vec![], lowering).remove(0),
        false => lowering(em).remove(0),
    }
}

/// `SoftmaxGrad`: `(dY [.., n], Y [.., n]) → (Y · (dY − Σ dY · Y)) [.., n]`, along `axis` of `dY`. `Y` may be the same
/// for all samples.
pub fn softmax_grad(em: &mut Emitter, gy: &Var, y: &Var, axis: usize) -> Var {
    let lowering = |em: &mut Emitter| {
        let product = em.mul(gy, y);
        let sum = em.reduce_sum(&product, &[axis], true);
        let centred = em.sub(gy, &sum);
        vec![em.mul(y, &centred)]
    };
    match has_rows(gy, &[axis]) && lies_as(y, gy) {
        true => em.custom("SoftmaxGrad", &[gy, y], vec![], lowering).remove(0),
        false => lowering(em).remove(0),
    }
}

/// `TanhGrad`: `(dY, Y) → dY · (1 − Y²)`, all of one shape. The kernel rounds each entry like the lowering.
pub fn tanh_grad(em: &mut Emitter, gy: &Var, y: &Var) -> Var {
    let lowering = |em: &mut Emitter| {
        let square = em.mul(y, y);
        let one = em.scalar(y.dtype, 1.0);
        let derivative = em.sub(&one, &square);
        vec![em.mul(gy, &derivative)]
    };
    match y.dtype == DType::F32 && (&gy.shape, gy.batch) == (&y.shape, y.batch) {
        true => em.custom("TanhGrad", &[gy, y], vec![], lowering).remove(0),
        false => lowering(em).remove(0),
    }
}

/// `MaxPoolGrad`: `(dY [.., *windows], X [.., *input], Y [.., *windows]) → dX [.., *input]` for windows over a whole
/// line or plane. Windows of 2×2 have the attribute `stride`, 1 or 2. Windows that tile the input have the attribute
/// `kernel_shape`. A kernel rounds each entry like the lowering, which is in `rules/max_pool.rs`, if `dY`
/// is finite.
pub fn max_pool_grad(
    em: &mut Emitter,
    (stride, tiles): (Option<i64>, Option<&[usize]>),
    inputs: [&Var; 3],
    lowering: impl FnOnce(&mut Emitter) -> Var,
) -> Var {
    if stride.is_none() && tiles.is_none()
        || !inputs.iter().all(|var| var.dtype == DType::F32 && var.batch == inputs[0].batch)
    {
        return lowering(em);
    }
    let tiles = tiles.map(|kernel| kernel.iter().map(|extent| *extent as i64).collect::<Vec<_>>());
    let attributes = tiles.map(|kernel| make_attr_ints("kernel_shape", &kernel)).into_iter();
    let attributes = attributes.chain(stride.map(|stride| make_attr_int("stride", stride))).collect();
    em.custom("MaxPoolGrad", &inputs, attributes, |em| vec![lowering(em)]).remove(0)
}

/// `KernelGrad`: `(dY [N, O, *windows], X [N, C, *input]) → dW [N, O, C, *kernel]`, each sample's gradient of a
/// convolution kernel. It supports floats in one or two dimensions, with a `window` that has dilation 1 along the line.
/// Attributes are `kernel_shape`, `strides`, `dilations` and `before`. The lowering is in `factor.rs`.
pub fn kernel_grad(
    em: &mut Emitter,
    inputs: [&Var; 2],
    window: &SlidingWindow,
    lowering: impl FnOnce(&mut Emitter) -> Var,
) -> Var {
    let lists = [
        ("kernel_shape", &window.kernel),
        ("strides", &window.stride),
        ("dilations", &window.dilation),
        ("before", &window.before),
    ];
    let extents = |list: &[usize]| list.iter().map(|extent| *extent as i64).collect::<Vec<_>>();
    let attributes = lists.map(|(name, list)| make_attr_ints(name, &extents(list)));
    em.custom("KernelGrad", &inputs, attributes.into(), |em| vec![lowering(em)]).remove(0)
}

/// `Gelu`: `X → Y`, and `GeluGrad`: `(dY, X) → dX`, all of one shape. The attribute `approximate` is 1 for the tanh
/// approximation. The last of `inputs` is `X`. The lowerings are in `rules/gelu.rs`.
pub fn gelu(
    em: &mut Emitter,
    op: &str,
    inputs: &[&Var],
    approximate: bool,
    lowering: impl FnOnce(&mut Emitter) -> Var,
) -> Var {
    let is_like =
        |var: &&Var| var.dtype == DType::F32 && (&var.shape, var.batch) == (&inputs[0].shape, inputs[0].batch);
    if !inputs.iter().all(is_like) {
        return lowering(em);
    }
    let attributes = vec![make_attr_int("approximate", i64::from(approximate))];
    em.custom(op, inputs, attributes, |em| vec![lowering(em)]).remove(0)
}

/// `SquaredNorms`: `X [N, ..] → (Σ X²) [N]`, the sum over each sample's entries. The rounding errors are those of sums
/// of a few hundred terms.
pub fn squared_norms(em: &mut Emitter, x: &Var, lowering: impl FnOnce(&mut Emitter) -> Var) -> Var {
    match x.dtype == DType::F32 && x.is_batch_first() && x.len() > 1 {
        true => em.custom("SquaredNorms", &[x], vec![], |em| vec![lowering(em)]).remove(0),
        false => lowering(em),
    }
}

/// `WeightedSum`: `(weight [N], X [N, n]) → (Σ weight · X) [1, n]`. A sample of weight 0 contributes exactly 0, for any
/// entries.
pub fn weighted_sum(em: &mut Emitter, weight: &Var, x: &Var) -> Var {
    let lowering = |em: &mut Emitter| {
        let zero = em.scalar(x.dtype, 0.0);
        let keep = em.compare("Greater", weight, &zero);
        let kept = em.masked(x, &keep);
        let row = em.reshape(weight, &[1, 1], Some(BatchAxis { axis: 1, ..BATCH_FIRST }));
        vec![em.node("MatMul", &[&row, &kept], vec![], x.dtype, vec![1, x.len()], None)]
    };
    match x.dtype == DType::F32 {
        true => em.custom("WeightedSum", &[weight, x], vec![], lowering).remove(0),
        false => lowering(em).remove(0),
    }
}

/// Returns true if `axes` is only the last axis of `x`, and `x` has floats and more than one entry along it.
fn has_rows(x: &Var, axes: &[usize]) -> bool {
    let is_last = |last: usize| last > 0 && *axes == [last] && x.shape[last] > 1;
    x.dtype == DType::F32 && x.rank().checked_sub(1).is_some_and(is_last) && x.batch.is_none_or(|b| [b.axis] != *axes)
}

/// Returns true if `vector` has an entry for each entry of a row of `x` and is the same for all samples.
fn is_vector_of(x: &Var, vector: &Var) -> bool {
    vector.batch.is_none() && vector.shape[..] == x.shape[x.rank() - 1..]
}

/// Returns true if `value` has the shape of `grad`. If `value` is the same for all samples, it may lack the first axis.
fn lies_as(value: &Var, grad: &Var) -> bool {
    let value_lies = value.batch == grad.batch || value.batch.is_none() && grad.is_batch_first();
    let lead = grad.rank() - value.rank().min(grad.rank());
    value_lies && lead <= 1 && grad.shape[lead..] == value.shape[..] && grad.shape[..lead].iter().all(|d| *d == 1)
}
