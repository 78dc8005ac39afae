//! `Trilu`: a triangle of each matrix in the last two axes, 0 elsewhere ⇒ `dX` = the same triangle of `dY`.

use super::rule::GradRule;
use crate::backward::BackwardContext;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};
use damper_onnx::graph::{DType, Tensor, TensorData};

pub const RULE: GradRule = GradRule { op: "Trilu", backward };

fn backward(p: &mut BackwardContext<'_>) -> Result<(), DeriveError> {
    let diagonal = match p.constant_ints(1).as_deref() {
        None if !p.has(1) => 0,
        Some(&[k]) => k,
        _ => return Err(p.refuse("its diagonal is not a constant", "use a constant diagonal")),
    };
    let (gy, upper) = (p.gy(), p.int("upper", 1) != 0);
    let gx = triangle(p.em, &gy, diagonal, upper);
    p.gx(0, gx);
    Ok(())
}

/// Triangle of `x` above (or below) a diagonal, inclusive.
pub fn triangle(em: &mut Emitter, x: &Var, diagonal: i64, upper: bool) -> Var {
    let (rows, columns) = (x.shape[x.rank() - 2], x.shape[x.rank() - 1]);
    let inside = |row: usize, column: usize| {
        let above = column as i64 - row as i64;
        if upper { above >= diagonal } else { above <= diagonal }
    };
    let mask = (0..rows * columns).map(|at| inside(at / columns, at % columns)).collect();
    let mask = em.constant(Tensor { shape: vec![rows, columns], data: TensorData::Bool(mask) });
    let zero = match x.dtype {
        DType::Bool => return em.node("And", &[x, &mask], vec![], DType::Bool, x.shape.clone(), x.batch),
        DType::I32 => TensorData::I32(vec![0]),
        DType::I64 => TensorData::I64(vec![0]),
        DType::F32 => TensorData::F32(vec![0.0].into()),
        DType::F64 => TensorData::F64(vec![0.0]),
    };
    let zero = em.constant(Tensor { shape: vec![], data: zero });
    em.choose(&mask, x, &zero)
}
