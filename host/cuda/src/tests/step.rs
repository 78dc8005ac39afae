//! Complete steps on the device and in `damper-core`.

use super::device;
use super::sums::upload;
use crate::{
    CudaDevice, DeviceFilter, DeviceOptimizer, DeviceParams, DeviceTensor, ExactSum, StepNoise, SumShape, ThreadOrder,
};
use damper_access::Unreleased;
use damper_core::accounting::Ledger;
use damper_core::clip::{AnyRule, FlatL2};
use damper_core::filter::{Filter, Identity, Iir, IirState};
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian, NoiseRng};
use damper_core::optimizer::{Adam, AdamState, Begin, Optimizer, Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{Open, PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_testing::Random;
use std::sync::Arc;

// Contract 2 adds up no blocks.
const PARTS: [usize; 3] = [1700, 1, 2299];
const DIM: usize = PARTS[0] + PARTS[1] + PARTS[2];
const ROWS: usize = 3;
const STEPS: usize = 4;
const MULTIPLIER: f64 = 0.7;
const CLIP: f32 = 0.3;
const RATE: f64 = 0.1;
const EXPECTED_BATCH: u32 = 7;
const START: f32 = 0.5;

type Step<F, O> = PrivateStep<F, O, DiscreteGaussian<i64>>;

/// Filter, optimizer, and the states of both.
struct Method<F, FS, O, OS> {
    filter: F,
    filter_state: fn() -> FS,
    optimizer: O,
    optimizer_state: fn() -> OS,
    on_device: (DeviceFilter, DeviceOptimizer),
}

/// Gradients of a step's samples. One of them is not finite.
fn samples(step: usize) -> Vec<Vec<f32>> {
    let mut random = Random(step as u64);
    let mut samples: Vec<Vec<f32>> = (0..2 * ROWS - 1).map(|_| (0..DIM).map(|_| random.signed()).collect()).collect();
    samples[1][17] = f32::NAN;
    samples
}

impl<F: Filter<FS>, FS, O: Optimizer<OS>, OS> Method<F, FS, O, OS> {
    fn step(&self) -> Step<F, O> {
        PrivateStep::new(Slots {
            mechanism: DiscreteGaussian::with_multiplier(Grid::new(16).unwrap(), MULTIPLIER).unwrap(),
            clip: FlatL2,
            threshold: Fixed(CLIP),
            filter: self.filter.clone(),
            optimizer: self.optimizer.clone(),
            schedule: Constant(RATE),
            expected_batch: EXPECTED_BATCH,
        })
        .unwrap()
    }

    /// Parameters after the steps that `each` runs.
    fn train(
        &self,
        mut each: impl FnMut(&Step<F, O>, usize, Open<'_, Step<F, O>, FS, OS>, &mut [f32], &NoiseRng),
    ) -> Vec<f32> {
        let (step, generator) = (self.step(), ChaCha20::simulation(9));
        let sum = vec![SumWord::<i64>::ZERO; DIM];
        let mut state = StepState::new(sum, (self.filter_state)(), (self.optimizer_state)(), ());
        let (mut ledger, mut params) = (Ledger::volatile(STEPS as u32), vec![START; DIM]);
        for number in 0..STEPS {
            let open = step.open(&mut state, &mut ledger).unwrap();
            each(&step, number, open, &mut params, &generator);
        }
        params
    }

    /// Runs the same steps in the core and twice on the device. The released mean goes once through the filter and
    /// optimizer of the core, and once through those of the device.
    fn check(self, device: &Arc<dyn CudaDevice>) {
        let expected = self.train(|_, number, mut open, params, generator| {
            samples(number).iter().for_each(|grad| open.add(grad).unwrap());
            open.finish(params, generator).unwrap();
        });
        let shape = SumShape { parts: &PARTS, rows: ROWS, layers: None, grid: Grid::new(16).unwrap() };
        let mut sum = ExactSum::new(device, &shape).unwrap();
        let (filter, optimizer) = self.on_device.clone();
        let mut on_device = DeviceParams::new(device, &[START; DIM], filter, optimizer, false).unwrap();
        let moved = self.train(|step, number, open, params, generator| {
            sum.begin(open.clip(), AnyRule::Flat).unwrap();
            samples(number).chunks(ROWS).for_each(|chunk| add(&mut sum, device, chunk));
            let mechanism = step.slots().mechanism;
            let noise = StepNoise { mechanism, generator, step: open.number(), expected_batch: EXPECTED_BATCH };
            sum.release(&noise, Unreleased::claim()).unwrap();
            let noise_std = mechanism.multiplier() * f64::from(CLIP) / f64::from(EXPECTED_BATCH);
            on_device.update(&sum, Begin { lr: RATE, noise_std }).unwrap();
            let mut released = vec![0.0; DIM];
            sum.read_released(&mut released).unwrap();
            open.finish_exchanged(params, generator, 1, |parts| {
                for part in parts {
                    assert!(part.take_released(&released[part.coordinates()], Unreleased::claim()));
                }
                Ok::<(), ()>(())
            })
            .unwrap();
        });
        let mut there = vec![f32::NAN; DIM];
        on_device.read_params(&mut there).unwrap();
        let bits = |params: &[f32]| params.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&moved), bits(&expected));
        assert_eq!(bits(&there), bits(&expected));
        assert!(expected.iter().any(|x| *x != START));
    }
}

/// Adds a chunk of samples, which may have fewer samples than rows.
fn add(sum: &mut ExactSum, device: &Arc<dyn CudaDevice>, chunk: &[Vec<f32>]) {
    // Missing rows have values that must not count.
    let rows: Vec<&[f32]> = (0..ROWS).map(|row| chunk.get(row).map_or(&[3.0; DIM][..], Vec::as_slice)).collect();
    let present: Vec<bool> = (0..ROWS).map(|row| row < chunk.len()).collect();
    let mut at = 0;
    let memory = PARTS.map(|len| {
        let columns = at..at + len;
        at += len;
        upload(device, &rows, columns)
    });
    let tensors = memory.each_ref().map(DeviceTensor::of);
    let norms = sum.add_chunk(&tensors, &present, Unreleased::claim()).unwrap();
    assert!(norms.iter().zip(&present).filter(|(norm, _)| norm.is_some()).all(|(_, present)| *present));
}

/// Checks DP-SGD with momentum, and DOPPLER with Adam.
pub(super) fn check(device: &Arc<dyn CudaDevice>) {
    let sgd = Method {
        filter: Identity,
        filter_state: || (),
        optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
        optimizer_state: || SgdState { momentum: vec![0.0; DIM] },
        on_device: (DeviceFilter::Identity, DeviceOptimizer::Sgd { momentum: 0.9, nesterov: false, weight_decay: 0.0 }),
    };
    sgd.check(device);
    let (beta1, beta2, epsilon, weight_decay) = (0.0, 0.99, 1e-6, 0.1);
    let adam = Method {
        filter: Iir::<8>::new(&[-0.9], &[0.075, 0.025]).unwrap(),
        filter_state: || IirState::new(vec![0.0; DIM]),
        optimizer: Adam::new(beta1, beta2, epsilon, weight_decay).unwrap(),
        optimizer_state: || AdamState::new(vec![0.0; DIM], vec![0.0; DIM]),
        on_device: (
            DeviceFilter::Iir { a: vec![-0.9], b: vec![0.075, 0.025], is_corrected: true, capacity: 8 },
            DeviceOptimizer::Adam { beta1, beta2, epsilon, weight_decay, filtered_second: false, floored: false },
        ),
    };
    adam.check(device);
}

#[test]
fn steps_move_parameters_as_in_core() {
    if let Some(device) = device(ThreadOrder::Shuffled(1)) {
        check(&device);
    }
}
