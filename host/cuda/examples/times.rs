//! Prints the times of a private step on the first card: `times COORDINATES ROWS [CHUNKS]`.
//! Without a card, it runs on the processor, so that the program itself can be tested.

use damper_access::Unreleased;
use damper_core::clip::AnyRule;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::Begin;
use damper_cuda::{
    Card, CudaDevice, DeviceError, DeviceFilter, DeviceMemory, DeviceOptimizer, DeviceParams, DeviceTensor, ExactSum,
    StepNoise, SumShape,
};
use std::sync::Arc;
use std::time::Instant;

/// Coordinates of a tensor.
const PART: usize = 1 << 16;
const REPEATS: u32 = 7;
const BITS: u32 = 16;

fn device() -> Result<Arc<dyn CudaDevice>, DeviceError> {
    match Card::open(0) {
        Ok(card) => {
            let [free, all] = card.memory()?;
            println!("card {}, {} of {} MiB free", card.architecture(), free >> 20, all >> 20);
            Ok(Arc::new(card))
        }
        Err(why) => {
            println!("emulated: {why}");
            Ok(Arc::new(damper_cuda::EmulatedDevice::new(damper_cuda::ThreadOrder::Numbered, u64::MAX)?))
        }
    }
}

/// Median time of `work` in milliseconds, without the first run.
fn median(
    device: &Arc<dyn CudaDevice>,
    mut work: impl FnMut(u32) -> Result<(), DeviceError>,
) -> Result<f64, DeviceError> {
    let mut times = Vec::new();
    for repeat in 0..=REPEATS {
        device.synchronize()?;
        let start = Instant::now();
        work(repeat)?;
        device.synchronize()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.remove(0);
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let (Some(dim), Some(rows)) = (numbers.next().transpose()?, numbers.next().transpose()?) else {
        return Err("usage: times COORDINATES ROWS [CHUNKS]".into());
    };
    let chunks = numbers.next().transpose()?.unwrap_or(1);
    let device = device()?;
    let parts: Vec<usize> = (0..dim).step_by(PART).map(|at| PART.min(dim - at)).collect();
    let grid = Grid::new(BITS)?;
    let shape = SumShape { parts: &parts, rows, layers: None, grid };
    println!(
        "{dim} coordinates, {chunks} chunks of {rows} rows: {} MiB beside the gradients",
        ExactSum::device_bytes(&shape)? >> 20
    );
    let mut sum = ExactSum::new(&device, &shape)?;
    let mut state = 1u32;
    let bytes: Vec<u8> = (0..rows * PART)
        .flat_map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state as i32 as f32 / i32::MAX as f32).to_le_bytes()
        })
        .collect();
    let upload = |len: &usize| DeviceMemory::of(&device, &bytes[..rows * len * 4]);
    let gradients = parts.iter().map(upload).collect::<Result<Vec<_>, _>>()?;
    let tensors: Vec<DeviceTensor<'_>> = gradients.iter().map(DeviceTensor::of).collect();

    let generator = ChaCha20::<16>::simulation(1);
    let mechanism = DiscreteGaussian::with_multiplier(grid, 1.0)?;
    let adam = DeviceOptimizer::Adam {
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        weight_decay: 0.0,
        filtered_second: false,
        floored: false,
    };
    let filter = DeviceFilter::Iir { a: vec![-0.9], b: vec![0.1], is_corrected: true, capacity: 1 };
    let mut params = DeviceParams::new(&device, &vec![0.0; dim], filter, adam, false)?;
    let present = vec![true; rows];
    let add = median(&device, |_| {
        sum.begin(1.0, AnyRule::Flat)?;
        (0..chunks).try_for_each(|_| sum.add_chunk(&tensors, &present, Unreleased::claim()).map(drop))
    })?;
    let release = median(&device, |step| {
        sum.begin(1.0, AnyRule::Flat)?;
        let noise = StepNoise { mechanism, generator: &generator, step, expected_batch: rows as u32 };
        sum.release(&noise, Unreleased::claim())
    })?;
    let update = median(&device, |_| params.update(&sum, Begin { lr: 0.1, noise_std: 1.0 }))?;
    println!(
        "norms, clip, rounding and sum {add:.2} ms; noise and release {release:.2} ms; filter and Adam {update:.2} ms"
    );
    Ok(())
}
