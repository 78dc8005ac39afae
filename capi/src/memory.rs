//! Memory layout of a run and of a shard.

use crate::slots::held::{
    AdamBcHeld, DAMPER_BINS, Disk, KeptFilter, KeptOptimizer, KeptThreshold, Largest, Momentum, Norm, Recursive, Vector,
};
use crate::status::{FfiResult, Status};
use crate::store::Callback;
use core::cell::Cell;
use core::mem::{MaybeUninit, offset_of, size_of};
use damper_core::accounting::{Ledger, Rate, RenyiFilter};
use damper_core::error::ConfigError;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::private::SumWord;
use damper_core::sampling::PoissonBatch;
use damper_core::slots::{AnyClip, AnySchedule, FilterSlot, OptimizerSlot, ThresholdSlot};
use damper_core::step::{Open, PrivateStep, Shard as Sum, Slots, StepState};
use damper_core::threshold::Threshold as _;

/// Exact mechanism with sums in `int32_t`.
pub(crate) type Mechanism = DiscreteGaussian<i32>;
/// Slot of the threshold.
type Threshold = ThresholdSlot<'static, DAMPER_BINS, dyn KeptThreshold>;
/// Slots of a run that is being configured.
pub(crate) type Choices = Slots<FilterSlot, OptimizerSlot, Mechanism, Threshold, AnyClip<'static>, AnySchedule>;
/// State of a run.
pub(crate) type State = StepState<
    Vector<SumWord<i32>>,
    &'static mut dyn KeptFilter,
    &'static mut dyn KeptOptimizer,
    &'static mut dyn KeptThreshold,
>;
/// Step of a run.
pub(crate) type Step = PrivateStep<FilterSlot, OptimizerSlot, Mechanism, Threshold, AnyClip<'static>, AnySchedule>;
/// A charged step.
pub(crate) type OpenStep<'a> = Open<'a, Step, &'static mut dyn KeptFilter, &'static mut dyn KeptOptimizer>;

/// Phase of a run: determines which functions may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Initialised.
    New,
    /// Configured, slots are being chosen.
    Choosing,
    /// Started.
    Ready,
    /// A step is open.
    Stepping,
}

/// Part of a run that every call reads.
#[repr(C)]
pub(crate) struct Head {
    /// Mark of the address at which this was written. First field of a run and of a shard, so that other memory does
    /// not match it.
    pub(crate) mark: usize,
    pub(crate) busy: bool,
    pub(crate) phase: Phase,
    /// Chosen slots, a bit for each.
    chosen: u8,
    /// Size of the run's memory, and the part in use.
    pub(crate) bytes: usize,
    pub(crate) used: usize,
    pub(crate) dim: usize,
    /// Last error. Queries write it too, and they change nothing else.
    pub(crate) refusal: Cell<ConfigError>,
}

impl Head {
    pub(crate) fn new(mark: usize, bytes: usize, used: usize, dim: usize) -> Self {
        let refusal = Cell::new(ConfigError { parameter: "", must_be: "" });
        Self { mark, busy: false, phase: Phase::New, bytes, used, dim, chosen: 0, refusal }
    }

    /// Stores the error for `damper_last_error`.
    pub(crate) fn refuse(&self, error: ConfigError) -> Status {
        self.refusal.set(error);
        Status::Range
    }

    /// Resets the choices.
    pub(crate) fn begin(&mut self) {
        self.phase = Phase::New;
        self.chosen = 0;
        self.used = size_of::<Run>().saturating_add(self.dim.saturating_mul(size_of::<i32>()));
    }

    /// Fails if the slot was chosen before.
    pub(crate) fn is_free(&self, slot: Slot) -> FfiResult {
        if self.chosen & slot as u8 != 0 { Err(Status::Order) } else { Ok(()) }
    }

    /// Marks a slot as chosen.
    pub(crate) fn choose(&mut self, slot: Slot) {
        self.chosen |= slot as u8;
    }
}

/// Slots of a run.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Slot {
    Clip = 1,
    Threshold = 2,
    Filter = 4,
    Optimizer = 8,
    Schedule = 16,
}

/// Budget state: ledger or privacy filter, and its store.
pub(crate) struct BudgetState {
    /// Ledger with the run's store.
    pub(crate) ledger: Ledger<Callback>,
    /// Rényi filter that is charged instead of the ledger, if any, in memory that only such a run takes.
    pub(crate) filter: Option<&'static mut RenyiFilter>,
}

/// Stage of the configuration.
#[allow(clippy::large_enum_variant)] // There is only one in a run.
pub(crate) enum Stage {
    None,
    Choosing(Choices),
    Started(Step),
}

/// Part of a run that an open step borrows. The generator's secret is separate: a step reads it at its end.
pub(crate) struct Body {
    pub(crate) stage: Stage,
    /// Rate and samples of the run's own draw, if it has one.
    pub(crate) draw: Option<(Rate, u32)>,
    /// State, `None` before the run is configured.
    pub(crate) state: Option<State>,
    pub(crate) generator: Option<ChaCha20>,
}

