//! The run inside the enclave: DP-SGD with momentum as in the firmware examples' `train`, charged through the counter.

use crate::platform::{OVERHEAD, Platform};
use crate::seal::{self, Label};
use crate::shelf::{Counter, Shelf};
use damper_core::noise::ChaCha20;
use damper_core::prelude::*;
use damper_firmware_program::digits::{self, TRAIN};
use damper_firmware_program::softmax::{self, DIM};
use damper_firmware_program::train::{BUDGET, EXPECTED_BATCH};
use damper_journal::{Allowance, Configuration, FirstBoot, SealedError, SealedJournal};

/// Result of a call. The numbers are the module's interface.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EnclaveStatus {
    /// Done.
    Ok = 0,
    /// The budget is spent, and nothing was released.
    BudgetSpent = 1,
    /// A blob was not sealed here, was sealed for another use, or was changed.
    NotAuthentic = 2,
    /// The sealed ledger is missing, or exists unexpectedly.
    Ledger = 3,
    /// The counter is lower than the ledger's count, or another instance took a count.
    Counter = 4,
    /// The state is not that of the newest charge. An older state was restored, or the steps since were lost.
    Stale = 5,
    /// Any other error: a call out of order, or a configuration that is refused.
    Refused = 6,
}

/// Bytes of a state before it is sealed: steps released, parameters, momentum.
const STATE: usize = 4 + 8 * DIM;
/// Bytes of a sealed state.
pub const SEALED_STATE: usize = STATE + OVERHEAD;

const ALLOWANCE: Allowance = Allowance { steps: 1, divergence: 0.0 };

/// A run in memory.
pub struct Enclave<P: Platform> {
    platform: P,
    ledger: Ledger<SealedJournal<Counter<P>, Shelf<P>>>,
    config: DpSgdConfig,
    state: DpSgdState<DIM>,
    params: [f32; DIM],
    /// Charges after the newest release that the parameters hold.
    released: u32,
}

fn configured() -> Option<DpSgdConfig> {
    let dp_sgd = DpSgd::new().clip(1.0).noise_multiplier(1.0).learning_rate(0.5).momentum(0.9);
    let rate = Rate::of(u64::from(EXPECTED_BATCH), u64::from(TRAIN)).ok()?;
    dp_sgd.expected_batch(EXPECTED_BATCH).poisson_batches(rate, TRAIN).build().ok()
}

/// Returns the configuration that a charge covers.
fn charged() -> Option<Configuration> {
    Some(Configuration::of_ledger(BUDGET, &configured()?, DIM).with(b"enclave example, digits"))
}

fn status<C, V>(error: &SealedError<C, V>) -> EnclaveStatus {
    match error {
        SealedError::Vault(_) => EnclaveStatus::NotAuthentic,
        SealedError::Blank | SealedError::Occupied => EnclaveStatus::Ledger,
        SealedError::CounterBehind | SealedError::Forked | SealedError::Counter(_) => EnclaveStatus::Counter,
        _ => EnclaveStatus::Refused,
    }
}

impl<P: Platform> Enclave<P> {
    /// Starts the run. The owner calls it once.
    pub fn provision(platform: P) -> Result<Self, EnclaveStatus> {
        let (counter, shelf) = (Counter(platform.clone()), Shelf(platform.clone()));
        let run = charged().ok_or(EnclaveStatus::Refused)?;
        let store = SealedJournal::provision(counter, shelf, run, ALLOWANCE, FirstBoot::confirmed_by_owner())
            .map_err(|e| status(&e))?;
        Self::from(platform, store)
    }

    /// Continues from a sealed state, which must be that of the newest charge. With `burn`, an older state is accepted.
    /// The steps since are then lost and stay charged.
    pub fn resume(mut platform: P, sealed: &mut [u8; SEALED_STATE], burn: bool) -> Result<Self, EnclaveStatus> {
        let (counter, shelf) = (Counter(platform.clone()), Shelf(platform.clone()));
        let run = charged().ok_or(EnclaveStatus::Refused)?;
        let store = SealedJournal::open(counter, shelf, run, ALLOWANCE).map_err(|e| status(&e))?;
        let mut enclave = Self::from(platform.clone(), store)?;
        let message = seal::open(&mut platform, Label::State, sealed).map_err(|_| EnclaveStatus::NotAuthentic)?;
        let mut words =
            message.chunks_exact(4).map(|bytes| bytes.iter().rev().fold(0, |word, b| word << 8 | u32::from(*b)));
        enclave.released = words.next().unwrap_or_default();
        if enclave.released > enclave.ledger.charged_steps()
            || !(burn || enclave.released == enclave.ledger.charged_steps())
        {
            return Err(EnclaveStatus::Stale);
        }
        let places = enclave.params.iter_mut().chain(&mut enclave.state.optimizer.momentum);
        places.zip(words).for_each(|(place, word)| *place = f32::from_bits(word));
        Ok(enclave)
    }

    fn from(platform: P, store: SealedJournal<Counter<P>, Shelf<P>>) -> Result<Self, EnclaveStatus> {
        let ledger = Ledger::open(store, BUDGET).map_err(|_| EnclaveStatus::Ledger)?;
        let (released, config) = (ledger.charged_steps(), configured().ok_or(EnclaveStatus::Refused)?);
        Ok(Self { platform, ledger, config, state: config.state(), params: [0.0; DIM], released })
    }

    /// Takes one private step: charges, persists, releases.
    pub fn step(&mut self) -> Result<(), EnclaveStatus> {
        // The digest of the other targets needs the same, known key, so this is a simulation. A product derives the
        // run's key from the sealing key and the run's number, or seals a random key.
        let generator = ChaCha20::<1>::simulation(2026);
        let mut grad = [0.0; DIM];
        let mut open = self.config.open(&mut self.state, &mut self.ledger).map_err(|error| match error {
            OpenError::BudgetSpent => EnclaveStatus::BudgetSpent,
            OpenError::Store(error) => status(&error),
            OpenError::Call(_) => EnclaveStatus::Refused,
        })?;
        let batch = open.poisson_batch(&generator).map_err(|_| EnclaveStatus::Refused)?;
        for digit in batch.filter_map(digits::train) {
            softmax::gradient(&self.params, digit, &mut grad);
            open.add_combined(&[&grad]).map_err(|_| EnclaveStatus::Refused)?;
        }
        open.finish(&mut self.params, &generator).map_err(|_| EnclaveStatus::Refused)?;
        self.released = self.ledger.charged_steps();
        Ok(())
    }

    /// Seals the state into `to` (`[SEALED_STATE]`).
    pub fn seal(&mut self, to: &mut [u8; SEALED_STATE]) -> Result<(), EnclaveStatus> {
        let numbers = self.params.iter().chain(&self.state.optimizer.momentum).map(|x| x.to_bits());
        let words = core::iter::once(self.released).chain(numbers);
        to.iter_mut().zip(words.flat_map(u32::to_le_bytes)).for_each(|(to, byte)| *to = byte);
        seal::seal(&mut self.platform, Label::State, to).map_err(|_| EnclaveStatus::Refused)
    }

    /// Returns the released parameters.
    pub fn params(&self) -> &[f32; DIM] {
        &self.params
    }

    /// Returns the number of charged steps.
    pub fn paid(&self) -> u32 {
        self.ledger.charged_steps()
    }

    /// Returns the number of held-out digits that the parameters classify correctly. These digits are public.
    pub fn held_out_right(&self) -> u32 {
        digits::held_out().filter(|digit| softmax::is_right(&self.params, *digit)).count() as u32
    }
}
