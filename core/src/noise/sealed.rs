//! Sealing: traits and parameters that other crates cannot name.

/// Implemented by this crate's types alone: nobody passes one that breaks the proof.
pub trait Sealed {}

/// A parameter that only this crate can create. A method of a sealed trait that takes one cannot be called from elsewhere.
/// Sealing alone does not prevent calls: `fn f<M: Mechanism>(m: M)` may call every method of the trait.
#[derive(Clone, Copy)]
pub struct Inside(pub(crate) ());
