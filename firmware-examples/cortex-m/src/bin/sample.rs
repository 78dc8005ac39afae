//! Instructions of a private step to clip and add one sample's gradient of 650 values. It prints a line for each
//! gradient, `name instructions`.
//!
//! It runs only under QEMU with `-icount shift=10`. `../../timing` runs it and prints which gradients can be
//! distinguished.
#![no_std]
#![no_main]

use core::hint::black_box;
use cortex_m_semihosting::hio;
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::prelude::*;
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;
use damper_firmware_cortex_m::{Ticks, exit};

const DIM: usize = 650;

/// A name, and the value of each coordinate.
type Gradient = (&'static str, fn(usize) -> f32);

/// Gradients by name. All are below the clip, which is 1, unless the name states otherwise.
const GRADIENTS: [Gradient; 14] = [
    ("small", |at| 1e-3 + at as f32 * 1e-5),
    ("zero", |_| 0.0),
    ("negative", |at| -1e-3 - at as f32 * 1e-5),
    ("mixed", |at| if at % 3 == 0 { -0.02 } else { 0.01 }),
    ("one", |at| if at == 17 { 0.5 } else { 0.0 }),
    ("subnormal", |at| f32::from_bits(at as u32)),
    ("clipped", |at| 1.0 + at as f32 * 1e-2),
    ("clipped-negative", |at| -7.0 - at as f32),
    ("clipped-one", |at| if at == 649 { 1e6 } else { 0.0 }),
    ("at-the-clip", |at| if at == 0 { 1.0 } else { 0.0 }),
    ("nan-first", |at| if at == 0 { f32::NAN } else { 0.01 }),
    ("nan-last", |at| if at == 649 { f32::NAN } else { 0.01 }),
    ("infinite", |at| if at == 300 { f32::INFINITY } else { 0.01 }),
    ("too-large", |_| 1e20),
];

fn measure() -> Option<()> {
    let ticks = Ticks::start()?;
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(black_box(16)).ok()?, black_box(1.0)).ok()?,
        clip: FlatL2,
        threshold: Fixed(black_box(1.0)),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0).ok()?,
        schedule: Constant(1.0),
        expected_batch: 1,
    })
    .ok()?;
    let mut state = StepState::new([SumWord::<i32>::ZERO; DIM], (), SgdState { momentum: [0f32; 0] }, ());
    let mut ledger = Ledger::volatile(1);
    let mut open = step.open(&mut state, &mut ledger).ok()?;
    let mut stdout = hio::hstdout().ok()?;
    for (name, value) in black_box(GRADIENTS) {
        let grad: [f32; DIM] = core::array::from_fn(value);
        let mut added = Ok(());
        let instructions = ticks.count(|| added = open.add(black_box(&grad)));
        added.ok()?;
        core::fmt::Write::write_fmt(&mut stdout, format_args!("{name} {instructions}\n")).ok()?;
    }
    open.finish(&mut [0f32; DIM][..], &ChaCha20::<1>::simulation(black_box(1))).ok()?;
    Some(())
}

#[cortex_m_rt::entry]
fn main() -> ! {
    exit(measure().is_some())
}
