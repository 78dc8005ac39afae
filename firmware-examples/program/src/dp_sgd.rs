//! The program of the core's first page: DP-SGD by the builder, with its ledger in flash (simulated in RAM). It trains
//! the softmax regression as `train` does, and must end with the parameters that `train` prints.

use crate::digits::{self, TRAIN};
use crate::flash::{Ram, SECTOR};
use crate::softmax::{self, DIM};
use crate::train::{BUDGET, EXPECTED_BATCH};
use core::hint::black_box;
use damper_core::numerics::digest::Digest;
use damper_core::prelude::*;
use damper_journal::{Configuration, FirstBoot, Journal};

/// The last line of `expected/train.txt`.
const PARAMS: u64 = 0x29ec_3622_cabe_13b3;

/// Returns the digest of the parameters after the budget is spent, or `None` if a call was refused.
fn train(flash: &mut [u8]) -> Option<u64> {
    let (mut params, mut grad) = ([0.0; DIM], [0.0; DIM]);

    let rate = Rate::of(EXPECTED_BATCH.into(), TRAIN.into()).ok()?;
    let config = DpSgd::new().clip(1.0).noise_multiplier(1.0).learning_rate(0.5).momentum(0.9);
    let config = config.expected_batch(EXPECTED_BATCH).poisson_batches(rate, TRAIN).build().ok()?;
    // Settings that a charge covers.
    let run = Configuration::of_ledger(BUDGET, &config, DIM).with(b"digits, softmax");
    let journal = Journal::provision(Ram(flash), run, FirstBoot::confirmed_by_owner()).ok()?;
    let mut state = config.state::<DIM>();
    let mut ledger = Ledger::open(journal, BUDGET).ok()?;
    // In a product: `NoiseRng::from_key(Key::fresh(...))`, from the chip's true random generator.
    let noise = NoiseRng::simulation(2026);
    while let Some(mut step) = config.begin(&mut state, &mut ledger).ok()? {
        for i in step.poisson_batch(&noise).ok()? {
            softmax::gradient(&params, digits::train(i)?, &mut grad);
            step.add(&grad).ok()?;
        }
        step.finish(&mut params, &noise).ok()?;
    }
    (ledger.charged_steps() == BUDGET).then(|| Digest::of(&params).value())
}

/// Trains with its own flash. Returns true if it ended with the parameters of `train`.
#[must_use]
pub fn run() -> bool {
    let mut flash = [0xff; 4 * SECTOR];
    train(black_box(&mut flash)) == Some(PARAMS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn trains_to_the_params_of_train() {
        assert!(super::run());
    }
}
