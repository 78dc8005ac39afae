//! Tests of wiping and of the order of calls.

use super::{NEED, device};
use crate::{
    CudaDevice, DeviceError, DeviceMemory, DeviceTensor, EmulatedDevice, ExactSum, StepNoise, SumShape, ThreadOrder,
};
use damper_access::Unreleased;
use damper_core::clip::AnyRule;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian, NoiseRng};
use std::sync::Arc;

const DIM: usize = 1500;

fn grid() -> Grid {
    Grid::new(16).unwrap()
}

fn sum(device: &Arc<dyn CudaDevice>) -> Result<ExactSum, DeviceError> {
    ExactSum::new(device, &SumShape { parts: &[DIM], rows: 2, layers: None, grid: grid() })
}

fn noise(generator: &NoiseRng, bits: u32) -> StepNoise<'_, 16> {
    let mechanism = DiscreteGaussian::new(Grid::new(bits).unwrap(), 1 << 16).unwrap();
    StepNoise { mechanism, generator, step: 5, expected_batch: 2 }
}

fn is_zero(memory: &DeviceMemory) -> bool {
    let mut bytes = vec![1; memory.bytes() as usize];
    memory.download(&mut bytes).unwrap();
    bytes.iter().all(|byte| *byte == 0)
}

fn secrets(sum: &ExactSum) -> [(&'static str, &DeviceMemory); 10] {
    let chunk = &sum.chunk;
    [
        ("sum", &sum.totals.sum),
        ("key", &sum.totals.key),
        ("step", &sum.totals.step),
        ("present", &chunk.present),
        ("lanes", &chunk.lanes),
        ("totals", &chunk.totals),
        ("norms", &chunk.norms),
        ("scales", &chunk.scales),
        ("failed", &chunk.failed),
        ("prints", &chunk.prints),
    ]
}

/// Sum of two non-zero samples.
fn filled(device: &Arc<dyn CudaDevice>) -> ExactSum {
    let mut sum = sum(device).unwrap();
    let grads: Vec<u8> = (0..2 * DIM).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let grads = DeviceMemory::of(device, &grads).unwrap();
    sum.begin(1.0, AnyRule::Flat).unwrap();
    sum.add_chunk(&[DeviceTensor::of(&grads)], &[true; 2], Unreleased::claim()).unwrap();
    for (name, memory) in secrets(&sum) {
        let is_still_zero = matches!(name, "key" | "step" | "failed" | "prints");
        assert_eq!(is_zero(memory), is_still_zero, "{name}");
    }
    sum
}

/// Returns the name of a memory that is not wiped after a release.
pub(super) fn check(device: &Arc<dyn CudaDevice>) -> Result<(), &'static str> {
    let (mut sum, generator) = (filled(device), ChaCha20::simulation(1));
    sum.release(&noise(&generator, 16), Unreleased::claim()).unwrap();
    secrets(&sum).into_iter().find(|(_, memory)| !is_zero(memory)).map_or(Ok(()), |(name, _)| Err(name))
}

/// The same for the sum alone, after the kernel has released it and before the host wipes anything.
pub(super) fn check_drawn(device: &Arc<dyn CudaDevice>) -> Result<(), &'static str> {
    let (sum, generator) = (filled(device), ChaCha20::simulation(1));
    sum.draw(&noise(&generator, 16), 1.0, Unreleased::claim()).unwrap();
    if is_zero(&sum.totals.sum) { Ok(()) } else { Err("sum") }
}

#[test]
fn all_secrets_are_wiped_by_the_release() {
    let Some(device) = device(ThreadOrder::Numbered) else { return };
    check_drawn(&device).unwrap();
    check(&device).unwrap();
}

