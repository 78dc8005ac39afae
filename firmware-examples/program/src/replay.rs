//! Plays the core's recorded vectors on the device, and a run that a host recorded.
//!
//! # Memory
//!
//! The base set and the further set take 1.5 KB besides the stack of a step, and the wide set 50 KB. A recorded run
//! uses the caller's memory.

use core::fmt::Display;
use damper_core::private::SumWord;
use damper_replay::{
    BASE, FURTHER, Line, Memory, ReplayError, Source, Summary, WIDE, play, play_base, play_independent,
};

/// Plays the set that runs everywhere. Returns true if everything is equal. Every line is passed to `say`.
pub fn base(mut say: impl FnMut(&dyn Display)) -> bool {
    let (mut floats, mut narrow, mut wide, mut float_sums) =
        ([0.0; 232], [SumWord::ZERO; 40], [SumWord::ZERO; 40], [SumWord::ZERO; 40]);
    let (float_sums, noise) = (&mut float_sums[..], &mut []);
    let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
    let played = play_base(&mut &BASE[..], memory, |line| say(line));
    all_same(played, &mut say)
}

/// Plays the set outside the base set.
pub fn further(mut say: impl FnMut(&dyn Display)) -> bool {
    let (mut floats, mut narrow, mut wide, mut float_sums) =
        ([0.0; 232], [SumWord::ZERO; 40], [SumWord::ZERO; 40], [SumWord::ZERO; 40]);
    let (float_sums, noise) = (&mut float_sums[..], &mut []);
    let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide, float_sums, noise };
    let played = play_independent(&mut &FURTHER[..], memory, |line| say(line));
    all_same(played, &mut say)
}

/// Plays the set of long vectors.
pub fn wide(mut say: impl FnMut(&dyn Display)) -> bool {
    let (mut floats, mut narrow, mut float_sums) = ([0.0; 8_240], [SumWord::ZERO; 2_060], [SumWord::ZERO; 2_060]);
    let (wide, noise) = (&mut [], &mut []);
    let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide, float_sums: &mut float_sums, noise };
    let played = play_independent(&mut &WIDE[..], memory, |line| say(line));
    all_same(played, &mut say)
}

/// Plays a run that a host recorded. The Cortex-M0, the only part without atomic exchange, has no stack for correlated
/// noise.
pub fn recorded<S: Source<Error: Display>>(
    pack: &mut S,
    memory: Memory<'_>,
    mut say: impl FnMut(&dyn Display),
) -> bool {
    let say_line = |line: &Line| say(line);
    let played =
        if cfg!(target_has_atomic = "32") { play(pack, memory, say_line) } else { play_base(pack, memory, say_line) };
    all_same(played, &mut say)
}

fn all_same<E: Display>(played: Result<Summary, ReplayError<E>>, say: &mut impl FnMut(&dyn Display)) -> bool {
    match played {
        Ok(summary) => summary.differ == 0,
        Err(error) => {
            say(&error);
            false
        }
    }
}
