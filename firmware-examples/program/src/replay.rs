//! The core's recorded vectors, played on the device, and what comes from elsewhere: a run that a host recorded.
//!
//! # Memory
//!
//! The base set 1.5 KB beside the stack of a step, the wide set 50 KB; elsewhere the caller's.

use core::fmt::Display;
use damper_core::replay::{BASE, Memory, Source, WIDE, play};

/// Plays the set that runs everywhere; whether everything is the same. Every line goes to `say`.
pub fn base(say: impl FnMut(&dyn Display)) -> bool {
    let (mut floats, mut narrow, mut wide) = ([0.0; 256], [0; 40], [0; 40]);
    from(&mut &BASE[..], Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide }, say)
}

/// Plays the set of long vectors.
pub fn wide(say: impl FnMut(&dyn Display)) -> bool {
    let (mut floats, mut narrow) = ([0.0; 10_300], [0; 2_060]);
    from(&mut &WIDE[..], Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut [] }, say)
}

/// Plays a pack.
pub fn from<S: Source<Error: Display>>(pack: &mut S, memory: Memory<'_>, mut say: impl FnMut(&dyn Display)) -> bool {
    match play(pack, memory, |line| say(line)) {
        Ok(summary) => summary.differ == 0,
        Err(error) => {
            say(&error);
            false
        }
    }
}
