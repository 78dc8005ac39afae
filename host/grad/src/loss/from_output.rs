//! `output:NAME`: the model computes the loss ⇒ `dz = 1`.

use super::head::Head;
use crate::derive_error::DeriveError;
use crate::emit::{Emitter, Var};

/// Emits the loss `[N]`, no labels, and the gradient.
pub fn emit(em: &mut Emitter, z: &Head, name: &str) -> Result<(Var, Option<Var>, Var), DeriveError> {
    if z.var.len() != 1 {
        return Err(DeriveError::new(
            format!("output {name}"),
            format!("it has {} numbers a sample where a loss has one", z.var.len()),
            "reduce it over all axes but the batch in the model, or choose a loss with `loss`",
        ));
    }
    let loss = em.per_sample(&z.var, &[]);
    let grad = em.filled(z.var.dtype, 1.0, z.rest());
    Ok((loss, None, grad))
}
