//! Devices' updates, and both aggregators in one process.
#![allow(dead_code)] // Each test uses a part.

use damper_core::accounting::Ledger;
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Sender, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_core::update::Update;
use damper_prio::{Aggregator, PrioError, Report, Role, Scheme, Verifying, collect};
use std::path::Path;

pub const DIM: usize = 40;
pub const BITS: u32 = 16;
/// Samples of a device.
pub const SAMPLES: u32 = 5;

/// The update that a device emits in `round`, with noise of `sigma` grid units.
pub fn update(device: u64, round: u32, sigma: u32) -> Vec<u8> {
    update_of(device, round, sigma, 1.0, DIM)
}

pub fn update_of(device: u64, round: u32, sigma: u32, clip: f32, dim: usize) -> Vec<u8> {
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::new(Grid::new(BITS).unwrap(), sigma).unwrap(),
        clip: FlatL2,
        threshold: Fixed(clip),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(1.0),
        expected_batch: SAMPLES,
    })
    .unwrap();
    let generator: ChaCha20 = ChaCha20::simulation(device);
    let mut state = StepState::new(vec![SumWord::ZERO; dim], (), SgdState { momentum: [0.0f32; 0] }, ());
    let mut ledger = Ledger::volatile(1);
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    for sample in 0..u64::from(SAMPLES) {
        let grad: Vec<f32> = (0..dim as u64).map(|i| ((i * 7 + sample + device) % 13) as f32 - 6.0).collect();
        open.add_combined(&[&grad]).unwrap();
    }
    let mut bytes = vec![];
    open.emit(Sender { run: 9, device, round }, &generator, |part| bytes.extend_from_slice(part)).unwrap();
    bytes
}

/// The bytes that the firmware example `federated` emits: of the run under QEMU whose output is in the file that `DAMPER_BOARD_UPDATE` names, or else
/// those that every board must say.
pub fn of_board() -> Vec<u8> {
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware-examples/expected/federated.txt");
    let said = std::env::var_os("DAMPER_BOARD_UPDATE").map_or(expected, Into::into);
    let text = std::fs::read_to_string(said).unwrap();
    let hex: String = text.lines().filter_map(|line| line.strip_prefix("update ")).collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

pub const KEY: [u8; 32] = [7; 32];

/// Both aggregators of a round.
pub struct Pair {
    pub leader: Aggregator,
    pub helper: Aggregator,
}

impl Pair {
    pub fn new(scheme: &Scheme) -> Self {
        let [leader, helper] = [Role::Leader, Role::Helper].map(|role| Aggregator::new(scheme.clone(), role, KEY));
        Self { leader, helper }
    }

    pub fn begin(&mut self, report: &Report) -> Result<[Verifying; 2], PrioError> {
        let Report { header, nonce, public_share, .. } = report;
        Ok([
            self.leader.begin(header, nonce, public_share, &report.leader)?,
            self.helper.begin(header, nonce, public_share, &report.helper)?,
        ])
    }

    /// Verifies and adds a report.
    pub fn add(&mut self, report: &Report) -> Result<(), PrioError> {
        let [leader, helper] = self.begin(report)?;
        let messages = [leader.message().to_vec(), helper.message().to_vec()];
        let messages = [&messages[0][..], &messages[1][..]];
        self.leader.finish(leader, messages)?;
        self.helper.finish(helper, messages)
    }

    /// The sum's bytes.
    pub fn sum(self, scheme: &Scheme, smallest: usize) -> Result<Vec<u8>, PrioError> {
        let (leader, helper) = (self.leader.into_share(smallest)?, self.helper.into_share(smallest)?);
        collect(scheme, [&leader, &helper])
    }
}

/// The sum of updates, in clear.
pub fn plain_sum(updates: &[Vec<u8>]) -> Vec<i64> {
    let mut sum = vec![];
    for bytes in updates {
        let units: Vec<i64> = Update::parse(bytes).unwrap().units().collect();
        sum.resize(units.len(), 0);
        sum.iter_mut().zip(units).for_each(|(sum, units)| *sum += units);
    }
    sum
}
