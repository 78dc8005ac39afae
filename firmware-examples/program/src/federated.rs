//! A device of a federation, for one round. It computes the gradients of its own samples at the server's parameters,
//! clips and adds them, adds its noise, and emits the bytes (`damper_core::update`). `damper aggregate` adds them to
//! those of other devices.
//!
//! Every sample takes part, so the rate is 1 and nothing is amplified. The device's own noise makes the update private.
//!
//! # Memory
//!
//! Three vectors of `DIM` 32-bit words: parameters, gradient and sum. They take 7.8 KB. The bytes are emitted as they
//! are computed.

use crate::digits::{self, TRAIN};
use crate::line::{Hex, ReportLine, RunFailure};
use crate::mark::{GRADIENT, PROGRAM};
use crate::softmax::{self, DIM};
use damper_core::accounting::Ledger;
use damper_core::clip::FlatL2;
use damper_core::error::OpenError;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Sender, Slots, StepState};
use damper_core::threshold::Fixed;

/// Samples of each device.
pub const SAMPLES: u32 = 100;
/// Devices with samples.
pub const DEVICES: u32 = TRAIN / SAMPLES;

/// Runs the first round of device `number`, counted from 1. Returns true on success. Lines, with the bytes in them, are
/// passed to `say`.
pub fn run(number: u32, mut say: impl FnMut(ReportLine<'_>)) -> bool {
    let mut hex = Hex::new();
    let sent = emit(number, |bytes| hex.push(bytes, |piece| say(ReportLine::Update(piece))));
    hex.end(|piece| say(ReportLine::Update(piece)));
    match sent {
        Ok(bytes) => {
            say(ReportLine::Emitted { device: number, samples: SAMPLES, bytes });
            true
        }
        Err(failure) => {
            say(failure.line());
            false
        }
    }
}

/// Passes the bytes of the update of device `number` to `sink`, and returns their number.
///
/// # Errors
///
/// A call was refused, and no byte was passed on.
pub fn emit(number: u32, mut sink: impl FnMut(&[u8])) -> Result<u32, RunFailure> {
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(16)?, 2.0)?,
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        // The server updates the parameters.
        optimizer: Sgd::new(0.0, false, 0.0)?,
        schedule: Constant(1.0),
        expected_batch: SAMPLES,
    })?;
    // A product takes its key from the chip's true random generator, and keeps its ledger in flash.
    let generator = ChaCha20::<1>::simulation(u64::from(number));
    let mut ledger = Ledger::volatile(1);
    let mut state = StepState::new([SumWord::ZERO; DIM], (), SgdState { momentum: [] }, ());
    let params = [0.0; DIM];
    let mut grad = [0.0; DIM];
    PROGRAM.begin();
    let mut open = match step.open(&mut state, &mut ledger) {
        Ok(open) => open,
        Err(OpenError::BudgetSpent) => return Err(RunFailure::Refused("the budget is spent")),
        Err(OpenError::Call(error)) => return Err(error.into()),
        Err(OpenError::Store(never)) => match never {},
    };
    let first = number.saturating_sub(1).saturating_mul(SAMPLES);
    for digit in (first..first.saturating_add(SAMPLES)).filter_map(digits::train) {
        GRADIENT.of(|| softmax::gradient(&params, digit, &mut grad));
        open.add_combined(&[&grad])?;
    }
    let round = open.number();
    let mut bytes = 0u32;
    open.emit(Sender { run: 1, device: u64::from(number), round }, &generator, |part| {
        bytes = bytes.saturating_add(part.len() as u32);
        sink(part);
    })?;
    PROGRAM.end();
    Ok(bytes)
}
