//! The core's recorded vectors, played on the device.
//!
//! # Memory
//!
//! The base set 1.5 KB beside the stack of a step, the wide set 50 KB.

use core::fmt::Display;
use damper_core::replay::{BASE, Memory, WIDE, play};

/// Plays the set that runs everywhere; whether everything is the same. Every line goes to `say`.
pub fn base(say: impl FnMut(&dyn Display)) -> bool {
    let (mut floats, mut narrow, mut wide) = ([0.0; 256], [0; 40], [0; 40]);
    run(BASE, Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide }, say)
}

/// Plays the set of long vectors.
pub fn wide(say: impl FnMut(&dyn Display)) -> bool {
    let (mut floats, mut narrow) = ([0.0; 10_300], [0; 2_060]);
    run(WIDE, Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut [] }, say)
}

fn run(mut pack: &[u8], memory: Memory<'_>, mut say: impl FnMut(&dyn Display)) -> bool {
    match play(&mut pack, memory, |line| say(line)) {
        Ok(summary) => summary.differ == 0,
        Err(error) => {
            say(&error);
            false
        }
    }
}
