//! Only one private step: exact noise, ledger, SGD with momentum, no formatting. An image of it shows the cost of a
//! step in flash, and that it links without a single panic.

use core::hint::black_box;
use damper_core::accounting::{Ledger, Volatile};
use damper_core::clip::FlatL2;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian, Key};
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::private::SumWord;
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Slots, StepState};
use damper_core::threshold::Fixed;

/// Parameters.
pub const DIM: usize = 64;

/// A gradient, in two parts.
static GRAD: ([f32; 40], [f32; DIM - 40]) = ([0.25; 40], [-0.25; DIM - 40]);

/// A step of DP-SGD with exact noise, with these slots for filter and optimizer.
pub type With<F, O> = PrivateStep<F, O, DiscreteGaussian<i32>>;

/// Returns the measured step with this filter and optimizer. The configuration's numbers, which a device reads at run
/// time, are opaque to the compiler.
#[inline(always)]
pub fn with<F: Clone, O: Clone>(filter: F, optimizer: O) -> Option<With<F, O>> {
    PrivateStep::new(Slots {
        mechanism: DiscreteGaussian::with_multiplier(Grid::new(black_box(16)).ok()?, black_box(1.0)).ok()?,
        clip: FlatL2,
        threshold: Fixed(black_box(1.0)),
        filter,
        optimizer,
        schedule: Constant(black_box(0.5)),
        expected_batch: black_box(60),
    })
    .ok()
}

/// Returns the step with SGD with momentum and no filter.
#[inline(always)]
pub fn with_momentum() -> Option<With<Identity, Sgd>> {
    with(Identity, Sgd::new(black_box(0.9), false, 0.0).ok()?)
}

/// Takes two steps. Returns `None` if a call was refused. Lengths and the key are opaque to the compiler too. It copies
/// no array, because that would count the copying routine.
#[must_use]
pub fn run() -> Option<()> {
    let step = with_momentum()?;
    let (mut sum, mut momentum, mut params) = ([SumWord::ZERO; DIM], [0f32; DIM], [0f32; DIM]);
    let generator = ChaCha20::<1>::from_key(Key::from_bytes(black_box(&mut [7; 32])));
    let mut ledger = Ledger::resume(Volatile, black_box(3), black_box(1));
    let mut state =
        StepState::new(black_box(&mut sum[..]), (), SgdState { momentum: black_box(&mut momentum[..]) }, ());
    while let Ok(mut open) = step.open(&mut state, &mut ledger) {
        open.add_combined(&[black_box(&GRAD.0[..]), black_box(&GRAD.1[..])]).ok()?;
        open.finish(black_box(&mut params[..]), &generator).ok()?;
    }
    black_box(&params);
    (ledger.charged_steps() == 3).then_some(())
}
