//! The run inside the secure state: DP-SGD with momentum as in the firmware examples' `train`, with its charges in
//! flash that only the secure state writes.

use core::cell::RefCell;
use damper_core::prelude::*;
use damper_enclave_trustzone::PartitionStatus;
use damper_firmware_program::digits::{self, TRAIN};
use damper_firmware_program::flash::{Ram, SECTOR};
use damper_firmware_program::softmax::{self, DIM};
use damper_firmware_program::train::{BUDGET, EXPECTED_BATCH};
use damper_journal::{Configuration, FirstBoot, Journal};

struct Run {
    ledger: Ledger<Journal<Ram<'static>>>,
    config: DpSgdConfig,
    state: DpSgdState<DIM>,
    params: [f32; DIM],
    noise: NoiseRng,
}

struct OneCore(RefCell<Option<Run>>);

// SAFETY: there is only one core. An interrupt of the non-secure state may call during a call, and the borrow refuses
// it.
unsafe impl Sync for OneCore {}

static PARTITION: OneCore = OneCore(RefCell::new(None));

fn call(body: impl FnOnce(&mut Option<Run>) -> Result<(), PartitionStatus>) -> PartitionStatus {
    let result = PARTITION.0.try_borrow_mut().map_err(|_| PartitionStatus::Refused).and_then(|mut run| body(&mut run));
    result.err().unwrap_or(PartitionStatus::Ok)
}

/// Starts the run, once. The flash is simulated in secure RAM, so each start of the machine is a first boot.
pub fn provision() -> PartitionStatus {
    call(|run| {
        let flash = cortex_m::singleton!(: [u8; 4 * SECTOR] = [0xff; 4 * SECTOR]).ok_or(PartitionStatus::Refused)?;
        let rate = Rate::of(EXPECTED_BATCH.into(), TRAIN.into()).map_err(|_| PartitionStatus::Refused)?;
        let config = DpSgd::new().clip(1.0).noise_multiplier(1.0).learning_rate(0.5).momentum(0.9);
        let config = config.expected_batch(EXPECTED_BATCH).poisson_batches(rate, TRAIN);
        let config = config.build().map_err(|_| PartitionStatus::Refused)?;
        // Settings that a charge covers.
        let charged = Configuration::of_ledger(BUDGET, &config, DIM).with(b"trustzone example, digits");
        let journal = Journal::provision(Ram(flash), charged, FirstBoot::confirmed_by_owner())
            .map_err(|_| PartitionStatus::Refused)?;
        let ledger = Ledger::open(journal, BUDGET).map_err(|_| PartitionStatus::Refused)?;
        // The digest of the other targets needs the same, known key, so this is a simulation. A product uses
        // `Key::fresh`, from the generator of the secure side.
        let noise = NoiseRng::simulation(2026);
        *run = Some(Run { ledger, config, state: config.state(), params: [0.0; DIM], noise });
        Ok(())
    })
}

/// Takes one private step: charges, persists, releases.
pub fn step() -> PartitionStatus {
    call(|run| {
        let Run { ledger, config, state, params, noise } = run.as_mut().ok_or(PartitionStatus::Refused)?;
        let mut grad = [0.0; DIM];
        let mut step = match config.begin(state, ledger) {
            Ok(Some(step)) => step,
            Ok(None) | Err(OpenError::BudgetSpent) => return Err(PartitionStatus::BudgetSpent),
            Err(_) => return Err(PartitionStatus::Refused),
        };
        let batch = step.poisson_batch(noise).map_err(|_| PartitionStatus::Refused)?;
        for digit in batch.filter_map(digits::train) {
            softmax::gradient(params, digit, &mut grad);
            step.add(&grad).map_err(|_| PartitionStatus::Refused)?;
        }
        step.finish(params, noise).map(|_| ()).map_err(|_| PartitionStatus::Refused)
    })
}

/// Passes the released parameters to `to`.
pub fn params(to: impl FnOnce(&[f32; DIM]) -> PartitionStatus) -> PartitionStatus {
    call(|run| match to(&run.as_ref().ok_or(PartitionStatus::Refused)?.params) {
        PartitionStatus::Ok => Ok(()),
        refused => Err(refused),
    })
}

/// Returns the number of charged steps.
pub fn charged() -> u32 {
    PARTITION.0.try_borrow().ok().and_then(|run| run.as_ref().map(|run| run.ledger.charged_steps())).unwrap_or_default()
}
