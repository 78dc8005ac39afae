//! Runs: a configuration, its samples, and what the state must be every few steps.

use super::grammar::{MOST_LAYERS, MOST_STEPS};
use super::pack::Reader;
use super::samples::{Kind, Numbers, further, ordinary};
use super::slots::schedule;
use super::slots::{AnyClip, AnyFilter, AnyOptimizer, AnyThreshold, Floats, HeldFilter, HeldOptimizer, HeldThreshold};
use super::{Memory, PackError, Part, Parted, Parts, Vector};
use crate::accounting::{Ledger, Volatile};
use crate::clip::Layer;
use crate::error::{CallError, OpenError};
use crate::filter::mix;
use crate::grid::{Grid, Word};
use crate::noise::{ChaCha20, ContinuousGaussian, DiscreteGaussian, Key};
use crate::numerics::digest::Digest;
use crate::private::Mechanism;
use crate::step::{Open, PrivateStep, Slots, StepState};

/// What a run is of, beside its slots.
struct Head {
    dim: usize,
    steps: u32,
    /// Steps between checkpoints.
    every: u16,
    generator: ChaCha20,
    /// Where generated samples start; none where the pack holds them.
    seed: Option<u64>,
    expected_batch: u32,
}

/// How a run went.
pub(super) struct Ended {
    pub(super) steps: u32,
    /// The digest of the parameters.
    pub(super) params: u64,
    pub(super) parted: Option<Parted>,
}

type State<'a, W> = StepState<&'a mut [W], AnyFilter<'a>, AnyThreshold, AnyOptimizer<'a>>;
type Opened<'o, 'a, M> =
    Open<'o, M, AnyClip<'a>, HeldThreshold, HeldFilter, AnyFilter<'a>, HeldOptimizer, AnyOptimizer<'a>>;

/// Plays the run that the pack has next.
pub(super) fn play(pack: &mut Reader<'_>, memory: &mut Memory<'_>) -> Result<Ended, PackError> {
    let (dim, steps, every) = (pack.u32() as usize, pack.u32(), pack.u16());
    if dim == 0 || steps == 0 || every == 0 || every > MOST_STEPS {
        return Err(PackError::Field("size of a run"));
    }
    let (generator, seed) = match pack.u8() {
        0 => {
            let seed = pack.u64();
            (ChaCha20::simulation(seed), Some(seed))
        }
        1 => (ChaCha20::simulation(pack.u64()), None),
        2 => (ChaCha20::private(Key::from_bytes(&pack.bytes())), None),
        _ => return Err(PackError::Field("kind of samples")),
    };
    let head = Head { dim, steps, every, generator, seed, expected_batch: pack.u32() };
    // A shard has a sum of its own; recorded samples come without one.
    let words = if head.seed.is_some() { dim.saturating_mul(2) } else { dim };
    let mut floats = Floats(memory.floats);
    match pack.u8() {
        0 => {
            let mechanism = discrete::<i32>(pack)?;
            configured(pack, &head, mechanism, piece(memory.narrow, words, Vector::Narrow)?, floats)
        }
        1 => {
            let mechanism = discrete::<i64>(pack)?;
            configured(pack, &head, mechanism, piece(memory.wide, words, Vector::Wide)?, floats)
        }
        2 => {
            let mechanism = ContinuousGaussian::new(pack.f64())?;
            let sums = floats.take(words)?;
            configured(pack, &head, mechanism, sums, floats)
        }
        _ => Err(PackError::Field("kind of mechanism")),
    }
}

fn discrete<W: Word>(pack: &mut Reader<'_>) -> Result<DiscreteGaussian<W>, PackError> {
    let grid = Grid::new(u32::from(pack.u8()))?;
    Ok(DiscreteGaussian::new(grid, pack.u32())?)
}

fn piece<W>(memory: &mut [W], needed: usize, of: Vector) -> Result<&mut [W], PackError> {
    let got = memory.len();
    memory.get_mut(..needed).ok_or(PackError::Memory { of, needed, got })
}

/// Reads the slots and plays.
fn configured<'a, M: Mechanism>(
    pack: &mut Reader<'_>,
    head: &Head,
    mechanism: M,
    sums: &'a mut [M::Word],
    mut floats: Floats<'a>,
) -> Result<Ended, PackError> {
    let (sum, shard) = sums.split_at_mut(head.dim.min(sums.len()));
    let mut layers = [Layer { len: 0, share: 0 }; MOST_LAYERS];
    let clip = AnyClip::read(pack, &mut layers)?;
    let (threshold, threshold_state) = AnyThreshold::read(pack)?;
    let filter_state = AnyFilter::read(pack, head.dim, &mut floats)?;
    let (optimizer, optimizer_state) = AnyOptimizer::read(pack, head.dim, &mut floats)?;
    let step = PrivateStep::new(Slots {
        mechanism,
        clip,
        threshold,
        filter: HeldFilter,
        optimizer,
        schedule: schedule(pack)?,
        expected_batch: head.expected_batch,
    })?;
    let mut state = StepState { sum, filter: filter_state, threshold: threshold_state, optimizer: optimizer_state };
    let params = floats.take(head.dim)?;
    let mut samples = Samples::new(head, params, shard, &mut floats)?;
    if head.seed.is_none() {
        pack.f32s(params);
    }

    let mut ledger = Ledger::new(head.steps);
    let mut parted = None;
    let mut same = 0;
    for t in 0..head.steps {
        let mut open = match step.open(&mut state, &mut ledger, &mut Volatile) {
            Ok(open) => open,
            Err(OpenError::Call(error)) => return Err(error.into()),
            Err(OpenError::BudgetSpent) => return Err(PackError::Field("budget of a run")),
            Err(OpenError::Store(never)) => match never {},
        };
        let number = open.number();
        samples.add(pack, &mut open, params, t)?;
        open.finish(params, &head.generator)?;
        let paid = t.saturating_add(1);
        if paid % u32::from(head.every) != 0 && paid != head.steps {
            continue;
        }
        let mut parts = compare(pack, &state, params);
        if pack.failed() {
            return Err(PackError::Field("checkpoint of a run"));
        }
        parts.set(Part::Ledger, number != t || ledger.paid() != paid);
        if !parts.is_empty() && parted.is_none() {
            parted = Some(Parted { after: same, by: paid, parts });
        }
        same = paid;
    }
    let spent = matches!(step.open(&mut state, &mut ledger, &mut Volatile), Err(OpenError::BudgetSpent));
    if !spent && parted.is_none() {
        let mut parts = Parts::default();
        parts.set(Part::Ledger, true);
        parted = Some(Parted { after: same, by: head.steps, parts });
    }
    Ok(Ended { steps: head.steps, params: Digest::of(params).value(), parted })
}

