//! The layout of the memory of a run and of a shard.

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

/// The exact mechanism with sums in `int32_t`.
pub(crate) type Mechanism = DiscreteGaussian<i32>;
/// The slot of the threshold.
type Threshold = ThresholdSlot<'static, DAMPER_BINS, dyn KeptThreshold>;
/// The slots of a run that is being configured.
pub(crate) type Choices = Slots<FilterSlot, OptimizerSlot, Mechanism, Threshold, AnyClip<'static>, AnySchedule>;
/// The memory of a run.
pub(crate) type State = StepState<
    Vector<SumWord<i32>>,
    &'static mut dyn KeptFilter,
    &'static mut dyn KeptOptimizer,
    &'static mut dyn KeptThreshold,
>;
/// The step.
pub(crate) type Step = PrivateStep<FilterSlot, OptimizerSlot, Mechanism, Threshold, AnyClip<'static>, AnySchedule>;
/// A step that was charged.
pub(crate) type OpenStep<'a> = Open<'a, Step, &'static mut dyn KeptFilter, &'static mut dyn KeptOptimizer>;

/// In what order functions may be called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Initialised.
    New,
    /// Configured: slots are chosen.
    Choosing,
    /// Started.
    Ready,
    /// A step is open.
    Stepping,
}

/// The part of a run that every call reads.
#[repr(C)]
pub(crate) struct Head {
    /// Of the address at which this was written. First, as a shard's: what is no run has something else there.
    pub(crate) mark: usize,
    pub(crate) busy: bool,
    pub(crate) phase: Phase,
    /// The slots that were chosen, a bit each.
    chosen: u8,
    /// All of the run's memory, and what of it is taken.
    pub(crate) bytes: usize,
    pub(crate) used: usize,
    pub(crate) dim: usize,
    /// Written by queries too, which change nothing else.
    pub(crate) refusal: Cell<ConfigError>,
}

impl Head {
    pub(crate) fn new(mark: usize, bytes: usize, used: usize, dim: usize) -> Self {
        let refusal = Cell::new(ConfigError { parameter: "", must_be: "" });
        Self { mark, busy: false, phase: Phase::New, bytes, used, dim, chosen: 0, refusal }
    }

    /// Remembers what was refused.
    pub(crate) fn refuse(&self, error: ConfigError) -> Status {
        self.refusal.set(error);
        Status::Range
    }

    /// Before anything is chosen.
    pub(crate) fn begin(&mut self) {
        self.phase = Phase::New;
        self.chosen = 0;
        self.used = size_of::<Run>().saturating_add(self.dim.saturating_mul(size_of::<i32>()));
    }

    /// Fails where a slot was chosen before.
    pub(crate) fn is_free(&self, slot: Slot) -> FfiResult {
        if self.chosen & slot as u8 != 0 { Err(Status::Order) } else { Ok(()) }
    }

    /// A slot is chosen once.
    pub(crate) fn choose(&mut self, slot: Slot) {
        self.chosen |= slot as u8;
    }
}

/// The slots.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Slot {
    Clip = 1,
    Threshold = 2,
    Filter = 4,
    Optimizer = 8,
    Schedule = 16,
}

/// The budget state: ledger or privacy filter, and where it is persisted.
pub(crate) struct BudgetState {
    /// With the run's store.
    pub(crate) ledger: Ledger<Callback>,
    /// Charged in the ledger's place if there is one, in memory that only such a run takes.
    pub(crate) filter: Option<&'static mut RenyiFilter>,
}

/// The configuration.
#[allow(clippy::large_enum_variant)] // One of them a run.
pub(crate) enum Stage {
    None,
    Choosing(Choices),
    Started(Step),
}

/// The part of a run that an open step borrows. The generator's secret is apart: a step reads it at its end.
pub(crate) struct Body {
    pub(crate) stage: Stage,
    /// The run's own draw, if it has one.
    pub(crate) draw: Option<(Rate, u32)>,
    /// None before the run is configured.
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

    /// The step of these slots, with the run's own draw.
    pub(crate) fn step(&self, choices: Choices) -> Result<Step, ConfigError> {
        let step = PrivateStep::new(choices)?;
        match self.draw {
            Some((rate, samples)) => step.with_poisson_batches(rate, samples),
            None => Ok(step),
        }
    }

    /// The clip of the coming step.
    pub(crate) fn clip(&self) -> Option<f32> {
        Some(self.choices()?.threshold.clip(&self.state.as_ref()?.threshold))
    }
}

/// Room for an object of at most so many bytes.
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
    /// Any but a recursive one.
    filter: Room<FILTER>,
    /// A recursive filter, or what is inside of another.
    recursive: Room<{ size_of::<Recursive>() }>,
    threshold: Room<{ size_of::<Largest>() }>,
    optimizer: Room<OPTIMIZER>,
}

/// A place's room of this name, as an address.
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

/// An open step and what goes with it.
pub(crate) struct Live {
    pub(crate) open: Option<OpenStep<'static>>,
    pub(crate) draw: Option<PoissonBatch<'static, ChaCha20>>,
    /// Memory to mix in.
    pub(crate) mixing: Option<Vector<f32>>,
    /// The next point of the sample that is being mixed.
    pub(crate) point: Option<usize>,
    /// The weight of the point that was asked for.
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

/// A run. Opaque: in memory of the caller's, which must not be moved, copied, read or written until it is closed.
#[repr(C, align(8))]
pub struct Run {
    /// First: what it knows of the run's memory begins where it lies.
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

/// The sum of a shard.
pub(crate) type ShardSum = Sum<'static, Mechanism, AnyClip<'static>, [i32; DAMPER_BINS]>;

/// A worker's share of a step. Opaque: in memory of the caller's, which must not be moved, copied, read or written until it is
/// merged or closed. It holds a sum of private gradients.
#[repr(C, align(8))]
pub struct Shard {
    /// Of the address at which this was written.
    pub(crate) mark: usize,
    /// Address of the run.
    pub(crate) run: usize,
    pub(crate) bytes: usize,
    pub(crate) dim: usize,
    pub(crate) sum: Option<ShardSum>,
}
