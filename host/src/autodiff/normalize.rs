//! Differentiating a normalisation to mean 0 and variance 1 over some axes.

use super::emit::{Emitter, Var};

/// The parts of `x̂ = (x − mean) · scale` that a backward pass needs, recomputed from `x`.
pub struct Normalized {
    /// `x̂`, in the shape of `x`.
    pub value: Var,
    /// `1 / √(variance + ε)`, extent 1 along the normalised axes.
    pub scale: Var,
    axes: Vec<usize>,
}

impl Normalized {
    /// `x` normalised over `axes`.
    pub fn new(em: &mut Emitter, x: &Var, axes: Vec<usize>, epsilon: f64) -> Self {
        let mean = em.reduce_mean(x, &axes, true);
        let centred = em.sub(x, &mean);
        let square = em.mul(&centred, &centred);
        let variance = em.reduce_mean(&square, &axes, true);
        let epsilon = em.scalar(x.dtype, epsilon);
        let sum = em.add(&variance, &epsilon);
        let root = em.unary("Sqrt", &sum);
        let scale = em.unary("Reciprocal", &root);
        let value = em.mul(&centred, &scale);
        Self { value, scale, axes }
    }

    /// `dx = scale · (dx̂ − mean(dx̂) − x̂ · mean(dx̂ · x̂))`.
    pub fn pull(&self, em: &mut Emitter, grad: &Var) -> Var {
        let mean = em.reduce_mean(grad, &self.axes, true);
        let product = em.mul(grad, &self.value);
        let slope = em.reduce_mean(&product, &self.axes, true);
        let along = em.mul(&self.value, &slope);
        let centred = em.sub(grad, &mean);
        let rest = em.sub(&centred, &along);
        em.mul(&rest, &self.scale)
    }
}
