//! Runs: a configuration, its samples, and the expected state every few steps.

use super::error::PackError;
use super::grammar::{MOST_LAYERS, MOST_STEPS};
use super::line::{Mismatch, Part, Parts};
use super::mechanism::{self, discrete};
use super::memory::{Memory, MemoryPart};
use super::pack::Reader;
use super::samples::{Kind, Numbers, further, inject_non_finite, ordinary};
use super::slots::recorded::{self, PlayedFilter, PlayedOptimizer};
use super::slots::{Floats, Input};
use super::tracker::{BudgetTracker, factor};
use damper_core::accounting::{Ledger, Volatile};
use damper_core::clip::{Clip, Layer};
use damper_core::count::Counts;
use damper_core::error::{CallError, OpenError};
use damper_core::filter::mix;
use damper_core::grid::Word;
use damper_core::noise::{
    AnyCorrelation, ChaCha20, ContinuousGaussian, CorrelatedGaussian, CorrelatedState, Correlation as _,
    DiscreteGaussian, Key, NoiseWord,
};
use damper_core::numerics::digest::Digest;
use damper_core::numerics::function::sqrt_f32;
use damper_core::numerics::reduce::sum_of_squares;
use damper_core::private::{Mechanism, SumWord};
use damper_core::schedule::Declared;
use damper_core::slots::{AnyClip, AnyThreshold, FilterSlot, OptimizerSlot, ThresholdSlot};
use damper_core::step::{FloatSum, Open, PrivateStep, Shard, Slots, StepState};
use damper_core::threshold::Threshold;

/// Most samples of a step with generated samples.
const MOST_SAMPLES: usize = 7;

/// A run's sizes and key: everything except its slots.
struct Head {
    dim: usize,
    steps: u32,
    /// Steps between checkpoints.
    every: u16,
    generator: ChaCha20,
    /// The seed of generated samples. None if the pack has the samples.
    seed: Option<u64>,
    /// True if samples are clipped and summed outside of the core.
    elsewhere: bool,
    expected_batch: u32,
}

/// The interface of a run to its mechanism.
trait Played: Mechanism {
    /// Adds a sum that was clipped outside of the core. Only sums of floats accept it.
    fn add_sum<C: Clip, K: Counts>(_shard: &mut Shard<'_, Self, C, K>, _sum: FloatSum<'_>) -> Result<(), PackError> {
        Err(PackError::Field("kind of samples"))
    }
}

impl<W: Word> Played for DiscreteGaussian<W> {}

impl<W: Word> Played for CorrelatedGaussian<W, AnyCorrelation, &mut [NoiseWord]> {}

impl Played for ContinuousGaussian {
    fn add_sum<C: Clip, K: Counts>(shard: &mut Shard<'_, Self, C, K>, sum: FloatSum<'_>) -> Result<(), PackError> {
        Ok(shard.add_float_sum(sum)?)
    }
}

/// The result of a run.
pub(super) struct Ended {
    pub(super) steps: u32,
    /// The digest of the parameters.
    pub(super) params: u64,
    pub(super) mismatch: Option<Mismatch>,
}

/// The parts of the state that may have digests, in the order of checkpoints.
const STATE: [Part; 3] = [Part::Filter, Part::Optimizer, Part::Threshold];

/// The methods in a run's slots.
struct Lent<'s> {
    clip: AnyClip<'s>,
    threshold: &'s mut dyn AnyThreshold,
    filter: &'s mut dyn PlayedFilter,
    optimizer: &'s mut dyn PlayedOptimizer,
    schedule: Declared,
    /// True if the filter and if the threshold have state.
    has_memory: [bool; 2],
}

type Step<'s, M> = PrivateStep<FilterSlot, OptimizerSlot, M, ThresholdSlot<'s>, AnyClip<'s>, Declared>;
type Opened<'o, 's, M> = Open<'o, Step<'s, M>, &'s mut (dyn PlayedFilter + 's), &'s mut (dyn PlayedOptimizer + 's)>;

