//! Private training on the device: DP-SGD with momentum on the digits in flash, the gradients computed here.
//!
//! # Memory
//!
//! Four vectors of `DIM` words: parameters, gradient, sum and momentum. 10.4 KB.

use crate::digits::{self, TRAIN};
use crate::line::Line;
use crate::softmax::{self, DIM};
use damper_core::accounting::{Ledger, Rate, Volatile};
use damper_core::clip::FlatL2;
use damper_core::error::{CallError, ConfigError, OpenError};
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian, Generator};
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::sampling::poisson;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;

/// Steps the ledger allows.
pub const BUDGET: u32 = 40;
/// Expected samples a step.
pub const EXPECTED_BATCH: u32 = 60;

/// Why a run ended early.
enum Failure {
    Config(ConfigError),
    Call(CallError),
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// Trains until the budget is spent; whether it went as it should. Every line goes to `say`.
pub fn run(mut say: impl FnMut(Line)) -> bool {
    match train(&mut say) {
        Ok(()) => true,
        Err(Failure::Config(error)) => {
            say(Line::Failed(error.parameter));
            false
        }
        Err(Failure::Call(CallError::Length { what, .. } | CallError::Order(what))) => {
            say(Line::Failed(what));
            false
        }
        Err(Failure::Call(_)) => {
            say(Line::Failed("a call was refused"));
            false
        }
    }
}

fn train(say: &mut impl FnMut(Line)) -> Result<(), Failure> {
    let mechanism = DiscreteGaussian::<i32>::with_multiplier(Grid::new(16)?, 1.0)?;
    // Sums would wrap, which is private and of no use.
    if mechanism.grid().may_overflow_i32(EXPECTED_BATCH, mechanism.sigma()) {
        return Err(ConfigError { parameter: "grid bits", must_be: "fewer for so large a batch" }.into());
    }
    let step = PrivateStep::new(Slots {
        mechanism,
        clip: FlatL2,
        threshold: Fixed(1.0),
        filter: Identity,
        optimizer: Sgd::new(0.9, false, 0.0)?,
        schedule: Constant(0.5),
        expected_batch: EXPECTED_BATCH,
    })?;
    let rate = Rate::of(u64::from(EXPECTED_BATCH), u64::from(TRAIN))?;
    // A product takes its key from the chip's true random generator, and keeps its ledger in flash.
    let generator = ChaCha20::<1>::simulation(2026);
    let mut ledger = Ledger::new(BUDGET);
    let mut state =
        StepState { sum: [0; DIM], filter: (), threshold: (), optimizer: SgdState { momentum: [0.0; DIM] } };
    let mut params = [0.0; DIM];
    let mut grad = [0.0; DIM];
    say(Line::Start { dim: DIM as u32, samples: TRAIN, private: generator.is_private() });

    loop {
        let mut open = match step.open(&mut state, &mut ledger, &mut Volatile) {
            Ok(open) => open,
            Err(OpenError::BudgetSpent) => break,
            Err(OpenError::Call(error)) => return Err(error.into()),
            Err(OpenError::Store(never)) => match never {},
        };
        for digit in poisson(&generator, open.number(), rate, TRAIN).filter_map(digits::train) {
            softmax::gradient(&params, digit, &mut grad);
            open.add_mixed(&[&grad])?;
        }
        open.finish(&mut params, &generator)?;
    }

    say(Line::BudgetSpent { steps: ledger.paid() });
    let (mut right, mut samples) = (0, 0);
    for digit in digits::held_out() {
        right += u32::from(softmax::is_right(&params, digit));
        samples += 1;
    }
    say(Line::HeldOut { right, samples });
    say(Line::Params(Digest::of(&params).value()));
    Ok(())
}