// Nothing is released twice, before a step, or after an error.
#[test]
fn calls_out_of_order_are_errors() {
    let Some(device) = device(ThreadOrder::Numbered) else { return };
    let (mut sum, generator) = (sum(&device).unwrap(), ChaCha20::simulation(1));
    let (noise16, noise8) = (noise(&generator, 16), noise(&generator, 8));
    let grads = DeviceMemory::zeros(&device, 8 * DIM as u64).unwrap();
    let (grads, access) = ([DeviceTensor::of(&grads)], Unreleased::claim());
    let mut out = vec![0.0; DIM];
    assert!(matches!(sum.release(&noise16, access), Err(DeviceError::Order(_))));
    assert!(matches!(sum.add_chunk(&grads, &[true; 2], access), Err(DeviceError::Order(_))));
    assert!(sum.begin(f32::NAN, AnyRule::Flat).is_err());
    sum.begin(1.0, AnyRule::Flat).unwrap();
    assert!(sum.read_released(&mut out).is_err());
    assert!(matches!(sum.add_chunk(&grads, &[true], access), Err(DeviceError::Shape(_))));
    assert!(matches!(sum.add_chunk(&[], &[true; 2], access), Err(DeviceError::Shape(_))));
    assert!(matches!(sum.release(&noise8, access), Err(DeviceError::Shape(_))));
    sum.add_chunk(&grads, &[true; 2], access).unwrap();
    sum.release(&noise16, access).unwrap();
    assert!(sum.read_released(&mut out[1..]).is_err());
    sum.read_released(&mut out).unwrap();
    assert!(matches!(sum.release(&noise16, access), Err(DeviceError::Order(_))));
    assert!(matches!(sum.add_chunk(&grads, &[true; 2], access), Err(DeviceError::Order(_))));
    // The noise of a step is drawn once.
    sum.begin(1.0, AnyRule::Flat).unwrap();
    assert!(matches!(sum.release(&noise16, access), Err(DeviceError::Order(_))));
    sum.release(&StepNoise { step: 6, ..noise16 }, access).unwrap();
}

// A device without room fails at construction of the sum, and stores nothing.
#[test]
fn missing_room_is_an_error_before_the_step() {
    let emulated = match EmulatedDevice::new(ThreadOrder::Numbered, 10_000) {
        Ok(emulated) => Arc::new(emulated),
        Err(why) => return damper_testing::skip(NEED, why),
    };
    let device: Arc<dyn CudaDevice> = Arc::clone(&emulated) as _;
    assert!(matches!(sum(&device).err(), Some(DeviceError::NoMemory { .. })));
    assert_eq!(emulated.taken(), (0, 0));
    let tiny = SumShape { parts: &[5], rows: 2, layers: None, grid: grid() };
    let sum = ExactSum::new(&device, &tiny).unwrap();
    assert_eq!(emulated.taken().1, ExactSum::device_bytes(&tiny).unwrap());
    drop(sum);
    assert_eq!(emulated.taken(), (0, 0));
}

// Sizes that exceed the device's arithmetic.
#[test]
fn sizes_out_of_range_are_refused() {
    let Some(device) = device(ThreadOrder::Numbered) else { return };
    let refused = |parts: &[usize], rows| {
        let shape = SumShape { parts, rows, layers: None, grid: grid() };
        matches!(ExactSum::new(&device, &shape), Err(DeviceError::Shape(_)))
    };
    assert!(refused(&[5], 0) && refused(&[5], 65536) && refused(&[usize::MAX, 2], 1) && refused(&[1 << 31], 1));
    assert!(!refused(&[5], 3) && !refused(&[], 1) && !refused(&[0, 0], 1));
}

// A sum that was moved to the host and back has the same release as a sum that stayed.
#[test]
fn words_move_to_the_host_and_back() {
    let Some(device) = device(ThreadOrder::Numbered) else { return };
    let (generator, access) = (ChaCha20::simulation(1), Unreleased::claim());
    let release = |sum: &mut ExactSum| {
        sum.release(&noise(&generator, 16), access).unwrap();
        let mut out = vec![0.0; DIM];
        sum.read_released(&mut out).unwrap();
        out
    };
    let expected = release(&mut filled(&device));
    let mut sum = filled(&device);
    let mut words = vec![0; DIM];
    sum.take_words(&mut words, access).unwrap();
    assert!(is_zero(&sum.totals.sum) && words[DIM - 1] > 0);
    // The noise alone would reveal a sum that the host has released with the same noise.
    assert!(matches!(sum.release(&noise(&generator, 16), access), Err(DeviceError::Order(_))));
    assert!(matches!(sum.take_words(&mut vec![0; DIM], access), Err(DeviceError::Order(_))));
    assert!(matches!(sum.put_words(&words[1..], access), Err(DeviceError::Shape(_))));
    sum.put_words(&words, access).unwrap();
    assert_eq!(super::sums::words(&sum), words);
    assert_eq!(release(&mut sum), expected);
    assert!(matches!(sum.take_words(&mut words, access), Err(DeviceError::Order(_))));
    assert!(matches!(sum.put_words(&words, access), Err(DeviceError::Order(_))));
}
