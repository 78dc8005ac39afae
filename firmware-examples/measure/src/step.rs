//! One step of DP-SGD with momentum and exact noise, as the image `step` has it, and its stack.

use crate::mark::{self, Region};
use crate::stack;
use core::hint::black_box;
use damper_core::accounting::{Ledger, Store, Volatile};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_firmware_program::flash::{Ram, SECTOR};
use damper_journal::{Configuration, Journal};

const DIM: usize = 64;

/// Bytes of stack that open, one sample and finish need beside the caller's buffers; none where the step was refused or the
/// stack is not ours to paint.
#[inline(never)]
fn with_store<P: Store>(region: Region, store: &mut P) -> Option<usize> {
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(black_box(16)).ok()?, black_box(1.0)).ok()?,
        clip: FlatL2,
        threshold: Fixed(black_box(1.0)),
        filter: Identity,
        optimizer: Sgd::new(black_box(0.9), false, 0.0).ok()?,
        schedule: Constant(black_box(0.5)),
        expected_batch: black_box(60),
    })
    .ok()?;
    let (mut sum, mut momentum, mut params, grad) = ([0i32; DIM], [0f32; DIM], [0f32; DIM], [0.25f32; DIM]);
    let generator = ChaCha20::<1>::simulation(black_box(7));
    let mut ledger = Ledger::new(black_box(1));
    let mut state = StepState {
        sum: black_box(&mut sum[..]),
        filter: (),
        threshold: (),
        optimizer: SgdState { momentum: black_box(&mut momentum[..]) },
    };
    let mut done = false;
    let used = stack::of(|| {
        done = region.of(|| {
            let Ok(mut open) = step.open(&mut state, &mut ledger, store) else { return false };
            open.add_mixed(&[black_box(&grad[..])]).is_ok()
                && open.finish(black_box(&mut params[..]), &generator).is_ok()
        });
    });
    black_box(&params);
    used.filter(|_| done)
}

/// With a ledger that is forgotten at a restart.
pub fn alone() -> Option<usize> {
    with_store(mark::STEP, &mut Volatile)
}

/// With a ledger in flash.
pub fn with_journal() -> Option<usize> {
    const RUN: Configuration = Configuration::of_ledger(1).with(b"costs");
    let mut flash = [0xff; 2 * SECTOR];
    let mut journal = Journal::provision(Ram(black_box(&mut flash)), RUN).ok()?;
    with_store(mark::JOURNAL, &mut journal)
}