/// Which parts of the state differ from the pack's next checkpoint.
fn compare<W>(pack: &mut Reader<'_>, state: &State<'_, W>, params: &[f32]) -> Parts {
    let mut parts = Parts::default();
    parts.set(Part::Params, pack.u32() != Digest::of(params).folded());
    for (part, digest) in [
        (Part::Filter, state.filter.digest()),
        (Part::Optimizer, state.optimizer.digest()),
        (Part::Threshold, state.threshold.digest()),
    ] {
        if let Some(digest) = digest {
            parts.set(part, pack.u16() != digest.folded_twice());
        }
    }
    parts
}

/// Where the samples of a run come from.
enum Samples<'a, W> {
    Generated {
        numbers: Numbers,
        z: &'a mut [f32],
        point: &'a mut [f32],
        mixed: &'a mut [f32],
        shard: &'a mut [W],
    },
    /// The pack holds mixed gradients: a number of samples for each step, then those.
    Recorded {
        grad: &'a mut [f32],
    },
}

impl<'a, W: Copy + Default> Samples<'a, W> {
    fn new(head: &Head, params: &mut [f32], shard: &'a mut [W], floats: &mut Floats<'a>) -> Result<Self, PackError> {
        let mut take = || floats.take(head.dim);
        Ok(match head.seed {
            None => Self::Recorded { grad: take()? },
            Some(seed) => {
                let mut numbers = Numbers(seed);
                numbers.fill(Kind::Ordinary, params);
                Self::Generated { numbers, z: take()?, point: take()?, mixed: take()?, shard }
            }
        })
    }

    /// Adds the samples of step `t`.
    fn add<M: Mechanism<Word = W>>(
        &mut self,
        pack: &mut Reader<'_>,
        open: &mut Opened<'_, '_, M>,
        params: &[f32],
        t: u32,
    ) -> Result<(), PackError> {
        match self {
            Self::Recorded { grad } => {
                for _ in 0..pack.u32() {
                    pack.f32s(grad);
                    if pack.failed() {
                        return Err(PackError::Field("a recorded sample"));
                    }
                    open.add_mixed(&[grad])?;
                }
            }
            Self::Generated { numbers, z, point, mixed, shard } => {
                let count = ordinary(t);
                for s in 0..count {
                    numbers.fill(Kind::Ordinary, z);
                    add_one(open, s, Kind::Ordinary, z, params, point, mixed, shard)?;
                }
                if let Some(kind) = further(t) {
                    numbers.fill(kind, z);
                    if let Kind::Spoilt(bits) = kind {
                        let at = t as usize % z.len().max(1);
                        if let Some(z) = z.get_mut(at) {
                            *z = f32::from_bits(bits);
                        }
                    }
                    add_one(open, count, kind, z, params, point, mixed, shard)?;
                }
            }
        }
        Ok(())
    }
}

/// Adds sample `s` of a step.
#[allow(clippy::too_many_arguments)] // Each vector is memory of its own.
fn add_one<M: Mechanism>(
    open: &mut Opened<'_, '_, M>,
    s: u32,
    kind: Kind,
    z: &[f32],
    params: &[f32],
    point: &mut [f32],
    mixed: &mut [f32],
    shard: &mut [M::Word],
) -> Result<(), CallError> {
    if s % 3 == 2 {
        let mut mixing = open.add_points(mixed)?;
        while mixing.next_point(params, point)? {
            gradient(kind, z, point);
            mixing.point(&[point])?;
        }
        return mixing.add();
    }
    for index in 0..open.points() {
        let weight = open.point(index, params, point)?;
        gradient(kind, z, point);
        mix(index, weight, &[point], mixed);
    }
    if s % 3 == 1 {
        let mut worker = open.shard(shard)?;
        worker.add_mixed(&[mixed])?;
        return open.merge(worker);
    }
    let (head, tail) = mixed.split_at(mixed.len() / 2);
    let (first, second) = head.split_at(head.len() / 3);
    open.add_mixed(&[first, second, tail])
}

/// The gradient at `point`, in its place.
fn gradient(kind: Kind, z: &[f32], point: &mut [f32]) {
    for (x, z) in point.iter_mut().zip(z) {
        *x = if kind == Kind::Ordinary { *x / 4.0 - z } else { *z };
    }
}
