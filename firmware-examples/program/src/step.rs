//! One private step and nothing else: exact noise, ledger, SGD with momentum, no formatting. An image of it shows what a step costs
//! in flash, and that it links without a single panic.

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

/// A step of DP-SGD with exact noise but for these slots.
pub type With<F, O> = PrivateStep<F, O, DiscreteGaussian<i32>>;

/// The step that is measured, with this filter and optimizer. What a device reads at run time, the configuration's numbers, is opaque
/// to the compiler.
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

/// SGD with momentum and no filter.
#[inline(always)]
pub fn with_momentum() -> Option<With<Identity, Sgd>> {
    with(Identity, Sgd::new(black_box(0.9), false, 0.0).ok()?)
}

/// Two steps; `None` where anything was refused. Lengths and the key are opaque to the compiler too. It copies no array, which would
/// count the copying routine.
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
