//! Access to what `damper-core` keeps to itself. A function of it that leads around the privacy boundary takes one of these values, and only this crate
//! can make one. `damper-core` does not export them. So a program has such access if its own `Cargo.toml` names this crate: a
//! feature would reach all that is built with it.
//!
//! Of the crates here, `damper-train`, `damper-audit` and `damper-cuda` alone name it: no firmware, enclave or C library does. `core/tests/step.rs` checks that.
#![no_std]
#![forbid(unsafe_code)]

/// Access to what an open step holds before it is released: its sum, its counts and the norms of its samples. Also to the words of a generator's key.
/// All of that is as secret as the data.
/// Audits compare it with the price of the mechanism, and processes exchange it to release one sum.
// Without `Default`, by which the compiler would make one for a caller that cannot name the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreleased(());

impl Unreleased {
    /// The access. Whoever calls this answers for what becomes of the values.
    #[must_use]
    pub const fn claim() -> Self {
        Self(())
    }
}

/// Access to optimizers without privacy: a mean gradient that no mechanism released, for the baseline.
// Without `Default`, as above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotPrivate(());

impl NotPrivate {
    /// The access. What is trained with it is not private.
    #[must_use]
    pub const fn claim() -> Self {
        Self(())
    }
}
