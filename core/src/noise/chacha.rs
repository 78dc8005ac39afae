//! ChaCha20 (RFC 8439), the random generator of private runs.
//!
//! # Memory
//!
//! A stream takes `64·BLOCKS` bytes of buffer and 16 bytes of state. The key stays in the generator. `BLOCKS` affects
//! only the speed (1 on devices, 16 with SIMD). The words and their order do not depend on it.
//!
//! # Timing
//!
//! Additions, rotations and exclusive-ors take a time that does not depend on key or words. The number of drawn words
//! determines when the buffer is refilled.

use super::erase::erase;
use super::generator::{Address, Generator, Purpose};
use super::key::Key;
use super::sealed;
use core::convert::Infallible;
use damper_access::Unreleased;

/// Addressed generator over ChaCha20. `BLOCKS` is the number of 64-byte blocks that it computes at once.
///
/// ```
/// use damper_core::noise::{Address, ChaCha20, Generator as _, Purpose};
/// use rand_core::Rng as _;
///
/// // The number of blocks at once changes the speed and no bit.
/// let (one, four) = (ChaCha20::<1>::simulation(1), ChaCha20::<4>::simulation(1));
/// let address = Address { purpose: Purpose::GradientNoise, step: 0, chunk: 0 };
/// assert_eq!(one.stream(address).next_u64(), four.stream(address).next_u64());
/// ```
pub struct ChaCha20<const BLOCKS: usize = 1> {
    key: Key,
    private: bool,
}

impl<const BLOCKS: usize> ChaCha20<BLOCKS> {
    /// Creates the generator of a private run. `key` must be secret, truly random, and used for this run only.
    #[must_use]
    pub fn from_key(key: Key) -> Self {
        // Copied, not moved. Dropping `key` here erases its original memory.
        Self { key: Key(key.0), private: true }
    }

    /// Creates the generator of a **simulation**. The seed is public, so its output is not private.
    #[must_use]
    pub fn simulation(seed: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = seed.to_le_bytes();
        let mut key = *b"________ damper: not private key";
        let (head, _) = key.split_at_mut(8);
        head.copy_from_slice(&[a, b, c, d, e, f, g, h]);
        Self { key: Key::of(&key), private: false }
    }

    /// Returns the words of the key, for a device that draws the same noise. The caller must erase every copy.
    ///
    /// ```
    /// use damper_access::Unreleased;
    /// use damper_core::noise::{Key, NoiseRng};
    ///
    /// let generator = NoiseRng::from_key(Key::from_bytes(&mut [1; 32]));
    /// assert_eq!(generator.key_words(Unreleased::claim()), &[0x0101_0101; 8]);
    /// ```
    #[must_use]
    pub fn key_words(&self, _: Unreleased) -> &[u32; 8] {
        &self.key.0
    }
}

impl Key {
    /// Derives the key of run number `run`, for a device that stores one secret. The key is the first 32 bytes of
    /// ChaCha20's stream under the secret, at an address of its own. Keys of different runs are independent of each
    /// other, and reveal nothing about the secret.
    ///
    /// Use each run number once, except to continue a run with its ledger. Two ledgers under one key give the same step
    /// numbers.
    #[must_use]
    pub fn derive(secret: &Self, run: u64) -> Self {
        let generator = ChaCha20::<1>::from_key(Self(secret.0));
        let mut stream =
            generator.stream(Address { purpose: Purpose::RunKey, step: run as u32, chunk: (run >> 32) as u32 });
        let mut key = Self([0; 8]);
        key.0.fill_with(|| stream.next_word());
        key
    }
}

impl<const BLOCKS: usize> sealed::Sealed for ChaCha20<BLOCKS> {}

impl<const BLOCKS: usize> Generator for ChaCha20<BLOCKS> {
    type Stream<'a> = Stream<'a, BLOCKS>;

    fn is_private(&self) -> bool {
        self.private
    }

    // Not inlined on small targets, to save flash.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn stream(&self, address: Address) -> Stream<'_, BLOCKS> {
        Stream {
            key: &self.key,
            place: [0, address.purpose as u32, address.step, address.chunk],
            buffer: [[0; BLOCKS]; 16],
            next: 16 * BLOCKS,
        }
    }
}

