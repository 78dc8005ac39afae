//! Replay: plays recorded vectors on the current target, and reports for each group whether the bits match.
//!
//! A **pack** has the expected results. For kernels (random words, noise, sampling, clipping, functions) these are all
//! values. For whole steps and runs they are checkpoints every few steps. A checkpoint has the digests of the
//! parameters and of the state of filter and optimizer, and the clip and the range of the coming step. So a mismatch of
//! a run is known to the steps between two checkpoints and the part.
//!
//! A run generates its samples from integers (see `samples.rs`), or has recorded samples: combined gradients bit for
//! bit, like a recorded run of a host. The independent generator in `core/src/vectors/generate` writes packs. A host
//! that records a run writes its pack.
//!
//! ```
//! use damper_core::private::SumWord;
//! use damper_replay::{Memory, play, BASE};
//!
//! let (mut narrow, mut wide, mut sums) = ([SumWord::ZERO; 256], [SumWord::ZERO; 256], [SumWord::ZERO; 256]);
//! let (floats, noise) = (&mut [0.0; 1024], &mut []);
//! let memory = Memory { floats, narrow: &mut narrow, wide: &mut wide, float_sums: &mut sums, noise };
//! let summary = play(&mut &BASE[..], memory, |line| println!("{line}")).unwrap();
//! assert_eq!(summary.differ, 0);
//! ```
//!
//! # A pack, byte for byte
//!
//! Numbers are little-endian, and floats are stored as their bits. A name is its length in a byte (at most 40), then
//! printable ASCII.
//!
//! ```text
//! pack      "DAMPER" u16:1 u32:CONTRACT name group... u8:0 u64:FNV-1a of all bytes before it
//! group     u8:1 name ADDRESS            u16:n n*(u32)                        random words
//!           u8:2 name ADDRESS u32:sigma  u16:n n*(i64)                        discrete Gaussian noise
//!           u8:3 name u64:seed u32:step u64:rate/2^53 u32:samples u16:n n*(u32)    the samples that are drawn, all of them
//!           u8:4 name GRAD f32                                                sum of squares
//!           u8:5 name u8:FUNCTION u16:n n*(arguments, values)
//!           u8:6 name CLIP u8:bits f32:C GRAD D*(i32) f32                     what a sample adds, and its norm (ffffffff: none)
//!           u8:7 name u8:bins f32:range u16:n n*(f32:norm u8:bin)
//!           u8:8 name ADDRESS f64:multiplier u16:n n*(f32 f32)                continuous Gaussian noise, of the clip 1
//!           u8:9 name ADDRESS            u16:n n*(u32)                        random words of xoshiro
//!           u8:10 name u8:SIDE u16:rank u16:P u16:G u16:R P*(f32) G*(f32) R*(f32) G*(f32)    coordinates, and the matrix from them
//!           u8:11 name u32:budget u32:reserved u16:n n*(u8:EVENT u32:NUMBER u32:persisted)    a ledger
//!           u8:12 name FILTER u64:budget u16:n n*(u8:EVENT u64:rate/2^53 f64:multiplier u32:NUMBER f64:spent)    a Rényi filter
//!           u8:16 name RUN
//!           u8:17 name FILTER u64:rate/2^53 RUN                               charged to a Rényi filter
//!           u8:18 name UPDATES
//! ADDRESS   u64:seed u8:purpose u32:step u32:chunk
//! GRAD      u16:D D*(f32)
//! SIDE      u8:0 (left) or 1
//! EVENT     u8:0 (a step is charged), 1 (the same, and the store fails) or 2 (a restart from what is persisted)
//! NUMBER    u32: of the step; ffffffff where it is refused, fffffffe where the store fails; after a restart the steps charged
//! FILTER    u32:order f64:epsilon f64:delta
//! FUNCTION  f32: 0 sqrt, 1 ln, 2 sin and cos, 7 exp, 8 +, 9 *, 10 /; f64: 3 sqrt, 4 exp, 5 cos, 6 pow, 11 to f32
//! RUN       u32:D u32:steps u16:every SAMPLES u32:expected batch MECHANISM CLIP THRESHOLD RELEASED OPTIMIZER SCHEDULE STEPS
//! SAMPLES   u8:0 u64:seed | u8:3 u64:seed                                       generated, in a simulation; clipped elsewhere
//!           u8:1 u64:seed | u8:2 32*u8:key                                    recorded, in a simulation or privately
//! MECHANISM u8:0 (sums of i32) or 1 (of i64) u8:bits u32:sigma | u8:2 f64:multiplier (continuous)
//!           | u8:3 (correlated, sums of i32) or 4 (of i64) u8:bits u32:sigma u32:separation u32:participations CORRELATION
//! CORRELATION u8:0 (lambda) u16:2 u32:P u32:q | u8:1 (BLT) u16:2*D D*(u32:theta*2^30) D*(u32:omega*2^30) | u8:2 (banded) u16:n
//!           n*(u32:coefficient*2^30)
//! CLIP      u8:0 (flat) or 1 f32:gamma (automatic), then u8:layers layers*(u32:length u32:share)
//! THRESHOLD u8:0 f32:C | u8:1 f64:fraction f64:noise f32:C f32:R BOUNDS | u8:2 (grid) or 3 (exact) f64:noise f32:C f32:R
//!           BOUNDS BOUNDS | u8:4 f64:quantile f64:rate f64:sigma_b f32:C BOUNDS
//! BOUNDS    f32:least f32:largest
//! RELEASED  u8:0 | u8:1 IIR | u8:2 (normalised) or 3 (plain) u8:iterates f64:beta IIR | u8:4 GAIN POINTS
//! IIR       u8:na u8:nb na*(f32) nb*(f32)
//! GAIN      u8:0 f64:kappa | u8:1 f64:noise f64:drift f64:process
//! POINTS    u8:1 | u8:2 f64:gamma
//! OPTIMIZER u8:0 (plain) or 1 (Nesterov) f32:momentum f32:decay | u8:2 (Adam) or 3 (both moments filtered) f64:beta1 f64:beta2
//!           f32:epsilon f64:decay | u8:4 (Adam-BC) or 5 (floor by noise) f64:beta1 f64:beta2 f32:floor f64:decay | u8:6 (AdaGrad)
//!           f32:epsilon f32:decay | u8:7 (RMSprop) f64:alpha f32:epsilon f32:decay
//!           | u8:8 (norm, raw) or 9 (noise subtracted) f64:b_0^2 f64:floor OPTIMIZER
//! SCHEDULE  f64:rate u32:warm-up DECAY NOISE
//! DECAY     u8:0 | u8:1 u32:every f64:factor | u8:2 (cosine) or 4 (root) u32:steps f64:floor | u8:3 f64:offset f64:slope
//! NOISE     u8:0 | u8:1 f64:exponent | u8:2 f64:growth f64:exponent
//! STEPS     recorded: D*(f32) parameters, then for each step u32:samples samples*(D*(f32)); CHECKPOINT after every steps and the last
//! CHECKPOINT u32:parameters, then of what has memory u16:filter u16:optimizer, unless the clip is fixed u16:threshold, and of a
//!           Rényi filter u16:payer
//! UPDATES   u64:run u64:device u32:D u32:rounds u16:every u64:seed u32:expected batch u8:bits u32:sigma CLIP f32:C, then
//!           u32 after every rounds and the last: the digest, folded, of all bytes that were emitted
//! ```
//!
//! The digests of checkpoints are [`Digest`](damper_core::numerics::digest::Digest)s, folded once or twice. Their
//! inputs are:
//!
//! - Threshold: the clip and the range of the coming step (0 without a histogram).
//! - Filter: `s_1 … s_K`, then in f64 those of the input 1, 1, … Per-sample momentum has the past iterates before it,
//!   the last first. DiSK has `g̃`, `d`, and `κ` of the coming step in f64.
//! - Optimizer: its vectors in the order of its page, then Adam's powers, or Adam-BC's `w₁ w₂ φ`. AdaGrad-norm's `a`
//!   precedes the inner optimizer's.
//! - Rényi filter: the spent divergence, an f64, and the charged steps, a u32.
//!
//! A step that is charged to a Rényi filter has noise of `f = 1 + w/8` times the mechanism's. Here `w` is the last
//! three bits of the first parameter. While the filter rejects the step, `f` is doubled, at most twice. A run ends at
//! the first step whose three factors are all rejected.
//!
//! # Memory
//!
//! The caller provides the memory (see [`Memory`]). Playing the base set takes 7 KB of stack on a Cortex-M0, its memory
//! included.
//!
//! # Privacy
//!
//! A recorded run has its samples' gradients and its key, so it is as secret as the data. The output has only digests
//! of released values.

