//! Mechanisms, and the addressed generator of their noise.
//!
//! Noise is a function of (key, purpose, step, chunk of [`CHUNK`] coordinates). Any number of threads can draw it, in
//! any order. No block is the fresh noise of two steps, and a draw never crosses a chunk. Noise of successive
//! steps is independent ([`DiscreteGaussian`], [`ContinuousGaussian`]) or partly cancels ([`CorrelatedGaussian`]).

mod chacha;
mod continuous_gaussian;
mod correlated;
pub(crate) mod discrete_gaussian;
mod erase;
mod generator;
mod key;
pub(crate) mod sealed;
mod xoshiro;

pub use chacha::{ChaCha20, Stream};
pub use continuous_gaussian::ContinuousGaussian;
pub use correlated::{
    AnyCorrelation, Banded, Bands, Blt, CorrelatedGaussian, CorrelatedState, Correlation, Lambda, NoiseWord,
    Participation,
};
pub use discrete_gaussian::{DiscreteGaussian, LEAST_SIGMA, MAX_SIGMA};
pub use generator::{Address, Generator, Purpose};
pub use key::{DeadGenerator, FreshKeyError, Key};
pub use xoshiro::{FastStream, Xoshiro};

/// Generator of a private run, in the fastest form for this target: [`ChaCha20`].
pub type NoiseRng = ChaCha20<{ if cfg!(target_pointer_width = "64") { 16 } else { 1 } }>;

/// Number of coordinates that share one address.
pub const CHUNK: usize = 1024;
