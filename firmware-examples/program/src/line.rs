//! The lines a program says. Each can be written as text and logged with defmt, and both must read the same.

use core::fmt;

/// One line.
#[derive(Clone, Copy)]
pub enum Line {
    /// What runs.
    Start {
        /// Parameters.
        dim: u32,
        /// Samples to train on.
        samples: u32,
        /// Whether the generator's key is secret.
        private: bool,
    },
    /// The ledger refused a further step.
    BudgetSpent {
        /// Steps that were released.
        steps: u32,
    },
    /// How the trained model does on held-out samples.
    HeldOut {
        /// Samples it names rightly.
        right: u32,
        /// Samples held out.
        samples: u32,
    },
    /// The digest of the parameters.
    Params(u64),
    /// The program stopped where it should not have.
    Failed(&'static str),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Start { dim, samples, private } => {
                let key = if private { "private key" } else { "simulation, the key is known" };
                write!(f, "train: {dim} parameters, {samples} samples, {key}")
            }
            Self::BudgetSpent { steps } => write!(f, "budget spent after {steps} steps"),
            Self::HeldOut { right, samples } => write!(f, "held out: {right} of {samples} right"),
            Self::Params(digest) => write!(f, "params fnv1a64 {digest:016x}"),
            Self::Failed(why) => write!(f, "failed: {why}"),
        }
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for Line {
    fn format(&self, f: defmt::Formatter<'_>) {
        match *self {
            Self::Start { dim, samples, private } => {
                let key = if private { "private key" } else { "simulation, the key is known" };
                defmt::write!(f, "train: {=u32} parameters, {=u32} samples, {=str}", dim, samples, key)
            }
            Self::BudgetSpent { steps } => defmt::write!(f, "budget spent after {=u32} steps", steps),
            Self::HeldOut { right, samples } => defmt::write!(f, "held out: {=u32} of {=u32} right", right, samples),
            Self::Params(digest) => defmt::write!(f, "params fnv1a64 {=u64:016x}", digest),
            Self::Failed(why) => defmt::write!(f, "failed: {=str}", why),
        }
    }
}
