//! Mechanisms, and the addressed generator they draw from.
//!
//! Noise is a function of (key, purpose, step, chunk of [`CHUNK`] coordinates): it can be made by any number of threads in
//! any order, no block of it is ever used twice, and a draw never crosses a chunk.

mod chacha;
mod continuous_gaussian;
pub(crate) mod discrete_gaussian;
mod xoshiro;

pub use chacha::{ChaCha20, Key, Stream};
pub use continuous_gaussian::ContinuousGaussian;
pub use discrete_gaussian::{DiscreteGaussian, MAX_SIGMA};
pub use xoshiro::{FastStream, Xoshiro};

/// Coordinates that share one address.
pub const CHUNK: usize = 1024;

/// What random words are for. Purposes never share a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Purpose {
    /// Noise on the sum of gradients.
    GradientNoise = 1,
    /// Noise on the histogram of norms.
    HistogramNoise = 2,
    /// The coins of Poisson sampling.
    Sampling = 3,
    /// Initial parameters.
    Initialisation = 4,
    /// Random augmentation of samples.
    Augmentation = 5,
    /// An audit's coins and canaries.
    Audit = 6,
}

/// Where in the run random words are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// What for.
    pub purpose: Purpose,
    /// Number of the step.
    pub step: u32,
    /// Number of the chunk of coordinates (noise) or samples (sampling).
    pub chunk: u32,
}

pub(crate) mod sealed {
    /// Only this crate's types may generate noise: nobody passes one that breaks the proof.
    pub trait Sealed {}
}

/// A source of random words by address. Sealed; it has no `Clone` and no `Debug`.
pub trait Generator: sealed::Sealed {
    /// The words at one address.
    type Stream: rand_core::Rng;

    /// Whether the words are secret. Where this is false the run is a simulation, and every output says so.
    fn is_private(&self) -> bool;

    /// The words at `address`, from the first.
    fn stream(&self, address: Address) -> Self::Stream;
}
