//! A key from the ring oscillator, the chip's only source: **not a true random generator**. Its vendor calls the bit
//! not suitable for cryptography. It is a clock sampled by another, so bits that are read fast are correlated. Anybody
//! who heats, cools or supplies the chip can increase the correlation.
//!
//! As a countermeasure, SHA-256 condenses 8192 bits, read with a pause after every eight, to 256. A thirty-second of a
//! bit of entropy in each would be enough. The repetition count test of SP 800-90B (4.4.1) refuses an oscillator that
//! stands still or is locked. Nobody has assessed the entropy of a bit. A product takes its key from elsewhere: a
//! secure element, or a secret written in the factory, by `Key::derive`.

use embassy_rp::clocks::RoscRng;
use sha2::{Digest, Sha256};

const BITS: u32 = 8192;
/// Equal bits in a row that end the fill. A source of a sixteenth of a bit each reaches it once in 2⁴⁰: 1 + 40 · 16.
const CUTOFF: u32 = 641;

/// Error: the oscillator stands still, or is locked to the clock that samples it.
pub struct Stuck;

/// Fills a key's bytes.
pub fn fill(bytes: &mut [u8; 32]) -> Result<(), Stuck> {
    let mut hash = Sha256::new();
    let (mut last, mut run) = (2, 0);
    for _ in 0..BITS / 8 {
        let mut byte = RoscRng::next_u8();
        hash.update([byte]);
        for _ in 0..8 {
            (last, run) = if byte & 1 == last { (last, run + 1) } else { (byte & 1, 1) };
            byte >>= 1;
            if run >= CUTOFF {
                return Err(Stuck);
            }
        }
        // Lets the ring run between two bytes.
        cortex_m::asm::delay(512);
    }
    *bytes = hash.finalize().into();
    Ok(())
}