/// "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Random words at one address, in the order of RFC 8439's key stream read as little-endian `u32`.
///
/// Dropping it erases its buffer. The buffer is the only copy of the key that it makes.
///
/// ```
/// use damper_core::noise::{Address, ChaCha20, Generator as _, Purpose, Stream};
/// use rand_core::Rng as _;
///
/// let generator = ChaCha20::<1>::simulation(1);
/// let mut stream: Stream<'_, 1> = generator.stream(Address { purpose: Purpose::Audit, step: 0, chunk: 0 });
/// let first = stream.next_u32();
/// assert!(stream.next_u32() != first);
/// ```
pub struct Stream<'a, const BLOCKS: usize> {
    key: &'a Key,
    /// Number of the next block, then the address: the last four words of a block's initial state.
    place: [u32; 4],
    /// Word `w` of block `b` is `buffer[w][b]`, so one SIMD instruction processes several blocks.
    buffer: [[u32; BLOCKS]; 16],
    /// Number of words taken from the buffer.
    next: usize,
}

impl<const BLOCKS: usize> Stream<'_, BLOCKS> {
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn next_word(&mut self) -> u32 {
        if self.next == 16 * BLOCKS {
            self.refill();
        }
        let (word, block) = (self.next % 16, self.next / 16 % BLOCKS);
        self.next += 1;
        self.buffer.get(word).and_then(|row| row.get(block)).copied().unwrap_or_default()
    }

    // Not inlined, so that taking a word from the buffer stays a few instructions.
    #[inline(never)]
    fn refill(&mut self) {
        let Self { key: Key(key), place, buffer, .. } = self;
        each(buffer, key, place, |word, start| *word = start);
        count(&mut buffer[12]);
        let [x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf] = &mut *buffer;
        for _ in 0..10 {
            quarter(x0, x4, x8, xc);
            quarter(x1, x5, x9, xd);
            quarter(x2, x6, xa, xe);
            quarter(x3, x7, xb, xf);
            quarter(x0, x5, xa, xf);
            quarter(x1, x6, xb, xc);
            quarter(x2, x7, x8, xd);
            quarter(x3, x4, x9, xe);
        }
        each(buffer, key, place, |word, start| *word = word.wrapping_add(start));
        count(&mut buffer[12]);
        place[0] = place[0].wrapping_add(BLOCKS as u32);
        self.next = 0;
    }
}

/// Applies `to` to each row's words and their initial value: the constants, the key, then the address.
#[inline(always)]
fn each<const BLOCKS: usize>(
    buffer: &mut [[u32; BLOCKS]; 16],
    key: &[u32; 8],
    place: &[u32; 4],
    to: impl Fn(&mut u32, u32),
) {
    let (constants, rest) = buffer.split_at_mut(4);
    let (keys, places) = rest.split_at_mut(8);
    rows(constants, &CONSTANTS, &to);
    rows(keys, key, &to);
    rows(places, place, &to);
}

/// Applies `to` to some rows, as [`each`] does.
#[inline(always)]
fn rows<const BLOCKS: usize>(rows: &mut [[u32; BLOCKS]], starts: &[u32], to: impl Fn(&mut u32, u32)) {
    for (row, start) in rows.iter_mut().zip(starts) {
        row.iter_mut().for_each(|word| to(word, *start));
    }
}

/// Adds the index of each block to its counter.
fn count<const BLOCKS: usize>(counters: &mut [u32; BLOCKS]) {
    for (block, counter) in counters.iter_mut().enumerate() {
        *counter = counter.wrapping_add(block as u32);
    }
}

/// Smallest `BLOCKS` for which a quarter round is a SIMD loop. The compiler vectorises it only in a separate function.
const WIDE: usize = 16;

/// Computes the quarter round on four rows.
#[inline(always)]
fn quarter<const BLOCKS: usize>(
    a: &mut [u32; BLOCKS],
    b: &mut [u32; BLOCKS],
    c: &mut [u32; BLOCKS],
    d: &mut [u32; BLOCKS],
) {
    if BLOCKS < WIDE { quarter_of_each(a, b, c, d) } else { quarter_of_vectors(a, b, c, d) }
}

#[inline(never)]
fn quarter_of_vectors<const BLOCKS: usize>(
    a: &mut [u32; BLOCKS],
    b: &mut [u32; BLOCKS],
    c: &mut [u32; BLOCKS],
    d: &mut [u32; BLOCKS],
) {
    quarter_of_each(a, b, c, d);
}

