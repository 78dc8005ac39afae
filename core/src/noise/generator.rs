//! Trait of random generators, and the address of random words.

use super::sealed;

/// Purpose of random words. Purposes never share a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Purpose {
    /// Noise on the sum of gradients.
    GradientNoise = 1,
    /// Noise on the histogram of norms.
    HistogramNoise = 2,
    /// Bernoulli trials of Poisson sampling.
    Sampling = 3,
    /// Initial parameters.
    Initialisation = 4,
    /// Random augmentation of samples.
    Augmentation = 5,
    /// Random bits and canaries of an audit.
    Audit = 6,
    /// Noise on sums over held-out rows.
    HeldOutNoise = 7,
    /// Run keys from a secret: [`Key::derive`](super::Key::derive).
    RunKey = 8,
    /// Candidates of a private search.
    Search = 9,
}

/// Address of random words in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// Purpose.
    pub purpose: Purpose,
    /// Step number.
    pub step: u32,
    /// Number of the chunk of coordinates (noise) or of samples (sampling).
    pub chunk: u32,
}

/// Source of random words by address. Sealed. It has neither `Clone` nor `Debug`.
pub trait Generator: sealed::Sealed {
    /// Random words at one address. The stream borrows the key and does not copy it.
    type Stream<'a>: rand_core::Rng
    where
        Self: 'a;

    /// Returns true if the words are secret. If false, the run is a simulation, and every output is marked as such.
    fn is_private(&self) -> bool;

    /// Returns the words at `address`, from the first.
    fn stream(&self, address: Address) -> Self::Stream<'_>;
}