/// Plays the next run of the pack, charged to `tracker`, or to a ledger with this number of steps.
pub(super) fn play<const ALL: bool, const CORRELATED: bool>(
    pack: &mut Reader<'_>,
    tracker: Option<BudgetTracker>,
    memory: &mut Memory<'_>,
) -> Result<Ended, PackError> {
    let (dim, steps, every) = (pack.u32() as usize, pack.u32(), pack.u16());
    if dim == 0 || steps == 0 || every == 0 || every > MOST_STEPS {
        return Err(PackError::Field("size of a run"));
    }
    let samples = pack.u8();
    let (generator, seed) = match samples {
        0 | 3 if ALL || samples == 0 => {
            let seed = pack.u64();
            (ChaCha20::simulation(seed), Some(seed))
        }
        1 => (ChaCha20::simulation(pack.u64()), None),
        2 => (ChaCha20::from_key(Key::from_bytes(&mut pack.bytes())), None),
        _ => return Err(PackError::Field("kind of samples")),
    };
    let head = Head { dim, steps, every, generator, seed, elsewhere: samples == 3, expected_batch: pack.u32() };
    let mut tracker = tracker.unwrap_or_else(|| BudgetTracker::Ledger(Ledger::volatile(steps)));
    let Memory { floats, narrow, wide, float_sums, noise } = memory;
    let kind = pack.u8();
    let input = Input { pack, floats: Floats(floats), dim };
    let (head, tracker) = (&head, &mut tracker);
    match kind {
        0 => {
            let (mechanism, sums) = (discrete::<i32>(input.pack)?, head.sums(narrow, MemoryPart::Narrow)?);
            independent::<_, ALL>(input, head, tracker, mechanism, sums)
        }
        1 => {
            let (mechanism, sums) = (discrete::<i64>(input.pack)?, head.sums(wide, MemoryPart::Wide)?);
            independent::<_, ALL>(input, head, tracker, mechanism, sums)
        }
        2 => {
            let (multiplier, sums) = (input.pack.f64(), head.sums(float_sums, MemoryPart::FloatSums)?);
            independent::<_, ALL>(input, head, tracker, ContinuousGaussian::new(multiplier)?, sums)
        }
        3 if CORRELATED => correlated::<i32, ALL>(input, head, tracker, head.sums(narrow, MemoryPart::Narrow)?, noise),
        4 if CORRELATED => correlated::<i64, ALL>(input, head, tracker, head.sums(wide, MemoryPart::Wide)?, noise),
        _ => Err(PackError::Field("kind of mechanism")),
    }
}

/// Plays the run with noise that is independent between steps.
fn independent<M: Played<NoiseState = ()>, const ALL: bool>(
    input: Input<'_, '_, '_>,
    head: &Head,
    tracker: &mut BudgetTracker,
    mechanism: M,
    sums: &mut [M::Word],
) -> Result<Ended, PackError> {
    with_slots(input, &mut |input, lent| configured::<_, ALL>(input, head, tracker, mechanism, sums, (), lent))
}

/// Plays the run with correlated noise. Its coefficients have a separate stack frame.
#[inline(never)]
fn correlated<W: Word, const ALL: bool>(
    input: Input<'_, '_, '_>,
    head: &Head,
    tracker: &mut BudgetTracker,
    sums: &mut [SumWord<W>],
    buffers: &mut [NoiseWord],
) -> Result<Ended, PackError> {
    let mechanism = mechanism::correlated::<W, &mut [NoiseWord]>(input.pack, head.steps, head.dim as u32)?;
    let needed = head.dim.saturating_mul(mechanism.correlation().words());
    let got = buffers.len();
    let mut buffers = buffers.get_mut(..needed).ok_or(PackError::Memory { of: MemoryPart::Noise, needed, got })?;
    with_slots(input, &mut |input, lent| {
        let noise = CorrelatedState::new(core::mem::take(&mut buffers));
        configured::<_, ALL>(input, head, tracker, mechanism, sums, noise, lent)
    })
}

/// Lends the next methods of the pack to `then`.
#[inline(never)]
fn with_slots<'a>(
    input: Input<'_, '_, 'a>,
    then: &mut dyn FnMut(Input<'_, '_, 'a>, Lent<'_>) -> Result<Ended, PackError>,
) -> Result<Ended, PackError> {
    let mut layers = [Layer { len: 0, share: 0 }; MOST_LAYERS];
    let clip = recorded::clip(input.pack, &mut layers)?;
    recorded::threshold(input, &mut |input, threshold, learns| {
        recorded::filter(input, &mut |input, filter, filters| {
            recorded::optimizer(input, &mut |input, optimizer| {
                let has_memory = [filters, learns];
                let schedule = recorded::schedule(input.pack)?;
                then(input, Lent { clip, threshold, filter, optimizer, schedule, has_memory })
            })
        })
    })
}

impl Head {
    /// The sums of a run. A shard has its own sums. Recorded samples come without a shard.
    fn sums<'m, W>(&self, memory: &'m mut [W], of: MemoryPart) -> Result<&'m mut [W], PackError> {
        let needed = if self.seed.is_some() { self.dim.saturating_mul(2) } else { self.dim };
        let got = memory.len();
        memory.get_mut(..needed).ok_or(PackError::Memory { of, needed, got })
    }
}

