//! Adapts the last layer of a pretrained network on the device to its sensor and its person, within a budget in flash,
//! and stops when the budget is spent. The power is lost during the run, and steps that were charged and not released
//! are burned.
//!
//! # Memory
//!
//! Three vectors of [`DIM`](crate::extractor::DIM) 32-bit words, 3 KB, and 4 KB of simulated flash.

use crate::digits::{self, CLASSES, TRAIN};
use crate::extractor::{self, DIM, FEATURES};
use crate::flash::{Ram, SECTOR};
use crate::layer;
use crate::line::{ReportLine, RunFailure};
use crate::mark::{GRADIENT, PROGRAM};
use crate::sensor::{self, Reading};
use damper_core::accounting::{Ledger, Rate};
use damper_core::clip::FlatL2;
use damper_core::error::OpenError;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_journal::{Configuration, FirstBoot, Journal, Snapshots};

/// Steps the budget allows.
pub const BUDGET: u32 = 40;
/// Steps charged at a time.
const PREPAID: u32 = 8;
/// Steps until the power is lost, at each power-up except the last. Not a multiple of `PREPAID`.
const POWERED: u32 = 13;
const EXPECTED_BATCH: u32 = 60;
const GRID_BITS: u32 = 16;
const MULTIPLIER: f64 = 1.0;

const LEDGER_BYTES: usize = 2 * SECTOR;
const FLASH_BYTES: usize = LEDGER_BYTES + 6 * SECTOR;

type Params = [f32; DIM];

/// Computes the gradient of the cross-entropy of one reading.
fn gradient(params: &Params, reading: &Reading, grad: &mut Params) {
    let mut errors = [0.0; CLASSES];
    layer::outputs(params, reading.features.iter().copied(), &mut errors);
    layer::cross_entropy(&mut errors, reading.label);
    layer::gradient(&errors, reading.features.iter().copied(), grad);
}

/// Returns the line with the held-out readings that the layer classifies correctly, and their number.
fn held_out(params: &Params) -> ReportLine<'static> {
    let (mut right, mut samples) = (0, 0);
    for reading in digits::held_out().map(sensor::read) {
        let mut scores = [0.0; CLASSES];
        layer::outputs(params, reading.features.iter().copied(), &mut scores);
        right += u32::from(layer::best(&scores) == usize::from(reading.label));
        samples += 1;
    }
    ReportLine::HeldOut { right, samples }
}

/// Results of a power-up.
struct Session {
    released: u32,
    spent: bool,
}

type Step = PrivateStep<Identity, Sgd>;

/// Returns the step of every power-up.
fn step() -> Result<Step, RunFailure> {
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(GRID_BITS)?, MULTIPLIER)?,
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0)?,
        schedule: Constant(4.0),
        expected_batch: EXPECTED_BATCH,
    })?;
    Ok(step.with_poisson_batches(Rate::of(u64::from(EXPECTED_BATCH), u64::from(TRAIN))?, TRAIN)?)
}

/// Runs from power-up to power cut, or until the budget is spent. The initial content of `params` is ignored, because
/// the layer is in flash.
fn session(step: &Step, run: Configuration, flash: &mut [u8], params: &mut Params) -> Result<Session, RunFailure> {
    const NO_FLASH: RunFailure = RunFailure::Refused("the flash");
    let (ledger_flash, snapshot_flash) = flash.split_at_mut_checked(LEDGER_BYTES).ok_or(NO_FLASH)?;
    let journal = Journal::open(Ram(ledger_flash), run).map_err(|_| RunFailure::Refused("the journal"))?;
    let paid = journal.record().paid;
    let mut snapshots =
        Snapshots::open(Ram(snapshot_flash), run, paid).map_err(|_| RunFailure::Refused("the snapshot"))?;
    extractor::public_layer(params);
    if snapshots.newest().is_some() {
        snapshots.load(params).map_err(|_| RunFailure::Refused("the snapshot"))?;
    }
    // A product takes its key from the chip's true random generator.
    let generator = ChaCha20::<1>::simulation(2026);
    let mut ledger = Ledger::open(journal, BUDGET)?.with_reserve(PREPAID);
    let mut state = StepState::new([SumWord::ZERO; DIM], (), SgdState { momentum: [] }, ());
    let mut grad = [0.0; DIM];
    let mut released = 0;
    while released < POWERED {
        PROGRAM.begin();
        let mut open = match step.open(&mut state, &mut ledger) {
            Ok(open) => open,
            Err(OpenError::BudgetSpent) => return Ok(Session { released, spent: true }),
            Err(OpenError::Call(error)) => return Err(error.into()),
            Err(OpenError::Store(_)) => return Err(RunFailure::Refused("the journal")),
        };
        for digit in open.poisson_batch(&generator)?.filter_map(digits::train) {
            GRADIENT.of(|| gradient(params, &sensor::read(digit), &mut grad));
            open.add_combined(&[&grad])?;
        }
        open.finish(params, &generator)?;
        released += 1;
        snapshots.save(ledger.charged_steps(), params).map_err(|_| RunFailure::Refused("the snapshot"))?;
        PROGRAM.end();
    }
    Ok(Session { released, spent: false })
}

fn adapt(say: &mut impl FnMut(ReportLine<'_>)) -> Result<(), RunFailure> {
    let mut flash = [0xff; FLASH_BYTES];
    let ledger_flash = flash.get_mut(..LEDGER_BYTES).unwrap_or_default();
    let step = step()?;
    // Settings that a charge covers.
    let run = Configuration::of_ledger(BUDGET, &step, DIM).with(b"personalise 1");
    Journal::provision(Ram(ledger_flash), run, FirstBoot::confirmed_by_owner())
        .map_err(|_| RunFailure::Refused("the journal"))?;
    let mut params = [0.0; DIM];
    extractor::public_layer(&mut params);
    say(ReportLine::Personalise { dim: DIM as u32, features: FEATURES as u32, samples: TRAIN });
    say(held_out(&params));
    let (mut released, mut spent) = (0, false);
    while !spent {
        let session = session(&step, run, &mut flash, &mut params)?;
        released += session.released;
        spent = session.spent;
        say(ReportLine::PowerUp { released, spent });
    }
    say(ReportLine::Burned { paid: BUDGET, released });
    say(held_out(&params));
    say(ReportLine::Params(Digest::of(&params).value()));
    Ok(())
}

/// Adapts until the budget is spent. Returns true on success. Every line is passed to `say`.
pub fn run(mut say: impl FnMut(ReportLine<'_>)) -> bool {
    match adapt(&mut say) {
        Ok(()) => true,
        Err(failure) => {
            say(failure.line());
            false
        }
    }
}
