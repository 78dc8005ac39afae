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
use damper_core::update::{Header, Update};
use damper_prio::{PrioError, Report, Role, Scheme, SumShare, Verifying, combine};
use std::path::Path;

pub const DIM: usize = 40;
pub const BITS: u32 = 16;
/// Number of samples of a device.
pub const SAMPLES: u32 = 5;

/// Returns the update of a device in `round`, with noise of `sigma` grid units.
pub fn update(device: u64, round: u32, sigma: u32) -> Vec<u8> {
    update_of(device, round, sigma, 1.0, DIM)
}

pub fn update_of(device: u64, round: u32, sigma: u32, clip: f32, dim: usize) -> Vec<u8> {
    let dim = dim as u32;
    let header =
        Header { run: 9, device, round, devices: 1, dim, grid_bits: BITS, expected_batch: SAMPLES, sigma, clip };
    update_with(&header, device)
}

/// Returns an update of five samples with this header and noise from `seed`.
pub fn update_with(header: &Header, seed: u64) -> Vec<u8> {
    let Header { run, device, round, dim, grid_bits, expected_batch, sigma, clip, .. } = *header;
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::new(Grid::new(grid_bits).unwrap(), sigma).unwrap(),
        clip: FlatL2,
        threshold: Fixed(clip),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).unwrap(),
        schedule: Constant(1.0),
        expected_batch,
    })
    .unwrap();
    let generator: ChaCha20 = ChaCha20::simulation(seed);
    let mut state = StepState::new(vec![SumWord::ZERO; dim as usize], (), SgdState { momentum: [0.0f32; 0] }, ());
    let mut ledger = Ledger::volatile(1);
    let mut open = step.open(&mut state, &mut ledger).unwrap();
    for sample in 0..u64::from(SAMPLES) {
        let grad: Vec<f32> = (0..u64::from(dim)).map(|i| ((i * 7 + sample + device % 13) % 13) as f32 - 6.0).collect();
        open.add_combined(&[&grad]).unwrap();
    }
    let mut bytes = vec![];
    open.emit(Sender { run, device, round }, &generator, |part| bytes.extend_from_slice(part)).unwrap();
    bytes
}

/// Returns the update of the firmware example `federated`. It is the output of a run under QEMU in the file
/// `DAMPER_BOARD_UPDATE`, or else the expected output of every board.
pub fn of_board() -> Vec<u8> {
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware-examples/expected/federated.txt");
    let said = std::env::var_os("DAMPER_BOARD_UPDATE").map_or(expected, Into::into);
    let text = std::fs::read_to_string(said).unwrap();
    let hex: String = text.lines().filter_map(|line| line.strip_prefix("update ")).collect();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

pub const KEY: [u8; 32] = [7; 32];

/// Both aggregators' steps on reports of a round, without state.
pub struct Pair {
    scheme: Scheme,
    pub keys: [[u8; 32]; 2],
    pub sums: [SumShare; 2],
    pub devices: usize,
}

impl Pair {
    pub fn new(scheme: &Scheme) -> Self {
        let sums = [(); 2].map(|()| SumShare::new(scheme));
        Self { scheme: scheme.clone(), keys: [KEY; 2], sums, devices: 0 }
    }

    pub fn begin(&self, report: &Report) -> Result<[Verifying; 2], PrioError> {
        let Report { header, nonce, public_share, .. } = report;
        let of = |role: Role, key| {
            Verifying::begin(&self.scheme, role, key, header, nonce, public_share, role.share_of(report))
        };
        Ok([of(Role::Leader, &self.keys[0])?, of(Role::Helper, &self.keys[1])?])
    }

    /// Verifies and adds a report.
    pub fn add(&mut self, report: &Report) -> Result<(), PrioError> {
        let [leader, helper] = self.begin(report)?;
        let messages = [leader.message().to_vec(), helper.message().to_vec()];
        let messages = [&messages[0][..], &messages[1][..]];
        let outputs = [leader.finish(messages)?, helper.finish(messages)?];
        self.sums.iter_mut().zip(outputs).try_for_each(|(sum, output)| sum.add(&output))?;
        self.devices += 1;
        Ok(())
    }

    /// Returns the aggregators' shares of the sum.
    pub fn shares(&self) -> [Vec<u8>; 2] {
        [0, 1].map(|at| self.sums[at].to_bytes().unwrap())
    }

    /// Returns the encoded sum.
    pub fn sum(&self) -> Result<Vec<u8>, PrioError> {
        let [leader, helper] = self.shares();
        combine(&self.scheme, self.devices, [&leader, &helper])
    }
}

/// Returns the sum of updates, in clear.
pub fn plain_sum(updates: &[Vec<u8>]) -> Vec<i64> {
    let mut sum = vec![];
    for bytes in updates {
        let units: Vec<i64> = Update::parse(bytes).unwrap().units().collect();
        sum.resize(units.len(), 0);
        sum.iter_mut().zip(units).for_each(|(sum, units)| *sum += units);
    }
    sum
}
