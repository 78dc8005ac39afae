//! The key of a run, and the test of the generator that makes it.

use super::erase::erase;
use core::fmt;
use zeroize::optimization_barrier;

/// A 256-bit secret that determines every random number of a run. It is as secret as the data.
///
/// It has neither `Clone` nor `Debug`. Its only accessor, [`ChaCha20::key_words`](super::ChaCha20::key_words), takes
/// [`Unreleased`](damper_access::Unreleased). Dropping it erases it.
///
/// # A fresh key at each boot
///
/// A run may take a fresh key after each restart ([`Key::fresh`]), so that no key is stored in flash. The guarantee is
/// the same:
///
/// 1. A word of noise or of sampling is a function of the key and of an [`Address`](super::Address), which contains the
///    step number.
/// 2. A [`Ledger`](crate::accounting::Ledger) with a store that survives restarts gives each step number once, if only
///    one ledger uses the store at a time. A [`RenyiFilter`](crate::accounting::RenyiFilter) numbers its steps from
///    2³¹, and releases of held-out sums have a purpose of their own. Two released sums of one purpose therefore have
///    different numbers. Under one key they share no word.
/// 3. Under two fresh keys they share no word either. Streams of independent keys are independent, up to an attacker's
///    advantage against ChaCha20, and the probability 2⁻²⁵⁶ that two keys are equal.
/// 4. By 2 and 3, the noise and the batch of each step are independent of those of every other step. Composition of
///    steps requires no more. It may be public at which steps the key changed, if restarts do not depend on unreleased
///    data. A watchdog that trips on one sample reveals it, with any key.
///
/// Two boots with the same key do not repeat noise either, because by 2 their step numbers differ.
///
/// A fresh key needs true randomness at each boot, and the run is not reproducible from one key. If the store is lost,
/// the charges are lost too. The noise stays independent under a fresh key, but the new ledger lacks the earlier
/// releases.
///
/// ```
/// use damper_core::noise::{DeadGenerator, FreshKeyError, Key};
///
/// let mut bytes = [7; 32];
/// let key = Key::from_bytes(&mut bytes);
/// assert_eq!(bytes, [0; 32], "only the key has them now");
/// // One secret for many runs.
/// let run = Key::derive(&key, 1);
///
/// // A generator that counts stands for true randomness here. One that repeats its words is refused.
/// let mut count = 0u8;
/// let fresh = Key::fresh(|bytes| {
///     bytes.fill_with(|| { count += 1; count });
///     Ok::<(), ()>(())
/// });
/// assert!(fresh.is_ok());
/// assert!(matches!(Key::fresh(|bytes| { bytes.fill(7); Ok::<(), ()>(()) }), Err(FreshKeyError::Dead)));
/// assert!(matches!(Key::from_draws(&mut [[0; 32]; 2]), Err(DeadGenerator)));
/// ```
pub struct Key(pub(super) [u32; 8]);

impl Key {
    /// Creates a key from 32 bytes of true randomness, of the operating system or of a hardware generator. Erases
    /// `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &mut [u8; 32]) -> Self {
        let key = Self::of(bytes);
        for byte in bytes.iter_mut() {
            // Byte by byte: on boards, `fill` would link 208 bytes of code that nothing else uses.
            *byte = 0;
            optimization_barrier(byte);
        }
        key
    }

    /// Creates a key from a generator of true randomness, of the operating system or of the chip. `fill` writes 32
    /// bytes. It is called twice, and the draws must differ ([`from_draws`](Self::from_draws)).
    ///
    /// # Errors
    ///
    /// Fails if `fill` fails, or if the generator is dead.
    pub fn fresh<E>(mut fill: impl FnMut(&mut [u8; 32]) -> Result<(), E>) -> Result<Self, FreshKeyError<E>> {
        let mut draws = [[0; 32]; 2];
        let filled = draws.iter_mut().try_for_each(&mut fill);
        // Even if `fill` failed halfway, because this erases the bytes.
        let key = Self::from_draws(&mut draws);
        filled.map_err(FreshKeyError::Fill)?;
        key.map_err(|DeadGenerator| FreshKeyError::Dead)
    }

    /// Creates a key from two draws of one generator of true randomness: the first is the key. For a generator that
    /// [`fresh`](Self::fresh) cannot call, such as an asynchronous driver. Fill `draws` with zeros before the draws.
    /// Erases them.
    ///
    /// # Errors
    ///
    /// Fails if the generator is dead. That is so if two of the sixteen 32-bit words of the draws are equal, or if one
    /// is 0, as are words that nobody wrote. True randomness fails this test by chance once in 30 million keys.
    ///
    /// **The test does not find** a generator that leaves single bytes unwritten, one of little entropy, or one that
    /// gives the same words at each boot. Only its own health tests find those.
    pub fn from_draws(draws: &mut [[u8; 32]; 2]) -> Result<Self, DeadGenerator> {
        let [first, second] = draws;
        let (first, second) = (Self::from_bytes(first), Self::from_bytes(second));
        let words = first.0.iter().chain(&second.0).chain(&[0]);
        let later = |at: usize| words.clone().skip(at).skip(1);
        // No early exit: all pairs are compared, whatever the words are.
        let dead = words
            .clone()
            .enumerate()
            .fold(false, |dead, (at, one)| later(at).fold(dead, |dead, other| dead | (one == other)));
        if dead { Err(DeadGenerator) } else { Ok(first) }
    }

    pub(super) fn of(bytes: &[u8; 32]) -> Self {
        let mut key = Self([0; 8]);
        for (word, bytes) in key.0.iter_mut().zip(bytes.chunks_exact(4)) {
            // Little-endian: the last byte is the highest.
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        key
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        erase(&mut self.0);
    }
}

