//! Access to unreleased values of `damper-core`. A function that bypasses the privacy boundary takes one of these
//! values, and only this crate can construct them. `damper-core` does not export them. So a program has such access
//! only if its own `Cargo.toml` names this crate. A Cargo feature would give the access to every crate in the build.
//!
//! Of the crates here, only `damper-train`, `damper-audit` and `damper-cuda` name it, and no firmware, enclave or C
//! library does. `core/tests/step.rs` checks that.
#![no_std]
#![forbid(unsafe_code)]

/// Access to an open step's values before their release: its sum, its counts and the norms of its samples. It also
/// gives access to the words of a generator's key. All of these are as secret as the data.
/// Audits compare them with the privacy cost of the mechanism, and processes exchange them to release one sum.
// Not `Default`: the compiler could then construct one for a caller that cannot name the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreleased(());

impl Unreleased {
    /// Constructs the access. The caller is responsible for the values.
    #[must_use]
    pub const fn claim() -> Self {
        Self(())
    }
}

/// Access to optimizers without privacy, for the baseline. Their input is a mean gradient that no mechanism released.
// Not `Default`, as above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotPrivate(());

impl NotPrivate {
    /// Constructs the access. Training with it is not private.
    #[must_use]
    pub const fn claim() -> Self {
        Self(())
    }
}
