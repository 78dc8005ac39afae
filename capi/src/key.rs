//! The secret from which all of a run's noise and draws follow.

use crate::border::{self, Settled};
use crate::run::{Head, OpenStep, Phase, Run};
use crate::status::{Answer, Status, status};
use damper_core::accounting::Rate;
use damper_core::error::CallError;
use damper_core::noise::{ChaCha20, Generator, Key, Xoshiro};
use damper_core::sampling::{PoissonDraw, poisson};

enum Any {
    ChaCha20(ChaCha20),
    Xoshiro(Xoshiro),
}

/// The samples that a step draws.
#[allow(clippy::large_enum_variant)] // One of them a run.
pub(crate) enum Draw {
    ChaCha20(PoissonDraw<'static, ChaCha20>),
    Xoshiro(PoissonDraw<'static, Xoshiro>),
}

/// A generator as functions of it: only who sets a generator names its functions. With another they do nothing.
struct Functions {
    draw: fn(&'static Any, u32, Rate, u32) -> Option<Draw>,
    next: fn(&mut Draw) -> Option<u32>,
    finish: fn(&Any, OpenStep<'_>, &mut [f32]) -> Result<(), CallError>,
    is_private: fn(&Any) -> bool,
}

macro_rules! functions {
    ($kind:ident) => {
        Functions {
            draw: |any, step, rate, samples| match any {
                Any::$kind(generator) => Some(Draw::$kind(poisson(generator, step, rate, samples))),
                _ => None,
            },
            next: |draw| match draw {
                Draw::$kind(draw) => draw.next(),
                _ => None,
            },
            finish: |any, open, params| match any {
                Any::$kind(generator) => open.finish(params, generator),
                _ => Err(CallError::Order("the functions of another generator")),
            },
            is_private: |any| matches!(any, Any::$kind(generator) if generator.is_private()),
        }
    };
}

static CHACHA20: Functions = functions!(ChaCha20);
static XOSHIRO: Functions = functions!(Xoshiro);

/// The generator of a run.
pub(crate) struct Source {
    any: Any,
    functions: &'static Functions,
}

impl Source {
    fn chacha20(generator: ChaCha20) -> Self {
        Self { any: Any::ChaCha20(generator), functions: &CHACHA20 }
    }

    /// The draw of a step.
    pub(crate) fn draw(&'static self, step: u32, rate: Rate, samples: u32) -> Option<Draw> {
        (self.functions.draw)(&self.any, step, rate, samples)
    }

    /// The next sample of a draw.
    pub(crate) fn next(&self, draw: &mut Draw) -> Option<u32> {
        (self.functions.next)(draw)
    }

    /// Releases a step.
    pub(crate) fn finish(&self, open: OpenStep<'_>, params: &mut [f32]) -> Result<(), CallError> {
        (self.functions.finish)(&self.any, open, params)
    }
}

unsafe fn set(run: *mut Run, make: impl FnOnce(&Head) -> Answer<Source>) -> Answer {
    // SAFETY: the caller's contract.
    let idle = unsafe { border::idle(run, Phase::Choosing) }?;
    idle.body.generator = Some(make(idle.head)?);
    Ok(())
}

/// Copies the key of a private run, the 32 bytes at `key`: true randomness for this run alone: after a restart the
/// same, for the ledger's numbers say which of its noise was used. It is as secret as the data. `damper_run_close`
/// wipes the run's copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_key(run: *mut Run, key: *const u8) -> Status {
    let make = |head: &Head| {
        // SAFETY: the contract of the header.
        let key = unsafe { border::lend::<[u8; 32]>(head, key.cast()) }?;
        Ok(Source::chacha20(ChaCha20::private(Key::from_bytes(key))))
    };
    // SAFETY: the contract of the header.
    status(unsafe { set(run, make) })
}

/// Makes the run a simulation: the seed is known, so nothing that it releases is private.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_simulation_seed(run: *mut Run, seed: u64) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { set(run, |_| Ok(Source::chacha20(ChaCha20::simulation(seed)))) })
}

/// As `damper_set_simulation_seed`, by a generator that is faster and not cryptographic, with other noise and draws.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_set_fast_simulation_seed(run: *mut Run, seed: u64) -> Status {
    let source = Source { any: Any::Xoshiro(Xoshiro::simulation(seed)), functions: &XOSHIRO };
    // SAFETY: the contract of the header.
    status(unsafe { set(run, |_| Ok(source)) })
}

/// Writes 1 where the run has a key, and 0 where it is a simulation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_is_private(run: *mut Run, is_private: *mut u32) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { border::settled(run) }.and_then(|Settled { head, body, .. }| {
        let generator = body.generator.as_ref().ok_or(Status::NoKey)?;
        // SAFETY: the contract of the header.
        unsafe { border::write(head, is_private, u32::from((generator.functions.is_private)(&generator.any))) }
    });
    status(answer)
}
