//! Whole steps on the device and in `damper-core`.

use super::device;
use super::sums::upload;
use crate::{CudaDevice, DeviceTensor, ExactSum, StepNoise, SumShape, ThreadOrder};
use damper_access::Unreleased;
use damper_core::accounting::Ledger;
use damper_core::clip::{AnyRule, FlatL2};
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian, NoiseRng};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_testing::Random;
use std::sync::Arc;

const PARTS: [usize; 3] = [700, 1, 299];
const DIM: usize = 1000;
const ROWS: usize = 3;
const STEPS: usize = 4;

type Step = PrivateStep<Identity, Sgd, DiscreteGaussian<i64>>;

fn step() -> Step {
    PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::with_multiplier(Grid::new(16).unwrap(), 0.7).unwrap(),
        clip: FlatL2,
        threshold: Fixed(0.3),
        filter: Identity,
        optimizer: Sgd::new(0.9, false, 0.0).unwrap(),
        schedule: Constant(0.1),
        expected_batch: 7,
    })
    .unwrap()
}

/// The gradients of a step's samples. One of them is not finite.
fn samples(step: usize) -> Vec<Vec<f32>> {
    let mut random = Random(step as u64);
    let mut samples: Vec<Vec<f32>> = (0..2 * ROWS - 1).map(|_| (0..DIM).map(|_| random.signed()).collect()).collect();
    samples[1][17] = f32::NAN;
    samples
}

/// Calls `each` for each open step.
fn train(
    mut each: impl FnMut(&Step, usize, damper_core::step::Open<'_, Step, (), SgdState<Vec<f32>>>, &mut [f32], &NoiseRng),
) -> Vec<f32> {
    let (step, generator) = (step(), ChaCha20::simulation(9));
    let optimizer = SgdState { momentum: vec![0.0; DIM] };
    let mut state = StepState::new(vec![SumWord::<i64>::ZERO; DIM], (), optimizer, ());
    let (mut ledger, mut params) = (Ledger::volatile(STEPS as u32), vec![0.5f32; DIM]);
    for number in 0..STEPS {
        let open = step.open(&mut state, &mut ledger).unwrap();
        each(&step, number, open, &mut params, &generator);
    }
    params
}

// The device sums and draws. The released mean goes through the filter and optimizer of the core.
pub(super) fn check(device: &Arc<dyn CudaDevice>) {
    let expected = train(|_, number, mut open, params, generator| {
        samples(number).iter().for_each(|grad| open.add(grad).unwrap());
        open.finish(params, generator).unwrap();
    });
    let shape = SumShape { parts: &PARTS, rows: ROWS, layers: None, grid: Grid::new(16).unwrap() };
    let mut sum = ExactSum::new(device, &shape).unwrap();
    let moved = train(|step, number, open, params, generator| {
        sum.begin(open.clip(), AnyRule::Flat).unwrap();
        for chunk in samples(number).chunks(ROWS) {
            // Rows that are missing hold what must not count.
            let rows: Vec<&[f32]> =
                (0..ROWS).map(|row| chunk.get(row).map_or(&[3.0; DIM][..], Vec::as_slice)).collect();
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
        let noise = StepNoise {
            mechanism: step.slots().mechanism,
            generator,
            step: open.number(),
            expected_batch: step.slots().expected_batch,
        };
        sum.release(&noise, Unreleased::claim()).unwrap();
        let mut released = vec![0.0; DIM];
        sum.read_released(&mut released).unwrap();
        open.finish_exchanged(params, generator, 1, |parts| {
            for part in parts {
                let here = &released[part.coordinates()];
                assert!(part.take_released(here, Unreleased::claim()));
            }
            Ok::<(), ()>(())
        })
        .unwrap();
    });
    let bits = |params: &[f32]| params.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&moved), bits(&expected));
    assert!(moved.iter().any(|x| *x != 0.5));
}

#[test]
fn steps_move_parameters_as_in_core() {
    if let Some(device) = device(ThreadOrder::Shuffled(1)) {
        check(&device);
    }
}
