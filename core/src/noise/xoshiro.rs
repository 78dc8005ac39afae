//! Addressed xoshiro128++ for fast **simulations**. It is not cryptographic, so its output is not private.
//!
//! Let `mix(x)` be SplitMix64's output from the state `x`. The state of an address is
//! `m = mix(k ^ mix(step·2³² + chunk))` with `k = mix(seed ^ mix(purpose))`. The four words of the generator are the
//! next two outputs of SplitMix64 from `m`, low half first.
//!
//! Source: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators", 2021, and the authors' files
//! `xoshiro128plusplus.c` and `splitmix64.c`.

use super::generator::{Address, Generator};
use super::sealed;
use rand_core::SeedableRng;

/// Random words at one address.
pub type FastStream = rand_xoshiro::Xoshiro128PlusPlus;

/// Addressed generator of fast simulations.
///
/// ```
/// use damper_core::noise::{Address, Generator as _, Purpose, Xoshiro};
/// use rand_core::Rng as _;
///
/// let generator = Xoshiro::simulation(1);
/// assert!(!generator.is_private());
/// let word = |step| generator.stream(Address { purpose: Purpose::Sampling, step, chunk: 0 }).next_u32();
/// assert!(word(0) != word(1) && word(0) == word(0));
/// ```
pub struct Xoshiro {
    seed: u64,
}

impl Xoshiro {
    /// Creates a generator for a simulation with this seed.
    #[must_use]
    pub fn simulation(seed: u64) -> Self {
        Self { seed }
    }
}

impl sealed::Sealed for Xoshiro {}

impl Generator for Xoshiro {
    type Stream<'a> = FastStream;

    fn is_private(&self) -> bool {
        false
    }

    fn stream(&self, address: Address) -> FastStream {
        let place = u64::from(address.step) << 32 | u64::from(address.chunk);
        let mut state = self.seed;
        for word in [address.purpose as u64, place] {
            state = mix(state ^ mix(word));
        }
        FastStream::seed_from_u64(state)
    }
}

/// Applies the finaliser of SplitMix64: a bijection in which every input bit affects the output.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::Purpose;
    use rand_core::Rng;

    // Every part of the address changes the stream.
    #[test]
    fn every_address_part_changes_stream() {
        let first = |purpose, step, chunk| Xoshiro::simulation(1).stream(Address { purpose, step, chunk }).next_u64();
        let base = first(Purpose::Sampling, 2, 3);
        assert_ne!(base, first(Purpose::GradientNoise, 2, 3));
        assert_ne!(base, first(Purpose::Sampling, 3, 3));
        assert_ne!(base, first(Purpose::Sampling, 2, 4));
        assert_ne!(base, first(Purpose::Sampling, 3, 2));
    }
}