/// Plays the run with its slots filled.
#[inline(never)]
fn configured<'a, M: Played, const ALL: bool>(
    input: Input<'_, '_, 'a>,
    head: &Head,
    tracker: &mut BudgetTracker,
    mechanism: M,
    sums: &mut [M::Word],
    noise: M::NoiseState,
    lent: Lent<'_>,
) -> Result<Ended, PackError> {
    let Input { pack, mut floats, .. } = input;
    let Lent { clip, threshold, filter, optimizer, schedule, has_memory } = lent;
    let (sum, shard) = sums.split_at_mut(head.dim.min(sums.len()));
    let step = PrivateStep::new(Slots {
        mechanism,
        clip,
        threshold: ThresholdSlot::of(threshold),
        filter: FilterSlot::of(filter),
        optimizer: OptimizerSlot::of(optimizer),
        schedule,
        expected_batch: head.expected_batch,
    })?;
    let mut state = StepState::new(sum, filter, optimizer, threshold).with_noise(noise);
    let params = floats.take(head.dim)?;
    let mut samples = Samples::new(head, params, shard, &mut floats)?;
    if head.seed.is_none() {
        pack.f32s(params);
    }

    let first = tracker.first();
    let mut mismatch = None;
    let mut same = 0;
    // One more step than the run has: the ledger must reject it.
    for t in 0..=head.steps {
        let number = {
            let opened = match tracker {
                BudgetTracker::Filter { filter, rate } if ALL => {
                    let factor = factor(params, filter, |factor| Ok(step.event_adaptive(factor, *rate)?))?;
                    step.open_adaptive(&mut state, factor, *rate, filter, &mut Volatile)
                }
                BudgetTracker::Filter { .. } => return Err(PackError::Field("kind of group")),
                BudgetTracker::Ledger(ledger) => step.open(&mut state, ledger),
            };
            match opened {
                Ok(mut open) if t < head.steps => {
                    let number = open.number();
                    samples.add::<M, ALL>(pack, &mut open, params, t)?;
                    open.finish(params, &head.generator)?;
                    Some(number)
                }
                Err(OpenError::BudgetSpent) if t == head.steps => break,
                Ok(_) | Err(OpenError::BudgetSpent) => None,
                Err(OpenError::Call(error)) => return Err(error.into()),
                Err(OpenError::Store(never)) => match never {},
            }
        };
        let Some(number) = number else {
            let mut parts = Parts::default();
            parts.set(Part::Ledger, true);
            mismatch = mismatch.or(Some(Mismatch { after: same, by: t, parts }));
            break;
        };
        let paid = t.saturating_add(1);
        if paid.checked_rem(u32::from(head.every)) != Some(0) && paid != head.steps {
            continue;
        }
        let threshold = step.slots().threshold.digest(&state.threshold);
        let mut parts = compare(pack, params, state.filter, state.optimizer, threshold, has_memory);
        let spent = ALL && tracker.digest().is_some_and(|digest| pack.u16() != digest.folded_twice());
        if pack.failed() {
            return Err(PackError::Field("checkpoint of a run"));
        }
        parts.set(Part::Ledger, spent || number != first.saturating_add(t) || tracker.paid() != paid);
        if !parts.is_empty() && mismatch.is_none() {
            mismatch = Some(Mismatch { after: same, by: paid, parts });
        }
        same = paid;
    }
    Ok(Ended { steps: head.steps, params: Digest::of(params).value(), mismatch })
}

/// Returns the parts of the state that differ from the pack's next checkpoint.
#[inline(never)]
fn compare(
    pack: &mut Reader<'_>,
    params: &[f32],
    filter: &dyn PlayedFilter,
    optimizer: &dyn PlayedOptimizer,
    threshold: Digest,
    [filters, learns]: [bool; 2],
) -> Parts {
    let mut parts = Parts::default();
    parts.set(Part::Params, pack.u32() != Digest::of(params).folded());
    let mut digests = [Digest::default(), Digest::default(), threshold];
    let [of_filter, of_optimizer, _] = &mut digests;
    filter.add_to(of_filter);
    optimizer.add_to(of_optimizer);
    // An optimizer without state adds nothing to the digest.
    let has_memory = [filters, digests[1] != Digest::default(), learns];
    for ((part, digest), has_memory) in STATE.into_iter().zip(digests).zip(has_memory) {
        parts.set(part, has_memory && pack.u16() != digest.folded_twice());
    }
    parts
}

