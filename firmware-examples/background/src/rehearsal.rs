//! Background task without a board: on a flash in RAM, next to another task, over two power cuts.

use crate::{BUDGET, Board, FirstBoot, TrainingFailure, bytes, train};
use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use damper_core::numerics::digest::Digest;
use damper_core::prelude::NoiseRng;
use damper_firmware_program::flash::{Ram, SECTOR};
use embassy_futures::select::{Either, select};
use embassy_futures::{block_on, yield_now};
use embedded_hal_async::delay::DelayNs;

/// Bytes of the flash.
pub const FLASH: usize = bytes::<Ram<'static>>() + SECTOR;

/// A delay that takes one poll a millisecond.
struct Polls;

impl DelayNs for Polls {
    async fn delay_ns(&mut self, ns: u32) {
        for _ in 0..ns / 1_000_000 {
            yield_now().await;
        }
    }
}

/// End of a session.
enum End {
    /// The power was lost after this number of turns of the other task.
    Cut(u32),
    /// Training ended with this digest of the parameters, after this number of steps were released in this session.
    Trained(Result<u64, TrainingFailure<Infallible>>, u32),
}

/// Runs from power on until `cut` returns true for (steps released in this session, turns of the other task since), or
/// until the budget is spent.
fn session(flash: &RefCell<Ram<'_>>, first_boot: Option<FirstBoot>, cut: impl Fn(u32, u32) -> bool) -> End {
    let (released, turns, since) = (Cell::new(0), Cell::new(0), Cell::new(0));
    // A board: `NoiseRng::from_key(Key::fresh(...))`, from its true random generator.
    let noise = NoiseRng::simulation(2026);
    let board = Board { flash, from: SECTOR as u32, noise: &noise, first_boot, delay: Polls, clock: || 0 };
    let training = train(board, |_| {
        released.set(released.get() + 1);
        since.set(0);
    });
    let other = async {
        while !cut(released.get(), since.get()) {
            turns.set(turns.get() + 1);
            since.set(since.get() + 1);
            yield_now().await;
        }
    };
    match block_on(select(training, other)) {
        Either::First(result) => End::Trained(result.map(|params| Digest::of(&params).value()), released.get()),
        Either::Second(()) => End::Cut(turns.get()),
    }
}

/// Trains over power cuts at `cuts` as in [`session`]. Returns the digest of the parameters and the steps released, or
/// `None` if any result is wrong.
fn over(cuts: &[fn(u32, u32) -> bool], bytes: &mut [u8]) -> Option<(u64, u32)> {
    let flash = RefCell::new(Ram(bytes));
    // Without the owner's confirmation the task does not train on a blank flash.
    let End::Trained(Err(TrainingFailure::Journal(damper_journal::JournalError::Blank)), 0) =
        session(&flash, None, |_, _| false)
    else {
        return None;
    };
    let mut owner = Some(FirstBoot::confirmed_by_owner());
    for cut in cuts {
        match session(&flash, owner.take(), cut) {
            End::Cut(turns) if turns > BUDGET => {}
            _ => return None,
        }
    }
    match session(&flash, owner, |_, _| false) {
        End::Trained(Ok(params), released) => Some((params, released)),
        _ => None,
    }
}

/// Returns true if the task trains next to another task. Cut while it sleeps, it must end with the parameters of
/// `train`. Cut within a step, it must burn that step. `flash` has [`FLASH`] bytes, and is erased.
#[must_use]
pub fn run(flash: &mut [u8]) -> bool {
    /// The last line of `expected/train.txt`.
    const PARAMS: u64 = 0x29ec_3622_cabe_13b3;
    flash.fill(0xff);
    // The sleep takes a thousand turns. Both cuts are in it, and the rest of the budget is released.
    let asleep = over(&[|released, since| released == 13 && since == 7, |released, _| released == 5], flash);
    flash.fill(0xff);
    // A batch has more than 30 samples, so this cut is within a step.
    let within = over(&[|released, since| released == 13 && since == 1030], flash);
    asleep == Some((PARAMS, BUDGET - 18))
        && within.is_some_and(|(params, released)| released == BUDGET - 14 && params != PARAMS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn trains_beside_another_task_over_power_cuts() {
        assert!(super::run(&mut [0; super::FLASH]));
    }
}