#![no_std]
#![forbid(unsafe_code)]

mod compared;
mod error;
pub mod grammar;
mod kernel;
mod line;
mod mechanism;
mod memory;
mod pack;
mod run;
mod samples;
mod slots;
mod summary;
mod tracker;
mod update;

pub use error::{PackError, ReplayError};
pub use line::{KernelValue, Line, Mismatch, Part, Parts};
pub use memory::{Memory, MemoryPart};
pub use pack::{Name, Source, TruncatedPack};
pub use summary::Summary;

use damper_core::numerics::CONTRACT;
use grammar::{FILTERED, MAGIC, RUN, UPDATES, VERSION};
use pack::Reader;

/// The set for every target: kernels, whole steps, and 200 steps of every method under every mechanism, with 19
/// parameters.
pub static BASE: &[u8] = include_bytes!("vectors/base.pack");
/// The text that every target must print for [`BASE`].
pub static BASE_SAID: &str = include_str!("vectors/base.txt");
/// The other parts of the core: ledgers and Rényi filters, updates, other generators and mechanisms, and sums clipped
/// outside of the core.
pub static FURTHER: &[u8] = include_bytes!("vectors/further.pack");
/// The text that every target must print for [`FURTHER`].
pub static FURTHER_SAID: &str = include_str!("vectors/further.txt");
/// The set of long vectors: 200 steps of every method with 1,030 parameters, in 50 KB. The length crosses the
/// boundaries of blocks and chunks of coordinates.
pub static WIDE: &[u8] = include_bytes!("vectors/wide.pack");
/// The text that every target that plays [`WIDE`] must print.
pub static WIDE_SAID: &str = include_str!("vectors/wide.txt");

