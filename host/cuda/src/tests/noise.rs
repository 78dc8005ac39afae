//! Noise equals that of `damper-core`, draw for draw.

use super::device;
use crate::{CudaDevice, ExactSum, StepNoise, SumShape, ThreadOrder};
use damper_access::Unreleased;
use damper_core::clip::AnyRule;
use damper_core::grid::Grid;
use damper_core::noise::{Address, CHUNK, ChaCha20, DiscreteGaussian, Generator as _, MAX_SIGMA, NoiseRng, Purpose};
use std::sync::Arc;

const STEP: u32 = 0x8000_0007;
const BITS: u32 = 8;

/// Noise of `damper-core` for each coordinate of a step.
pub(super) fn draws(sigma: u32, dim: usize, generator: &NoiseRng) -> Vec<i64> {
    let mechanism = DiscreteGaussian::<i64>::new(Grid::new(BITS).unwrap(), sigma).unwrap();
    let chunks = (0..dim.div_ceil(CHUNK)).flat_map(|chunk| {
        let address = Address { purpose: Purpose::GradientNoise, step: STEP, chunk: chunk as u32 };
        let mut words = generator.stream(address);
        (0..CHUNK.min(dim - chunk * CHUNK)).map(|_| mechanism.sample(&mut words)).collect::<Vec<_>>()
    });
    chunks.collect()
}

/// Release of this sum by the device.
pub(super) fn release(device: &Arc<dyn CudaDevice>, sum: &[i64], sigma: u32, generator: &NoiseRng) -> Vec<f32> {
    let grid = Grid::new(BITS).unwrap();
    let shape = SumShape { parts: &[sum.len()], rows: 1, layers: None, grid };
    let mut exact = ExactSum::new(device, &shape).unwrap();
    exact.begin(256.0, AnyRule::Flat).unwrap();
    exact.totals.sum.upload(&sum.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let mechanism = DiscreteGaussian::new(grid, sigma).unwrap();
    exact.release(&StepNoise { mechanism, generator, step: STEP, expected_batch: 1 }, Unreleased::claim()).unwrap();
    let mut released = vec![f32::NAN; sum.len()];
    exact.read_released(&mut released).unwrap();
    released
}

// A sum that is the negative of the noise is released as zeros, if all 64 bits of each draw match the core. One draw in
// 350,000 depends on all digits.
pub(super) fn check(device: &Arc<dyn CudaDevice>) {
    let generator = ChaCha20::simulation(17);
    for sigma in [1, 7, 1024, (1 << 20) + 3, MAX_SIGMA - 1] {
        let opposite: Vec<i64> = draws(sigma, (1 << 20) + 77, &generator).iter().map(|z| -z).collect();
        let wrong = release(device, &opposite, sigma, &generator).iter().position(|x| *x != 0.0);
        assert_eq!(wrong, None, "sigma {sigma}");
    }
}

#[test]
fn draws_are_those_of_core() {
    if let Some(device) = device(ThreadOrder::Shuffled(3)) {
        check(&device);
    }
}

// Sums near the limits of 64 bits wrap around, and large sums round to the nearest float.
#[test]
fn noisy_sums_round_as_in_core() {
    let Some(device) = device(ThreadOrder::Reversed) else { return };
    let generator = ChaCha20::simulation(2);
    let sums =
        [0, 1, -1, i64::MAX, i64::MIN, (1 << 24) + 1, -(1 << 24) - 3, (1 << 40) + (1 << 15), 0x7fff_ff40_0000_0000];
    let sum: Vec<i64> = sums.iter().copied().cycle().take(3000).collect();
    for sigma in [3, 1 << 20] {
        let expected: Vec<u32> = draws(sigma, sum.len(), &generator)
            .iter()
            .zip(&sum)
            .map(|(z, sum)| (sum.wrapping_add(*z) as f32).to_bits())
            .collect();
        let released = release(&device, &sum, sigma, &generator);
        assert_eq!(released.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), expected);
    }
}