impl Body {
    pub(crate) fn choices(&self) -> Option<&Choices> {
        match &self.stage {
            Stage::None => None,
            Stage::Choosing(choices) => Some(choices),
            Stage::Started(step) => Some(step.slots()),
        }
    }

    /// Returns the step with these slots and the run's own draw.
    pub(crate) fn step(&self, choices: Choices) -> Result<Step, ConfigError> {
        let step = PrivateStep::new(choices)?;
        match self.draw {
            Some((rate, samples)) => step.with_poisson_batches(rate, samples),
            None => Ok(step),
        }
    }

    /// Returns the clip of the next step.
    pub(crate) fn clip(&self) -> Option<f32> {
        Some(self.choices()?.threshold.clip(&self.state.as_ref()?.threshold))
    }
}

/// Space for an object of at most `BYTES` bytes.
#[repr(C, align(8))]
pub(crate) struct Room<const BYTES: usize>(pub(crate) MaybeUninit<[u8; BYTES]>);

impl<const BYTES: usize> Room<BYTES> {
    const EMPTY: Self = Self(MaybeUninit::uninit());
}

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

const FILTER: usize = larger(size_of::<Disk>(), size_of::<Momentum>());
const OPTIMIZER: usize = larger(size_of::<AdamBcHeld>(), size_of::<Norm>());

/// Storage for the objects in the slots.
pub(crate) struct SlotStorage {
    /// Any filter except a recursive filter.
    filter: Room<FILTER>,
    /// A recursive filter, or the filter inside another filter.
    recursive: Room<{ size_of::<Recursive>() }>,
    threshold: Room<{ size_of::<Largest>() }>,
    optimizer: Room<OPTIMIZER>,
}

/// Defines accessors for the space of each field, as a pointer.
macro_rules! rooms {
    ($($name:ident: $bytes:expr;)*) => {
        impl SlotStorage {
            $(pub(crate) fn $name(place: *mut Self) -> *mut Room<{ $bytes }> {
                place.wrapping_byte_add(offset_of!(Self, $name)).cast()
            })*
        }
    };
}

rooms! {
    filter: FILTER;
    recursive: size_of::<Recursive>();
    threshold: size_of::<Largest>();
    optimizer: OPTIMIZER;
}

/// An open step and its state.
pub(crate) struct Live {
    pub(crate) open: Option<OpenStep<'static>>,
    pub(crate) draw: Option<PoissonBatch<'static, ChaCha20>>,
    /// Vector for combining gradients.
    pub(crate) mixing: Option<Vector<f32>>,
    /// Next evaluation point of the current sample.
    pub(crate) point: Option<usize>,
    /// Weight of the last evaluation point.
    pub(crate) weight: Option<f32>,
}

impl Live {
    pub(crate) fn begin(&mut self, open: OpenStep<'static>) {
        self.open = Some(open);
        self.draw = None;
        self.point = None;
        self.weight = None;
    }

    /// Drops the step, which wipes its sum, and its draw.
    pub(crate) fn end(&mut self) {
        self.open = None;
        self.draw = None;
    }
}

/// A run. Opaque, in the caller's memory. Do not move, copy, read or write it until it is closed.
#[repr(C, align(8))]
pub struct Run {
    /// First field, because the run's memory starts at its address.
    pub(crate) head: Head,
    pub(crate) budget: BudgetState,
    pub(crate) body: Body,
    pub(crate) live: Live,
    /// Borrowed by the state, segment by segment, and never as a whole.
    pub(crate) place: SlotStorage,
}

impl Run {
    pub(crate) fn new(head: Head) -> Self {
        Self {
            head,
            budget: BudgetState { ledger: Ledger::resume(Callback::NONE, 0, 0), filter: None },
            body: Body { stage: Stage::None, draw: None, state: None, generator: None },
            live: Live { open: None, draw: None, mixing: None, point: None, weight: None },
            place: SlotStorage {
                filter: Room::EMPTY,
                recursive: Room::EMPTY,
                threshold: Room::EMPTY,
                optimizer: Room::EMPTY,
            },
        }
    }
}

/// Sum of a shard.
pub(crate) type ShardSum = Sum<'static, Mechanism, AnyClip<'static>, [i32; DAMPER_BINS]>;

/// A worker's share of a step. Opaque, in the caller's memory. Do not move, copy, read or write it until it is merged
/// or closed. It holds a sum of private gradients.
#[repr(C, align(8))]
pub struct Shard {
    /// Mark of the address at which this was written.
    pub(crate) mark: usize,
    /// Address of the run.
    pub(crate) run: usize,
    pub(crate) bytes: usize,
    pub(crate) dim: usize,
    pub(crate) sum: Option<ShardSum>,
}
