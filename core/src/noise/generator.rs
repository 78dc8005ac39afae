//! The trait of generators, and the address of random words.

use super::sealed;

/// Purpose of random words. Purposes never share a stream.
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
    /// Noise on sums over held-out rows.
    HeldOutNoise = 7,
    /// Keys of runs, from a secret: [`Key::derive`](super::Key::derive).
    RunKey = 8,
    /// The candidates of a private search.
    Search = 9,
}

/// The address of random words in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// The purpose.
    pub purpose: Purpose,
    /// Number of the step.
    pub step: u32,
    /// Number of the chunk of coordinates (noise) or samples (sampling).
    pub chunk: u32,
}

/// A source of random words by address. Sealed; it has no `Clone` and no `Debug`.
pub trait Generator: sealed::Sealed {
    /// The words at one address. It borrows the key: there is no second copy of it.
    type Stream<'a>: rand_core::Rng
    where
        Self: 'a;

    /// Returns true if the words are secret. If it returns false, the run is a simulation, and every output says so.
    fn is_private(&self) -> bool;

    /// The words at `address`, from the first.
    fn stream(&self, address: Address) -> Self::Stream<'_>;
}
