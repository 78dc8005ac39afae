//! Updates: rounds of a device that emit released sums as bytes.

use super::error::PackError;
use super::grammar::{MOST_LAYERS, MOST_STEPS};
use super::line::{Mismatch, Part, Parts};
use super::memory::{Memory, MemoryPart};
use super::pack::Reader;
use super::samples::{Kind, Numbers, further, inject_non_finite, ordinary};
use super::slots::{Floats, recorded};
use damper_core::accounting::Ledger;
use damper_core::clip::Layer;
use damper_core::error::OpenError;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::numerics::digest::Digest;
use damper_core::optimizer::{Sgd, SgdState};
use damper_core::schedule::Constant;
use damper_core::step::{PrivateStep, Sender, Slots, StepState};
use damper_core::threshold::Fixed;

/// The result of the rounds.
pub(super) struct Ended {
    pub(super) rounds: u32,
    /// The digest of all bytes.
    pub(super) bytes: u64,
    pub(super) mismatch: Option<Mismatch>,
}

/// Plays the next rounds of the pack.
#[inline(never)]
pub(super) fn play(pack: &mut Reader<'_>, memory: &mut Memory<'_>) -> Result<Ended, PackError> {
    let (run, device, dim) = (pack.u64(), pack.u64(), pack.u32() as usize);
    let (rounds, every, seed, expected_batch) = (pack.u32(), pack.u16(), pack.u64(), pack.u32());
    if dim == 0 || rounds == 0 || every == 0 || every > MOST_STEPS {
        return Err(PackError::Field("size of a run"));
    }
    let grid = Grid::new(u32::from(pack.u8()))?;
    let mechanism = DiscreteGaussian::<i32>::new(grid, pack.u32())?;
    let mut layers = [Layer { len: 0, share: 0 }; MOST_LAYERS];
    let clip = recorded::clip(pack, &mut layers)?;
    let step = PrivateStep::new(Slots {
        mechanism,
        clip,
        threshold: Fixed(pack.f32()),
        filter: Identity,
        optimizer: Sgd::new(0.0, false, 0.0)?,
        schedule: Constant(1.0),
        expected_batch,
    })?;
    let got = memory.narrow.len();
    let sum = memory.narrow.get_mut(..dim).ok_or(PackError::Memory { of: MemoryPart::Narrow, needed: dim, got })?;
    let optimizer = SgdState { momentum: [0.0; 0] };
    let mut state = StepState::new(sum, (), optimizer, ());
    let grad = Floats(memory.floats).take(dim)?;
    let generator: ChaCha20 = ChaCha20::simulation(seed);
    let (mut numbers, mut ledger) = (Numbers(seed), Ledger::volatile(rounds));
    let (mut digest, mut mismatch, mut same) = (Digest::default(), None, 0);
    for t in 0..rounds {
        let mut open = match step.open(&mut state, &mut ledger) {
            Ok(open) => open,
            Err(OpenError::Call(error)) => return Err(error.into()),
            Err(OpenError::BudgetSpent) => return Err(PackError::Field("budget of a run")),
            Err(OpenError::Store(never)) => match never {},
        };
        for kind in (0..ordinary(t)).map(|_| Kind::Ordinary).chain(further(t)) {
            numbers.fill(kind, grad);
            inject_non_finite(kind, t, grad);
            open.add_combined(&[grad])?;
        }
        open.emit(Sender { run, device, round: t }, &generator, |bytes| digest.add_bytes(bytes))?;
        let by = t.saturating_add(1);
        if by.checked_rem(u32::from(every)) != Some(0) && by != rounds {
            continue;
        }
        let mut parts = Parts::default();
        parts.set(Part::Update, pack.u32() != digest.folded());
        if pack.failed() {
            return Err(PackError::Field("checkpoint of a run"));
        }
        if !parts.is_empty() && mismatch.is_none() {
            mismatch = Some(Mismatch { after: same, by, parts });
        }
        same = by;
    }
    Ok(Ended { rounds, bytes: digest.value(), mismatch })
}
