//! One step of DP-SGD with momentum and exact noise, as in the image `step`, and its stack.

use crate::stack;
use core::hint::black_box;
use damper_core::accounting::{Ledger, Store, Volatile};
use damper_core::filter::Identity;
use damper_core::noise::ChaCha20;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::step::StepState;
use damper_firmware_program::flash::{Ram, SECTOR};
use damper_firmware_program::mark::{self, CountedRegion};
use damper_firmware_program::step::{self, DIM};
use damper_journal::{Configuration, FirstBoot, Journal};

type Step = step::With<Identity, Sgd>;

/// Returns the bytes of stack of open, one sample and finish, besides the caller's buffers. Returns `None` if the step
/// was refused or the stack must not be painted.
#[inline(never)]
fn with_store<S: Store>(region: CountedRegion, step: &Step, store: S) -> Option<usize> {
    let (mut sum, mut momentum, mut params, grad) = ([SumWord::ZERO; DIM], [0f32; DIM], [0f32; DIM], [0.25f32; DIM]);
    let generator = ChaCha20::<1>::simulation(black_box(7));
    let mut ledger = Ledger::resume(store, black_box(1), 0);
    let mut state =
        StepState::new(black_box(&mut sum[..]), (), SgdState { momentum: black_box(&mut momentum[..]) }, ());
    let mut done = false;
    let used = stack::of(|| {
        done = region.of(|| {
            let Ok(mut open) = step.open(&mut state, &mut ledger) else { return false };
            open.add_combined(&[black_box(&grad[..])]).is_ok()
                && open.finish(black_box(&mut params[..]), &generator).is_ok()
        });
    });
    black_box(&params);
    used.filter(|_| done)
}

/// Measures a step whose ledger is lost at a restart.
pub fn alone() -> Option<usize> {
    with_store(mark::STEP, &step::with_momentum()?, Volatile)
}

/// Measures a step with a ledger in flash.
pub fn with_journal() -> Option<usize> {
    let step = step::with_momentum()?;
    let run = Configuration::of_ledger(1, &step, DIM).with(b"costs");
    let mut flash = [0xff; 2 * SECTOR];
    let journal = Journal::provision(Ram(black_box(&mut flash)), run, FirstBoot::confirmed_by_owner()).ok()?;
    with_store(mark::JOURNAL, &step, journal)
}
