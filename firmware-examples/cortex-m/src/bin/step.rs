//! One private step and nothing else: exact noise, ledger, SGD with momentum, no formatting. Its image is what the step costs in
//! flash, and it must link without a single panic.
#![no_std]
#![no_main]

use core::hint::black_box;
use cortex_m_semihosting::debug;
use damper_core::accounting::{Ledger, Volatile};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian, Key};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;

const DIM: usize = 64;

/// `None` where anything was refused. What a device reads at run time is opaque to the compiler: lengths, the key, the
/// configuration's numbers.
fn step() -> Option<[f32; DIM]> {
    let step = PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::<i32>::with_multiplier(Grid::new(black_box(16)).ok()?, black_box(1.0)).ok()?,
        clip: FlatL2,
        threshold: Fixed(black_box(1.0)),
        filter: Identity,
        optimizer: Sgd::new(black_box(0.9), false, 0.0).ok()?,
        schedule: Constant(black_box(0.5)),
        expected_batch: black_box(60),
    })
    .ok()?;
    let (mut sum, mut momentum, mut params) = ([0i32; DIM], [0f32; DIM], [0f32; DIM]);
    let generator = ChaCha20::<1>::private(Key::from_bytes(&black_box([7; 32])));
    let mut ledger = Ledger::resume(black_box(3), black_box(1));
    let (head, tail) = ([0.25; 40], [-0.25; DIM - 40]);
    let mut state = StepState {
        sum: black_box(&mut sum[..]),
        filter: (),
        threshold: (),
        optimizer: SgdState { momentum: black_box(&mut momentum[..]) },
    };
    while let Ok(mut open) = step.open(&mut state, &mut ledger, &mut Volatile) {
        open.add_mixed(&[black_box(&head[..]), black_box(&tail[..])]).ok()?;
        open.finish(black_box(&mut params[..]), &generator).ok()?;
    }
    (ledger.paid() == 3).then_some(params)
}

#[cortex_m_rt::entry]
fn main() -> ! {
    let status = match black_box(step()) {
        Some(_) => debug::EXIT_SUCCESS,
        None => debug::EXIT_FAILURE,
    };
    loop {
        debug::exit(status);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        debug::exit(debug::EXIT_FAILURE);
    }
}