/// Plays a pack from its beginning to its end. `say` gets one line per group.
///
/// # Errors
///
/// The pack cannot be played to its end. A group that differs is not an error: [`Summary::differ`] counts it.
pub fn play<S: Source>(
    source: &mut S,
    memory: Memory<'_>,
    say: impl FnMut(&Line),
) -> Result<Summary, ReplayError<S::Error>> {
    play_any::<S, true, true>(source, memory, say)
}

/// As [`play`], for the kinds of groups in the base set (kinds 1 to 8 and 16, with samples and mechanisms of kinds 0 to
/// 2). A program that plays only these has no code for the others.
///
/// # Errors
///
/// As [`play`], and at any other group.
pub fn play_base<S: Source>(
    source: &mut S,
    memory: Memory<'_>,
    say: impl FnMut(&Line),
) -> Result<Summary, ReplayError<S::Error>> {
    play_any::<S, false, false>(source, memory, say)
}

/// As [`play`], without correlated noise (mechanisms of kinds 3 and 4), and without code for it.
///
/// # Errors
///
/// As [`play`], and at correlated noise.
pub fn play_independent<S: Source>(
    source: &mut S,
    memory: Memory<'_>,
    say: impl FnMut(&Line),
) -> Result<Summary, ReplayError<S::Error>> {
    play_any::<S, true, false>(source, memory, say)
}

/// Plays a pack. `ALL` enables groups outside the base set, except correlated noise, which `CORRELATED` enables.
fn play_any<S: Source, const ALL: bool, const CORRELATED: bool>(
    source: &mut S,
    memory: Memory<'_>,
    mut say: impl FnMut(&Line),
) -> Result<Summary, ReplayError<S::Error>> {
    let mut error = None;
    let mut read = |out: &mut [u8]| source.read(out).map_err(|failure| error = Some(failure)).is_ok();
    let played = play_groups::<ALL, CORRELATED>(&mut Reader::new(&mut read), memory, &mut say);
    match error {
        Some(error) => Err(ReplayError::Source(error)),
        None => played.map_err(ReplayError::Pack),
    }
}

fn play_groups<const ALL: bool, const CORRELATED: bool>(
    pack: &mut Reader<'_>,
    mut memory: Memory<'_>,
    say: &mut dyn FnMut(&Line),
) -> Result<Summary, PackError> {
    if pack.bytes() != MAGIC || pack.u16() != VERSION {
        return Err(PackError::NotAPack);
    }
    let contract = pack.u32();
    if contract != CONTRACT {
        return Err(PackError::Contract(contract));
    }
    let name = pack.name()?;
    if !pack.failed() {
        say(&Line::Set { name, contract });
    }
    let mut summary = Summary::default();
    loop {
        let kind = pack.u8();
        if kind == 0 {
            break;
        }
        let name = pack.name()?;
        let (line, differs) = match kind {
            RUN => {
                let run::Ended { steps, params, mismatch } = run::play::<ALL, CORRELATED>(pack, None, &mut memory)?;
                (Line::Run { name, steps, params, mismatch }, mismatch.is_some())
            }
            FILTERED if ALL => {
                let tracker = Some(tracker::BudgetTracker::filter(pack)?);
                let run::Ended { steps, params, mismatch } = run::play::<ALL, CORRELATED>(pack, tracker, &mut memory)?;
                (Line::Run { name, steps, params, mismatch }, mismatch.is_some())
            }
            UPDATES if ALL => {
                let update::Ended { rounds, bytes, mismatch } = update::play(pack, &mut memory)?;
                (Line::Updates { name, rounds, bytes, mismatch }, mismatch.is_some())
            }
            _ => {
                let compared::Compared { values, first } = kernel::play::<ALL>(kind, pack, &mut memory)?;
                (Line::Kernel { name, values, first }, first.is_some())
            }
        };
        if pack.failed() {
            break;
        }
        summary.groups += 1;
        summary.differ += u32::from(differs);
        say(&line);
    }
    pack.end()?;
    say(&Line::End(summary));
    Ok(summary)
}