/// The source of a run's samples.
enum Samples<'a, W> {
    Generated {
        numbers: Numbers,
        z: &'a mut [f32],
        point: &'a mut [f32],
        mixed: &'a mut [f32],
        shard: &'a mut [W],
        elsewhere: bool,
    },
    /// The pack has combined gradients: for each step the number of samples, then their gradients.
    Recorded { grad: &'a mut [f32] },
}

impl<'a, W: Copy + Default> Samples<'a, W> {
    #[inline(never)]
    fn new(head: &Head, params: &mut [f32], shard: &'a mut [W], floats: &mut Floats<'a>) -> Result<Self, PackError> {
        let mut take = || floats.take(head.dim);
        Ok(match head.seed {
            None => Self::Recorded { grad: take()? },
            Some(seed) => {
                let mut numbers = Numbers(seed);
                numbers.fill(Kind::Ordinary, params);
                let elsewhere = head.elsewhere;
                Self::Generated { numbers, z: take()?, point: take()?, mixed: take()?, shard, elsewhere }
            }
        })
    }

    /// Adds the samples of step `t`.
    #[inline(never)]
    fn add<M: Played<Word = W>, const ALL: bool>(
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
                    open.add_combined(&[grad])?;
                }
            }
            Self::Generated { numbers, z, point, mixed, shard, elsewhere } => {
                let kinds = (0..ordinary(t)).map(|_| Kind::Ordinary).chain(further(t));
                if ALL && *elsewhere {
                    let norms = &mut [0.0; MOST_SAMPLES];
                    let mut count = 0;
                    mixed.fill(0.0);
                    for (kind, norm) in kinds.zip(&mut *norms) {
                        numbers.fill(kind, z);
                        inject_non_finite(kind, t, z);
                        open.eval_point(0, params, point)?;
                        gradient(kind, z, point);
                        *norm = add_clipped(open.clip(), point, mixed);
                        count += 1;
                    }
                    let sum =
                        FloatSum { parts: &[mixed], bound: open.clip(), norms: norms.get(..count).unwrap_or_default() };
                    let mut worker = open.shard(shard)?;
                    M::add_sum(&mut worker, sum)?;
                    open.merge(worker)?;
                    return Ok(());
                }
                for (s, kind) in kinds.enumerate() {
                    numbers.fill(kind, z);
                    inject_non_finite(kind, t, z);
                    add_one(open, (s, kind), z, params, point, mixed, shard)?;
                }
            }
        }
        Ok(())
    }
}

/// Clips a gradient flat in floats, adds it to `sum` and returns its norm. A non-finite gradient adds nothing.
#[inline(never)]
fn add_clipped(clip: f32, grad: &[f32], sum: &mut [f32]) -> f32 {
    let norm = sqrt_f32(sum_of_squares([grad].into_iter()));
    if norm.is_finite() {
        let factor = clip / norm.max(clip);
        for (sum, grad) in sum.iter_mut().zip(grad) {
            *sum += grad * factor;
        }
    }
    norm
}

/// Adds sample `s` of a step.
#[inline(never)]
fn add_one<M: Mechanism>(
    open: &mut Opened<'_, '_, M>,
    (s, kind): (usize, Kind),
    z: &[f32],
    params: &[f32],
    point: &mut [f32],
    mixed: &mut [f32],
    shard: &mut [M::Word],
) -> Result<(), CallError> {
    if s % 3 == 2 {
        let mut mixing = open.add_points(mixed)?;
        while mixing.next_eval_point(params, point)? {
            gradient(kind, z, point);
            mixing.eval_point(&[point])?;
        }
        return mixing.add();
    }
    for index in 0..open.eval_points() {
        let weight = open.eval_point(index, params, point)?;
        gradient(kind, z, point);
        mix(index, weight, &[point], mixed);
    }
    if s % 3 == 1 {
        let mut worker = open.shard(shard)?;
        worker.add_combined(&[mixed])?;
        return open.merge(worker);
    }
    let (head, tail) = mixed.split_at(mixed.len() / 2);
    let (first, second) = head.split_at(head.len() / 3);
    open.add_combined(&[first, second, tail])
}

/// Computes the gradient at `point`, in place.
#[inline(never)]
fn gradient(kind: Kind, z: &[f32], point: &mut [f32]) {
    for (x, z) in point.iter_mut().zip(z) {
        *x = if kind == Kind::Ordinary { *x / 4.0 - z } else { *z };
    }
}
