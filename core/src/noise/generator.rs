//! Trait of random generators, and the address of random words.

use super::sealed;

/// Purpose of random words. Purposes never share a stream.
///
/// ```
/// use damper_core::noise::{Address, Generator as _, NoiseRng, Purpose};
/// use rand_core::Rng as _;
///
/// let generator = NoiseRng::simulation(1);
/// let word = |purpose| generator.stream(Address { purpose, step: 0, chunk: 0 }).next_u32();
/// assert!(word(Purpose::GradientNoise) != word(Purpose::Sampling));
/// ```
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
///
/// ```
/// use damper_core::noise::{Address, Generator as _, NoiseRng, Purpose};
/// use rand_core::Rng as _;
///
/// let generator = NoiseRng::simulation(1);
/// let address = Address { purpose: Purpose::Audit, step: 3, chunk: 0 };
/// let (mut one, mut other) = (generator.stream(address), generator.stream(address));
/// assert_eq!([one.next_u32(), one.next_u32()], [other.next_u32(), other.next_u32()]);
/// ```
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
///
/// ```
/// use damper_core::noise::{Generator, Key, NoiseRng};
///
/// fn mark(generator: &impl Generator) -> &'static str {
///     if generator.is_private() { "private" } else { "a simulation" }
/// }
/// assert_eq!(mark(&NoiseRng::simulation(1)), "a simulation");
/// assert_eq!(mark(&NoiseRng::from_key(Key::from_bytes(&mut [7; 32]))), "private");
/// ```
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