#[inline(always)]
fn quarter_of_each<const BLOCKS: usize>(
    a: &mut [u32; BLOCKS],
    b: &mut [u32; BLOCKS],
    c: &mut [u32; BLOCKS],
    d: &mut [u32; BLOCKS],
) {
    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d) {
        let (mut w, mut x, mut y, mut z) = (*a, *b, *c, *d);
        w = w.wrapping_add(x);
        z = (z ^ w).rotate_left(16);
        y = y.wrapping_add(z);
        x = (x ^ y).rotate_left(12);
        w = w.wrapping_add(x);
        z = (z ^ w).rotate_left(8);
        y = y.wrapping_add(z);
        x = (x ^ y).rotate_left(7);
        (*a, *b, *c, *d) = (w, x, y, z);
    }
}

impl<const BLOCKS: usize> Drop for Stream<'_, BLOCKS> {
    fn drop(&mut self) {
        erase(self.buffer.as_flattened_mut());
    }
}

impl<const BLOCKS: usize> rand_core::TryRng for Stream<'_, BLOCKS> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.next_word())
    }

    /// The first word is the low half.
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let low = u64::from(self.next_word());
        Ok(low | u64::from(self.next_word()) << 32)
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for chunk in dst.chunks_mut(4) {
            for (byte, word) in chunk.iter_mut().zip(self.next_word().to_le_bytes()) {
                *byte = word;
            }
        }
        Ok(())
    }
}

impl<const BLOCKS: usize> rand_core::TryCryptoRng for Stream<'_, BLOCKS> {}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    // The block equals the test vector of RFC 8439, section 2.3.2.
    #[test]
    fn block_matches_rfc_8439() {
        // The vector has nonce 00:00:00:09 00:00:00:4a 00:00:00:00 and counter 1, so it is the second block of such a
        // stream.
        let mut key = [0; 32];
        for (i, byte) in key.iter_mut().enumerate() {
            *byte = i as u8;
        }
        let generator = ChaCha20::<1>::from_key(Key::from_bytes(&mut key));
        let mut stream = generator.stream(Address { purpose: Purpose::GradientNoise, step: 0x4a00_0000, chunk: 0 });
        stream.place[1] = 0x0900_0000;
        for _ in 0..16 {
            stream.next_u32();
        }
        let expected = [
            0xe4e7_f110_u32,
            0x1559_3bd1,
            0x1fdd_0f50,
            0xc471_20a3,
            0xc7f4_d1c7,
            0x0368_c033,
            0x9aaa_2204,
            0x4e6c_d4c3,
            0x4664_82d2,
            0x09aa_9f07,
            0x05d7_c214,
            0xa202_8bd9,
            0xd19c_12b5,
            0xb94e_16de,
            0xe883_d0cb,
            0x4e3c_50a2,
        ];
        for word in expected {
            assert_eq!(stream.next_u32(), word);
        }
    }

    /// First block of RFC 8439 at counter 0 and nonce (8, low half, high half), computed by another program.
    #[test]
    fn derived_key_is_chacha20_of_the_run() {
        let mut secret = [0; 32];
        for (i, byte) in secret.iter_mut().enumerate() {
            *byte = i as u8;
        }
        let key = Key::derive(&Key::from_bytes(&mut secret), 0x0123_4567_89ab_cdef);
        let expected =
            [0x71d1_f46f, 0xd0d8_7a07, 0x77a5_7198, 0x15ab_7142, 0x414a_e0dd, 0x7622_8b89, 0xbe0e_cb77, 0x06be_d121];
        assert_eq!(key.0, expected);
    }

    // The words of the key give the same stream in another generator.
    #[test]
    fn key_words_are_those_of_the_key() {
        let mut bytes = core::array::from_fn(|i| i as u8);
        let generator = ChaCha20::<1>::from_key(Key::from_bytes(&mut bytes));
        assert_eq!(generator.key_words(Unreleased::claim())[..2], [0x0302_0100, 0x0706_0504]);
    }

    // The number of blocks computed at once does not change the stream.
    #[test]
    fn block_count_keeps_stream() {
        let address = Address { purpose: Purpose::Sampling, step: 7, chunk: 3 };
        let (one, four, sixteen) =
            (ChaCha20::<1>::simulation(5), ChaCha20::<4>::simulation(5), ChaCha20::<16>::simulation(5));
        let (mut one, mut four, mut sixteen) = (one.stream(address), four.stream(address), sixteen.stream(address));
        for _ in 0..1000 {
            let word = one.next_u32();
            assert_eq!(word, four.next_u32());
            assert_eq!(word, sixteen.next_u32());
        }
    }
}