/// The generator's words repeat or are 0 ([`Key::from_draws`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DeadGenerator;

impl fmt::Display for DeadGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the random generator is dead: its words repeat or are 0")
    }
}

impl core::error::Error for DeadGenerator {}

/// Error of [`Key::fresh`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum FreshKeyError<E> {
    /// The caller's function failed.
    Fill(E),
    /// It succeeded, but the generator is dead ([`DeadGenerator`]).
    Dead,
}

impl<E: fmt::Display> fmt::Display for FreshKeyError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fill(error) => error.fmt(f),
            Self::Dead => DeadGenerator.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for FreshKeyError<E> {}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    /// A generator that never repeats: SplitMix64's constant, added at each byte.
    fn live(state: &mut u64) -> impl FnMut(&mut [u8; 32]) -> Result<(), Infallible> {
        move |bytes| {
            for byte in bytes {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                *byte = ((*state ^ *state >> 31).wrapping_mul(0x94d0_49bb_1331_11eb) >> 56) as u8;
            }
            Ok(())
        }
    }

    #[test]
    fn fresh_key_is_first_draw() {
        let (mut first, mut state) = ([0; 32], 1);
        live(&mut state)(&mut first).unwrap();
        let key = Key::fresh(live(&mut 1)).map(|key| key.0);
        assert_eq!(key, Ok(Key::of(&first).0));
        assert_eq!(Key::fresh(|_| Err(3)).map(|key| key.0), Err(FreshKeyError::Fill(3)));
    }

    #[test]
    fn second_failure_gives_no_key() {
        let (mut calls, mut state) = (0, 1);
        let mut fill = live(&mut state);
        let key = Key::fresh(|bytes| {
            calls += 1;
            fill(bytes).unwrap();
            if calls == 2 { Err("no clock") } else { Ok(()) }
        });
        assert_eq!((key.map(|key| key.0), calls), (Err(FreshKeyError::Fill("no clock")), 2));
    }

    #[test]
    fn dead_generators_give_no_key() {
        // Each overwrites a live draw: number of the draw, then its bytes.
        let faults: [fn(usize, &mut [u8; 32]); 13] = [
            |_, bytes| bytes.fill(0),
            |_, bytes| bytes.fill(0xff),
            |_, bytes| bytes.fill(7),
            // A status register, read instead of the data: other words in each draw, the same within one.
            |draw, bytes| bytes.fill(draw as u8),
            // It writes one word of each draw, all but one, or half.
            |_, bytes| bytes[4..].fill(0),
            |_, bytes| bytes[28..].fill(0),
            |_, bytes| bytes[16..].fill(0),
            // One draw alone lacks a word.
            |draw, bytes| bytes[if draw == 0 { 28 } else { 32 }..].fill(0),
            // The same draw again: a generator that starts from its seed at each call.
            |_, bytes| live(&mut 5)(bytes).unwrap(),
            // It died in the middle of the second draw.
            |draw, bytes| bytes[if draw == 1 { 20 } else { 32 }..].fill(9),
            // 8 bytes, or 16, that fill a draw.
            |_, bytes| (8..32).for_each(|at| bytes[at] = bytes[at - 8]),
            |_, bytes| bytes.copy_within(..16, 16),
            // Three words again and again, over both draws.
            |draw, bytes| (0..32).for_each(|at| bytes[at] = ((32 * draw + at) % 12) as u8 + 1),
        ];
        for (number, fault) in faults.iter().enumerate() {
            let (mut draw, mut state) = (0, 1);
            let mut fill = live(&mut state);
            let key = Key::fresh(|bytes| {
                let _ = fill(bytes);
                fault(draw, bytes);
                draw += 1;
                Ok::<_, Infallible>(())
            });
            assert_eq!(key.map(|key| key.0), Err(FreshKeyError::Dead), "fault {number}");
        }
        assert_eq!(Key::fresh(|_| Ok::<_, Infallible>(())).map(|key| key.0), Err(FreshKeyError::Dead));
    }

    /// Two live draws, after `change`. Returns the result for them, and whether they were erased.
    fn changed(change: impl FnOnce(&mut [u8])) -> (Result<[u32; 8], DeadGenerator>, bool) {
        let (mut draws, mut state) = ([[0; 32]; 2], 1);
        let mut fill = live(&mut state);
        draws.iter_mut().try_for_each(&mut fill).unwrap();
        change(draws.as_flattened_mut());
        let key = Key::from_draws(&mut draws).map(|key| key.0);
        (key, draws == [[0; 32]; 2])
    }

    #[test]
    fn every_pair_of_words_is_compared() {
        assert!(matches!(changed(|_| ()), (Ok(_), true)));
        for one in 0..16 {
            assert_eq!(changed(|bytes| bytes[4 * one..][..4].fill(0)), (Err(DeadGenerator), true), "{one}");
            for other in 0..one {
                let equal = changed(|bytes| bytes.copy_within(4 * one..4 * one + 4, 4 * other));
                assert_eq!(equal, (Err(DeadGenerator), true), "{one} and {other}");
            }
        }
    }
}
