//! Sealing: traits and parameters that other crates cannot name.

/// Implemented only by types of this crate. Another implementation could invalidate the privacy proof.
pub trait Sealed {}

/// A parameter that only this crate can create. Other crates cannot call a method of a sealed trait that takes it.
/// Sealing alone does not prevent calls: `fn f<M: Mechanism>(m: M)` may call every method of the trait.
#[derive(Clone, Copy)]
pub struct Inside(pub(crate) ());
