//! Tests of the dry run of a sum: fingerprints of rows, and a release that cannot be read.

use super::device;
use super::sums::{upload, words};
use crate::{DeviceMemory, DeviceTensor, ExactSum, StepNoise, SumShape, ThreadOrder};
use damper_access::Unreleased;
use damper_core::clip::AnyRule;
use damper_core::grid::Grid;
use damper_core::noise::{Address, ChaCha20, DiscreteGaussian, Generator as _, Purpose};
use damper_testing::Random;

const PARTS: [usize; 3] = [700, 1, 1900];

#[test]
fn fingerprints_differ_with_the_bits() {
    let dim = PARTS.iter().sum();
    let mut random = Random(3);
    let first: Vec<f32> = (0..dim).map(|_| random.below(1000) as f32 * 0.001).collect();
    let mut rows = vec![first.clone(); 9];
    // A changed bit, a sign of zero, another NaN, two swapped coordinates, the last coordinate.
    rows[1][900] = f32::from_bits(rows[1][900].to_bits() ^ 1);
    (rows[2][5], rows[3][5], rows[4][5], rows[5][5]) = (0.0, -0.0, f32::NAN, f32::from_bits(f32::NAN.to_bits() | 1));
    rows[6].swap(10, 2000);
    rows[7][dim - 1] += 1.0;
    let mut found = vec![];
    for order in [ThreadOrder::Numbered, ThreadOrder::Reversed, ThreadOrder::Shuffled(8)] {
        let Some(device) = device(order) else { return };
        let shape = SumShape { parts: &PARTS, rows: rows.len(), layers: None, grid: Grid::new(16).unwrap() };
        let mut sum = ExactSum::new(&device, &shape).unwrap();
        let mut at = 0;
        let memory: Vec<DeviceMemory> = PARTS
            .iter()
            .map(|len| {
                at += len;
                upload(&device, &rows, at - len..at)
            })
            .collect();
        let tensors: Vec<DeviceTensor<'_>> = memory.iter().map(DeviceTensor::of).collect();
        let prints = sum.fingerprints(&tensors, Unreleased::claim()).unwrap();
        assert_eq!(prints[0], prints[8]);
        let mut different = prints[..8].to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 8);
        found.push(prints);
        assert!(sum.fingerprints(&tensors[1..], Unreleased::claim()).is_err());
    }
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
}

// A rehearsed release reveals nothing, leaves nothing, and does not use the noise of a step. The same holds for a
// discarded sum.
#[test]
fn rehearsal_leaves_nothing() {
    let Some(device) = device(ThreadOrder::Numbered) else { return };
    let grid = Grid::new(16).unwrap();
    let mechanism = DiscreteGaussian::new(grid, 1 << 16).unwrap();
    let mut sum = ExactSum::new(&device, &SumShape { parts: &[40], rows: 2, layers: None, grid }).unwrap();
    let rows = [[0.1f32; 40], [-1.0; 40]];
    let grads = upload(&device, &rows, 0..40);
    assert!(sum.rehearse_release(mechanism, Unreleased::claim()).is_err());
    for is_discarded in [false, true] {
        sum.begin(1.0, AnyRule::Flat).unwrap();
        sum.add_chunk(&[DeviceTensor::of(&grads)], &[true; 2], Unreleased::claim()).unwrap();
        assert!(words(&sum).iter().all(|word| *word != 0));
        if is_discarded {
            sum.discard().unwrap();
        } else {
            sum.rehearse_release(mechanism, Unreleased::claim()).unwrap();
        }
        assert!(words(&sum).iter().all(|word| *word == 0) && sum.read_released(&mut [0.0; 40]).is_err());
        let generator = ChaCha20::<1>::simulation(1);
        let noise = StepNoise { mechanism, generator: &generator, step: 0, expected_batch: 1 };
        assert!(sum.release(&noise, Unreleased::claim()).is_err(), "a step that was not begun");
        if is_discarded {
            sum.begin(1.0, AnyRule::Flat).unwrap();
            sum.release(&noise, Unreleased::claim()).unwrap();
            let mut released = [0.0; 40];
            sum.read_released(&mut released).unwrap();
            let words = &mut generator.stream(Address { purpose: Purpose::GradientNoise, step: 0, chunk: 0 });
            let wanted: Vec<f32> = (0..40).map(|_| mechanism.sample(words) as f32 / 65536.0).collect();
            assert_eq!(released[..], wanted);
        }
    }
}
