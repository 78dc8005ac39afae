//! `Pow`: `Y = X^C` ⇒ `dX = dY · C · X^(C−1)` (0 if `C = 0`), `dC = dY · Y · ln X` if `X > 0`, else 0.
//!
//! Constant exponents of 2, 3, 1/2 and 1 are emitted as products and roots, which are also exact for negative bases.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use damper_onnx::graph::{DType, Tensor, TensorData};

pub const RULE: GradRule = GradRule { op: "Pow", backward };

/// `Y`. `known` is the exponent if it is constant.
pub fn forward(em: &mut Emitter, x: &Var, exponent: &Var, known: Option<&Tensor>) -> Var {
    match known.map(elements).as_deref() {
        Some([2.0]) if exponent.rank() <= x.rank() => em.mul(x, x),
        Some([3.0]) if exponent.rank() <= x.rank() => {
            let square = em.mul(x, x);
            em.mul(&square, x)
        }
        Some([0.5]) if exponent.rank() <= x.rank() => em.unary("Sqrt", x),
        _ => {
            let exponent = as_float(em, exponent, known, x.dtype);
            em.binary("Pow", x, &exponent)
        }
    }
}

/// Exponent in the type of the base, since some runtimes do not convert it.
fn as_float(em: &mut Emitter, exponent: &Var, known: Option<&Tensor>, dtype: DType) -> Var {
    match known {
        Some(tensor) if exponent.dtype != dtype => em.floats(dtype, &tensor.shape, elements(tensor)),
        _ => em.cast(exponent, dtype),
    }
}

fn elements(tensor: &Tensor) -> Vec<f64> {
    match &tensor.data {
        TensorData::F32(v) => v.iter().map(|&c| f64::from(c)).collect(),
        TensorData::F64(v) => v.clone(),
        TensorData::I32(v) => v.iter().map(|&c| f64::from(c)).collect(),
        TensorData::I64(v) => v.iter().map(|&c| c as f64).collect(),
        TensorData::Bool(v) => v.iter().map(|&c| f64::from(u8::from(c))).collect(),
    }
}

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let (x, y, gy) = (p.x(0), p.y(), p.gy());
    let known = p.constant(1);
    if p.wants(0) {
        let derivative = match known.map(elements).as_deref() {
            Some([2.0]) => p.em.scale(&x, 2.0),
            Some([3.0]) => {
                let square = p.em.mul(&x, &x);
                p.em.scale(&square, 3.0)
            }
            Some([0.5]) => {
                let half = p.em.scalar(x.dtype, 0.5);
                p.em.div(&half, &y)
            }
            Some(c) => {
                // At C = 0 the power is 0 · X^-1, which is not 0 at X = 0.
                let less: Vec<f64> = c.iter().map(|&c| if c == 0.0 { 0.0 } else { c - 1.0 }).collect();
                let shape = p.x(1).shape;
                let less = p.em.floats(x.dtype, &shape, less);
                let factor = p.em.floats(x.dtype, &shape, c.to_vec());
                let power = p.em.binary("Pow", &x, &less);
                p.em.mul(&power, &factor)
            }
            None => {
                let c = p.x(1);
                let c = p.em.cast(&c, x.dtype);
                let (zero, one) = (p.em.scalar(x.dtype, 0.0), p.em.scalar(x.dtype, 1.0));
                let less = p.em.sub(&c, &one);
                let power = p.em.binary("Pow", &x, &less);
                let product = p.em.mul(&power, &c);
                let is_zero = p.em.compare("Equal", &c, &zero);
                p.em.choose(&is_zero, &zero, &product)
            }
        };
        let gx = p.em.mul(&gy, &derivative);
        p.gx(0, gx);
    }
    if p.wants(1) {
        let (zero, one) = (p.em.scalar(x.dtype, 0.0), p.em.scalar(x.dtype, 1.0));
        let positive = p.em.compare("Greater", &x, &zero);
        let inside = p.em.choose(&positive, &x, &one);
        let log = p.em.log(&inside);
        let derivative = p.em.mul(&y, &log);
        let derivative = p.em.choose(&positive, &derivative, &zero);
        let gc = p.em.mul(&gy, &derivative);
        p.gx(1, gc);
    }
    Ok(())
}
