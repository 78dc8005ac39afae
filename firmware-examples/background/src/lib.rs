//! Private training in the background of other tasks, shared by all boards. An `async` function that any executor
//! polls: Embassy's, RTIC's, or a loop.
//!
//! Each step is charged to a journal in the chip's flash, then released, then stored in a snapshot. The function yields
//! after every sample, and sleeps between steps. The operations that block the executor longest are the noise and
//! update of one step, and an erase of flash. The future may be dropped at any await point, and the power may fail at
//! any time. The next call continues from the flash.
//!
//! A board provides a flash, a key from its true random generator, the owner's confirmation at the first boot, a delay
//! and a clock.
//!
//! # Memory
//!
//! Four vectors of [`DIM`](softmax::DIM) 32-bit words in the future, 10.4 KB, and [`bytes`] of flash.
#![no_std]
#![forbid(unsafe_code)]

pub mod rehearsal;

use core::cell::RefCell;
use core::ops::Range;
use damper_core::prelude::*;
use damper_core::{ArithmeticError, self_test};
use damper_firmware_program::digits::{self, TRAIN};
use damper_firmware_program::softmax::{self, DIM};
pub use damper_firmware_program::train::BUDGET;
use damper_firmware_program::train::EXPECTED_BATCH;
pub use damper_journal::FirstBoot;
use damper_journal::{Configuration, Journal, JournalError, Region, RegionError, SnapshotError, Snapshots};
use embedded_hal_async::delay::DelayNs;
use embedded_storage::nor_flash::NorFlash;

/// Milliseconds of sleep between steps.
const PAUSE: u32 = 1000;

/// Resources of a board.
pub struct Board<'a, F, D> {
    /// The chip's flash.
    pub flash: &'a RefCell<F>,
    /// First byte of a sector, from which [`bytes`] of the flash are free of programs.
    pub from: u32,
    /// The generator of noise and batches.
    pub noise: &'a NoiseRng,
    /// Confirmation by the owner that the run begins: a button held, not the failure to find a journal.
    pub first_boot: Option<FirstBoot>,
    /// Sleeps between steps.
    pub delay: D,
    /// A counter of cycles that goes up and wraps.
    pub clock: fn() -> u32,
}

/// A released step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ReleasedStep {
    /// Steps charged so far.
    pub charged: u32,
    /// Public held-out digits, of 100, that the released parameters classify correctly.
    pub right: u32,
    /// Cycles from opening the step to its release. They reveal how many samples were drawn, so a product does not have
    /// them.
    #[cfg(feature = "cycles")]
    pub cycles: u32,
}

/// Reasons for which training ends before its budget is spent.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TrainingFailure<E> {
    /// The processor's arithmetic violates the assumptions of the bounds.
    Arithmetic(ArithmeticError),
    /// A setting was refused.
    Config(ConfigError),
    /// A call was refused.
    Call(CallError),
    /// The journal was not opened, or a charge was not persisted.
    Journal(JournalError<RegionError<E>>),
    /// The snapshot was not read or not kept.
    Snapshot(SnapshotError<RegionError<E>>),
}

impl<E> From<ConfigError> for TrainingFailure<E> {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl<E> From<CallError> for TrainingFailure<E> {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl<E> From<JournalError<RegionError<E>>> for TrainingFailure<E> {
    fn from(error: JournalError<RegionError<E>>) -> Self {
        Self::Journal(error)
    }
}

impl<E> From<SnapshotError<RegionError<E>>> for TrainingFailure<E> {
    fn from(error: SnapshotError<RegionError<E>>) -> Self {
        Self::Snapshot(error)
    }
}

/// Bytes of flash from [`Board::from`] on: two sectors of journal, then two halves. Each half has room for a header of
/// 64 bytes, the parameters and the momentum.
#[must_use]
pub const fn bytes<F: NorFlash>() -> usize {
    let half = (64 + 8 * DIM).div_ceil(F::ERASE_SIZE);
    (2 + 2 * half) * F::ERASE_SIZE
}

/// Ranges of journal and snapshots.
fn places<F: NorFlash>(from: u32) -> [Range<u32>; 2] {
    let middle = from.saturating_add(2 * F::ERASE_SIZE as u32);
    [from..middle, middle..from.saturating_add(bytes::<F>() as u32)]
}

/// Trains until the budget is spent, and returns the released parameters. Every released step goes to `report`.
///
/// # Errors
///
/// The first error of any part. Charged steps stay charged.
pub async fn train<F: NorFlash, D: DelayNs>(
    board: Board<'_, F, D>,
    mut report: impl FnMut(ReleasedStep),
) -> Result<[f32; DIM], TrainingFailure<F::Error>> {
    self_test().map_err(TrainingFailure::Arithmetic)?;
    let Board { flash, from, noise, first_boot, mut delay, clock } = board;
    let [ledger_place, snapshot_place] = places::<F>(from);
    let region = || Region::new(flash, ledger_place.clone());
    let rate = Rate::of(EXPECTED_BATCH.into(), TRAIN.into())?;
    let config = DpSgd::new().clip(1.0).noise_multiplier(1.0).learning_rate(0.5).momentum(0.9);
    let config = config.expected_batch(EXPECTED_BATCH).poisson_batches(rate, TRAIN).build()?;
    // Settings that a charge covers.
    let run = Configuration::of_ledger(BUDGET, &config, DIM).with(b"background 1, digits");
    let journal = match first_boot.map(|owner| Journal::provision(region(), run, owner)) {
        // The button is held although the run has begun, so the run continues.
        None | Some(Err(JournalError::Occupied)) => Journal::open(region(), run)?,
        Some(begun) => begun?,
    };
    let mut ledger = Ledger::open(journal, BUDGET)?;
    let mut snapshots = Snapshots::open(Region::new(flash, snapshot_place), run, ledger.charged_steps())?;
    let (mut state, mut params, mut grad) = (config.state::<DIM>(), [0.0; DIM], [0.0; DIM]);
    if snapshots.newest().is_some() {
        snapshots.load(&mut (&mut params[..], &mut state))?;
    }
    loop {
        let begun = clock();
        let mut step = match config.begin(&mut state, &mut ledger) {
            Ok(Some(step)) => step,
            Ok(None) | Err(OpenError::BudgetSpent) => return Ok(params),
            Err(OpenError::Store(error)) => return Err(error.into()),
            Err(OpenError::Call(error)) => return Err(error.into()),
        };
        for digit in step.poisson_batch(noise)?.filter_map(digits::train) {
            softmax::gradient(&params, digit, &mut grad);
            step.add(&grad)?;
            embassy_futures::yield_now().await;
        }
        step.finish(&mut params, noise)?;
        let _cycles = clock().wrapping_sub(begun);
        snapshots.save(ledger.charged_steps(), &mut (&mut params[..], &mut state))?;
        report(ReleasedStep {
            charged: ledger.charged_steps(),
            right: digits::held_out().filter(|digit| softmax::is_right(&params, *digit)).count() as u32,
            #[cfg(feature = "cycles")]
            cycles: _cycles,
        });
        delay.delay_ms(PAUSE).await;
    }
}
