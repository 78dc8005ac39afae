//! The private step of [`crate::step`] with its ledger in flash and snapshots of its state, restarted until its budget
//! is spent. An image of it shows the cost in flash of a step that survives power cuts, and that it links without a
//! single panic.
//!
//! The flash is simulated in RAM. A product uses its chip's driver instead, and takes the key from its true generator.

use crate::flash::{Ram, SECTOR};
use crate::step::{self, DIM, With};
use core::hint::black_box;
use damper_core::accounting::Ledger;
use damper_core::filter::Identity;
use damper_core::noise::{ChaCha20, Key};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::step::StepState;
use damper_journal::{Configuration, FirstBoot, Journal, Snapshots};

const BUDGET: u32 = 40;
/// Steps charged at a time. The power is lost before the fourth is taken, so it is burned.
const PREPAID: u32 = 4;
const TAKEN: u32 = 3;

/// Runs from power on to power off. Returns the number of released steps, and whether the budget is spent. Returns
/// `None` if a call was refused unexpectedly.
fn session(
    step: &With<Identity, Sgd>,
    run: Configuration,
    ledger_flash: Ram<'_>,
    snapshot_flash: Ram<'_>,
) -> Option<(u32, bool)> {
    let journal = Journal::open(ledger_flash, run).ok()?;
    let paid = journal.record().paid;
    let mut snapshots = Snapshots::open(snapshot_flash, run, paid).ok()?;
    let (mut sum, mut momentum, mut params) = ([SumWord::ZERO; DIM], [0f32; DIM], [0f32; DIM]);
    let generator = ChaCha20::<1>::from_key(Key::from_bytes(&mut black_box([7; 32])));
    let mut ledger = Ledger::open(journal, BUDGET).ok()?.with_reserve(PREPAID);
    let (head, tail) = ([0.25; 40], [-0.25; DIM - 40]);
    let mut state =
        StepState::new(black_box(&mut sum[..]), (), SgdState { momentum: black_box(&mut momentum[..]) }, ());
    if snapshots.newest().is_some() {
        snapshots.load(&mut (&mut params[..], &mut state)).ok()?;
    }
    let mut released = 0;
    while released < TAKEN {
        let Ok(mut open) = step.open(&mut state, &mut ledger) else { break };
        open.add_combined(&[black_box(&head[..]), black_box(&tail[..])]).ok()?;
        open.finish(black_box(&mut params[..]), &generator).ok()?;
        released += 1;
        snapshots.save(ledger.charged_steps(), &mut (&mut params[..], &mut state)).ok()?;
    }
    Some((released, ledger.store().record().paid == BUDGET))
}

/// Returns true if the run takes exactly the steps that its budget allows, less those that power cuts burn.
fn trains(flash: &mut [u8]) -> Option<bool> {
    let (ledger_flash, snapshot_flash) = flash.split_at_mut_checked(2 * SECTOR)?;
    let step = step::with_momentum()?;
    // Settings that a charge covers: the step, and the number of the run.
    let run = Configuration::of_ledger(BUDGET, &step, DIM).with(b"run 1");
    Journal::provision(Ram(black_box(&mut *ledger_flash)), run, FirstBoot::confirmed_by_owner()).ok()?;
    let (mut released, mut sessions) = (0, 0);
    loop {
        let (steps, spent) =
            session(&step, run, Ram(black_box(&mut *ledger_flash)), Ram(black_box(&mut *snapshot_flash)))?;
        (released, sessions) = (released + steps, sessions + 1);
        if spent {
            return Some(sessions == BUDGET / PREPAID && released == sessions * TAKEN);
        }
    }
}

/// Trains with its own flash. Returns true on success.
#[must_use]
pub fn run() -> bool {
    let mut flash = [0xff; 6 * SECTOR];
    trains(black_box(&mut flash)) == Some(true)
}
