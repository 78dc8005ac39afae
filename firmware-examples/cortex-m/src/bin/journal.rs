//! The private step of `step` with its ledger in flash and snapshots of what it trains: restarted until its budget is spent. Its
//! image is what a step that survives power cuts costs in flash, and it must link without a single panic.
//!
//! The flash is simulated in RAM: a product puts its chip's driver there, and takes the key from its true generator.
#![no_std]
#![no_main]

use core::convert::Infallible;
use core::hint::black_box;
use cortex_m_semihosting::debug;
use damper_core::accounting::Ledger;
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian, Key};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_journal::{Configuration, Journal, Snapshots};
use embedded_storage::nor_flash::{ErrorType, NorFlash, ReadNorFlash};

const DIM: usize = 64;
const SECTOR: usize = 512;
const BUDGET: u32 = 40;
/// Steps paid at a time, and taken before the power is lost: the fourth is burned.
const PREPAID: u32 = 4;
const TAKEN: u32 = 3;

/// NOR flash in RAM: writing clears bits, erasing sets them.
struct Ram<'a>(&'a mut [u8]);

impl Ram<'_> {
    fn at(&mut self, offset: u32) -> &mut [u8] {
        self.0.get_mut(offset as usize..).unwrap_or_default()
    }
}

impl ErrorType for Ram<'_> {
    type Error = Infallible;
}

impl ReadNorFlash for Ram<'_> {
    const READ_SIZE: usize = 4;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.iter_mut().zip(self.at(offset)).for_each(|(byte, cell)| *byte = *cell);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.0.len()
    }
}

impl NorFlash for Ram<'_> {
    const WRITE_SIZE: usize = 4;
    const ERASE_SIZE: usize = SECTOR;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Infallible> {
        self.at(from).iter_mut().take(to.saturating_sub(from) as usize).for_each(|cell| *cell = 0xff);
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Infallible> {
        self.at(offset).iter_mut().zip(bytes).for_each(|(cell, byte)| *cell &= byte);
        Ok(())
    }
}

/// What a payment stands for: every number that changes a step's price or its noise, and the number of the run.
const RUN: Configuration = Configuration::of_ledger(BUDGET)
    .with(b"run 1")
    .with(&(DIM as u32).to_le_bytes())
    .with(&16u32.to_le_bytes())
    .with(&1f64.to_bits().to_le_bytes())
    .with(&60u32.to_le_bytes());

/// From power on to power off: how many steps were released, and whether the budget is spent. `None` where anything was refused
/// that should not have been.
fn session(ledger_flash: Ram<'_>, snapshot_flash: Ram<'_>) -> Option<(u32, bool)> {
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
    let mut journal = Journal::open(ledger_flash, RUN).ok()?;
    let paid = journal.record().paid;
    let mut snapshots = Snapshots::open(snapshot_flash, RUN, paid).ok()?;
    let (mut sum, mut momentum, mut params) = ([0i32; DIM], [0f32; DIM], [0f32; DIM]);
    if snapshots.newest().is_some() {
        let mut places = params.iter_mut().chain(&mut momentum);
        let put = |word| places.next().into_iter().for_each(|place| *place = f32::from_bits(word));
        snapshots.load(2 * DIM as u32, put).ok()?;
    }
    let generator = ChaCha20::<1>::private(Key::from_bytes(&black_box([7; 32])));
    let mut ledger = Ledger::resume(BUDGET, paid).prepaying(PREPAID);
    let (head, tail) = ([0.25; 40], [-0.25; DIM - 40]);
    let mut state = StepState {
        sum: black_box(&mut sum[..]),
        filter: (),
        threshold: (),
        optimizer: SgdState { momentum: black_box(&mut momentum[..]) },
    };
    let mut released = 0;
    while released < TAKEN {
        let Ok(mut open) = step.open(&mut state, &mut ledger, &mut journal) else { break };
        open.add_mixed(&[black_box(&head[..]), black_box(&tail[..])]).ok()?;
        open.finish(black_box(&mut params[..]), &generator).ok()?;
        released += 1;
        let words = params.iter().chain(&*state.optimizer.momentum).map(|x| x.to_bits());
        snapshots.save(ledger.paid(), words).ok()?;
    }
    Some((released, journal.record().paid == BUDGET))
}

/// Whether the run takes exactly the steps that its budget allows, less those that power cuts burn.
fn trains(flash: &mut [u8]) -> Option<bool> {
    let (ledger_flash, snapshot_flash) = flash.split_at_mut_checked(2 * SECTOR)?;
    Journal::provision(Ram(black_box(&mut *ledger_flash)), RUN).ok()?;
    let (mut released, mut sessions) = (0, 0);
    loop {
        let (steps, spent) = session(Ram(black_box(&mut *ledger_flash)), Ram(black_box(&mut *snapshot_flash)))?;
        (released, sessions) = (released + steps, sessions + 1);
        if spent {
            return Some(sessions == BUDGET / PREPAID && released == sessions * TAKEN);
        }
    }
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let mut flash = [0xff; 6 * SECTOR];
    let status = match trains(black_box(&mut flash)) {
        Some(true) => debug::EXIT_SUCCESS,
        _ => debug::EXIT_FAILURE,
    };
    loop {
        debug::exit(status);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        debug::exit(debug::EXIT_FAILURE);
    }
}
