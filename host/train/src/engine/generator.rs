//! The generator of a run, and its key.

use crate::TrainError;
use damper_core::noise::{self, Address, Generator as _, Key, Purpose};
use rand_core::Rng as _;
use zeroize::Zeroizing;

/// Blocks of key stream generated at once. From sixteen blocks on, SIMD code generates them in less than half the time,
/// with the same words.
const BLOCKS: usize = 16;

/// The generator of a run.
pub type RunGenerator = noise::ChaCha20<BLOCKS>;

/// Returns a key from the operating system, erased on drop. For a simulation, which has a seed, it is zeros.
pub fn key(seed: Option<u64>) -> Result<Zeroizing<[u8; 32]>, TrainError> {
    let mut key = Zeroizing::new([0; 32]);
    if seed.is_none() {
        getrandom::fill(&mut *key).map_err(TrainError::Key)?;
    }
    Ok(key)
}

/// Returns the generator of a simulation. Without a seed, returns a private generator with this key, which is then
/// erased.
pub fn generator(seed: Option<u64>, key: &mut [u8; 32]) -> RunGenerator {
    match seed {
        Some(seed) => RunGenerator::simulation(seed),
        None => RunGenerator::from_key(Key::from_bytes(key)),
    }
}

/// Returns a generator with a key of its own.
///
/// # Errors
///
/// The operating system returns no key.
pub fn fresh(seed: Option<u64>) -> Result<RunGenerator, TrainError> {
    Ok(generator(seed, &mut *key(seed)?))
}

/// A release before the first step with its own noise key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Derived {
    /// Means and deviations of the features.
    Normalize = 0,
    /// The number of rows without a finite gradient.
    NonFinite = 1,
}

/// Returns a generator for `release`, with a key derived from that of `generator`.
pub(crate) fn derived(generator: &RunGenerator, release: Derived) -> RunGenerator {
    let mut key = Zeroizing::new([0; 32]);
    generator.stream(Address { purpose: Purpose::RunKey, step: release as u32, chunk: 0 }).fill_bytes(&mut *key);
    RunGenerator::from_key(Key::from_bytes(&mut key))
}
