//! One private step and nothing else: exact noise, ledger, SGD with momentum, no formatting. An image of it shows what a step costs
//! in flash, and that it links without a single panic.

use core::hint::black_box;
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

/// A gradient, in two parts.
static GRAD: ([f32; 40], [f32; DIM - 40]) = ([0.25; 40], [-0.25; DIM - 40]);
static KEY: [u8; 32] = [7; 32];

/// Two steps; `None` where anything was refused. What a device reads at run time is opaque to the compiler: lengths, the key, the
/// configuration's numbers. It copies no array, which would count the copying routine.
#[must_use]
pub fn run() -> Option<()> {
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
    let generator = ChaCha20::<1>::private(Key::from_bytes(black_box(&KEY)));
    let mut ledger = Ledger::resume(black_box(3), black_box(1));
    let mut state = StepState {
        sum: black_box(&mut sum[..]),
        filter: (),
        threshold: (),
        optimizer: SgdState { momentum: black_box(&mut momentum[..]) },
    };
    while let Ok(mut open) = step.open(&mut state, &mut ledger, &mut Volatile) {
        open.add_mixed(&[black_box(&GRAD.0[..]), black_box(&GRAD.1[..])]).ok()?;
        open.finish(black_box(&mut params[..]), &generator).ok()?;
    }
    black_box(&params);
    (ledger.paid() == 3).then_some(())
}
