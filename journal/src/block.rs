//! A block of 32 bytes of flash that detects damage: seven little-endian words and their CRC-32.
//!
//! CRC-32 (IEEE 802.3) detects every change of up to five bits in a block, and every burst of up to 32 bits. It is
//! computed bit by bit: a table would cost flash, and the speed is not needed.

use crate::Configuration;
use embedded_storage::nor_flash::NorFlash;

/// Bytes of a block. Writes and reads are whole blocks, aligned to their size.
pub(crate) const BYTES: u32 = 32;

/// The content of a block: its kind, a number, the fingerprint (low word first), and three further words.
pub(crate) type Words = [u32; 7];

/// The state of the flash at the position of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    /// Every bit is 1: erased.
    Blank,
    /// A valid block.
    Whole(Words),
    /// Any other content: an interrupted write, decay, foreign data, or a word that the flash cannot read.
    Damaged,
}

/// Returns true if blocks fit the words of a flash.
pub(crate) const fn fits<F: NorFlash>() -> bool {
    let bytes = BYTES as usize;
    F::WRITE_SIZE != 0 && F::READ_SIZE != 0 && bytes.is_multiple_of(F::WRITE_SIZE) && bytes.is_multiple_of(F::READ_SIZE)
}

/// Reads the block at `at`.
pub(crate) fn read<F: NorFlash>(flash: &mut F, at: u32) -> Block {
    let mut bytes = [[0; 4]; 8];
    if flash.read(at, bytes.as_flattened_mut()).is_err() {
        return Block::Damaged;
    }
    let words = bytes.map(u32::from_le_bytes);
    if words.iter().all(|word| *word == u32::MAX) {
        return Block::Blank;
    }
    let [a, b, c, d, e, f, g, check] = words;
    let words = [a, b, c, d, e, f, g];
    if crc(&words) == check { Block::Whole(words) } else { Block::Damaged }
}

/// Writes a block to `at`, which is erased. [`read`] checks the result.
pub(crate) fn write<F: NorFlash>(flash: &mut F, at: u32, words: &Words) -> Result<(), F::Error> {
    let [a, b, c, d, e, f, g] = *words;
    flash.write(at, [a, b, c, d, e, f, g, crc(words)].map(u32::to_le_bytes).as_flattened())
}

/// The first four words of a block of this kind and number.
pub(crate) fn head(kind: u32, number: u32, run: &Configuration) -> [u32; 4] {
    [kind, number, run.fingerprint() as u32, (run.fingerprint() >> 32) as u32]
}

fn crc(words: &[u32]) -> u32 {
    !words.iter().fold(!0, |crc, word| crc_of(crc, *word))
}

/// Updates a CRC-32, before its final inversion, with the four bytes of one more word, the lowest first.
pub(crate) fn crc_of(crc: u32, word: u32) -> u32 {
    (0..32).fold(crc ^ word, |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_is_crc_32() {
        // Reference value of another program, over the words' little-endian bytes.
        assert_eq!(crc(&[1, 2, 3, 4, 5, 6, 7]), 0xe07d_0198);
    }

    // Every change of up to three bits is detected.
    #[test]
    fn detects_up_to_three_bit_flips() {
        let words = [0x6a6e_6c31, 17, 0x89ab_cdef, 0x0123_4567, 0, 0x3ff0_0000, 18];
        let whole = crc(&words);
        // A CRC is linear: detection depends on the error pattern alone, not on the words.
        let syndromes: std::vec::Vec<u32> = (0..256)
            .map(|bit| {
                let mut flipped = words;
                if let Some(word) = flipped.get_mut(bit / 32) {
                    *word ^= 1 << (bit % 32);
                }
                crc(&flipped) ^ whole ^ if bit < 224 { 0 } else { 1 << (bit % 32) }
            })
            .collect();
        let singles: std::collections::HashSet<u32> = syndromes.iter().copied().collect();
        assert!(singles.len() == 256 && !singles.contains(&0));
        for (i, a) in syndromes.iter().enumerate() {
            assert!(syndromes.iter().take(i).all(|b| !singles.contains(&(a ^ b))), "three bits, one of them {i}");
        }
    }
}
