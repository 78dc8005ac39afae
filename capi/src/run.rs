//! A run: made in the caller's memory, configured, started, closed.

use crate::border::{self, Idle, Settled, Vector};
use crate::ledger::Callback;
use crate::slots::threshold::DAMPER_BINS;
use crate::slots::{KeptFilter, KeptOptimizer, KeptThreshold, filter, optimizer, threshold};
use crate::status::{Answer, Status, status};
use core::cell::Cell;
use core::ffi::{c_char, c_void};
use core::mem::{MaybeUninit, align_of, offset_of, size_of};
use damper_core::accounting::{Ledger, RenyiFilter};
use damper_core::clip::Layer;
use damper_core::error::ConfigError;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::noise::{ChaCha20, DiscreteGaussian};
use damper_core::private::SumWord;
use damper_core::sampling::PoissonDraw;
use damper_core::slots::{AnyClip, AnySchedule, FilterSlot, Held, OptimizerSlot, ThresholdSlot};
use damper_core::step::{Open, PrivateStep, Slots, StepState};
use damper_core::threshold::{Fixed, Threshold as _};

/// The exact mechanism with sums in `int32_t`.
pub(crate) type Mechanism = DiscreteGaussian<i32>;
/// The slot of the threshold.
type Threshold = ThresholdSlot<'static, DAMPER_BINS, dyn KeptThreshold>;
/// What fills the slots while they are chosen.
pub(crate) type Choices = Slots<Mechanism, AnyClip<'static>, Threshold, FilterSlot, OptimizerSlot, AnySchedule>;
/// The memory of a run.
pub(crate) type State = StepState<
    Vector<SumWord<i32>>,
    &'static mut dyn KeptFilter,
    &'static mut dyn KeptThreshold,
    &'static mut dyn KeptOptimizer,
>;
/// The step.
pub(crate) type Step = PrivateStep<Mechanism, AnyClip<'static>, Threshold, FilterSlot, OptimizerSlot, AnySchedule>;
/// A step that was paid for.
pub(crate) type OpenStep<'a> = Open<
    'a,
    Mechanism,
    AnyClip<'static>,
    Threshold,
    FilterSlot,
    &'static mut dyn KeptFilter,
    OptimizerSlot,
    &'static mut dyn KeptOptimizer,
>;

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

/// What every call reads.
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
    refusal: Cell<ConfigError>,
}

impl Idle<'_> {
    /// The run is as it was before it was configured: nothing refers to memory that is given out again.
    fn forget(&mut self) {
        self.body.stage = Stage::None;
        self.body.state = None;
        self.books.filter = None;
        self.live.mixing = None;
        self.head.begin();
    }
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
    fn begin(&mut self) {
        self.phase = Phase::New;
        self.chosen = 0;
        self.used = size_of::<Run>().saturating_add(self.dim.saturating_mul(size_of::<i32>()));
    }

    /// Fails where a slot was chosen before.
    pub(crate) fn is_free(&self, slot: Slot) -> Answer {
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

/// What paying needs.
pub(crate) struct Books {
    pub(crate) ledger: Ledger,
    /// Pays in the ledger's place where there is one, in memory that only such a run takes.
    pub(crate) filter: Option<&'static mut RenyiFilter>,
    pub(crate) store: Callback,
}

/// The configuration.
#[allow(clippy::large_enum_variant)] // One of them a run.
pub(crate) enum Stage {
    None,
    Choosing(Choices),
    Started(Step),
}

/// What an open step borrows, but for the generator's secret, which it reads at the end.
pub(crate) struct Body {
    pub(crate) stage: Stage,
    /// None before the run is configured.
    pub(crate) state: Option<State>,
    pub(crate) generator: Option<ChaCha20>,
}

impl Body {
    fn choices(&self) -> Option<&Choices> {
        match &self.stage {
            Stage::None => None,
            Stage::Choosing(choices) => Some(choices),
            Stage::Started(step) => Some(step.slots()),
        }
    }

    /// The clip of the coming step.
    fn clip(&self) -> Option<f32> {
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

const FILTER: usize = larger(size_of::<filter::Disk>(), size_of::<filter::Momentum>());
const OPTIMIZER: usize = larger(size_of::<optimizer::AdamBcHeld>(), size_of::<optimizer::Norm>());

/// Where the objects lie that fill the slots.
pub(crate) struct Place {
    /// Any but a recursive one.
    filter: Room<FILTER>,
    /// A recursive filter, or what is inside of another.
    recursive: Room<{ size_of::<filter::Recursive>() }>,
    threshold: Room<{ size_of::<threshold::Largest>() }>,
    optimizer: Room<OPTIMIZER>,
}

/// A place's room of this name, as an address.
macro_rules! rooms {
    ($($name:ident: $bytes:expr;)*) => {
        impl Place {
            $(pub(crate) fn $name(place: *mut Self) -> *mut Room<{ $bytes }> {
                place.wrapping_byte_add(offset_of!(Self, $name)).cast()
            })*
        }
    };
}

rooms! {
    filter: FILTER;
    recursive: size_of::<filter::Recursive>();
    threshold: size_of::<threshold::Largest>();
    optimizer: OPTIMIZER;
}

/// An open step and what goes with it.
pub(crate) struct Live {
    pub(crate) open: Option<OpenStep<'static>>,
    pub(crate) draw: Option<PoissonDraw<'static, ChaCha20>>,
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

/// The callback did not say that the record is durable.
pub(crate) struct Undurable;

/// A run. Opaque: in memory of the caller's, which must not be moved, copied, read or written until it is closed.
#[repr(C, align(8))]
pub struct Run {
    /// First: what it knows of the run's memory begins where it lies.
    pub(crate) head: Head,
    pub(crate) books: Books,
    pub(crate) body: Body,
    pub(crate) live: Live,
    /// Borrowed by the state, piece by piece, and never as a whole.
    pub(crate) place: Place,
}

impl Run {
    pub(crate) fn new(head: Head) -> Self {
        Self {
            head,
            books: Books { ledger: Ledger::new(0), filter: None, store: Callback::NONE },
            body: Body { stage: Stage::None, state: None, generator: None },
            live: Live { open: None, draw: None, mixing: None, point: None, weight: None },
            place: Place {
                filter: Room::EMPTY,
                recursive: Room::EMPTY,
                threshold: Room::EMPTY,
                optimizer: Room::EMPTY,
            },
        }
    }
}

/// Bytes of a run on any target, less its vectors and layers: what `DAMPER_RUN_BYTES` counts.
const FIXED: usize = 64 * size_of::<usize>() + 784;
/// Bytes that may lie between vectors and layers.
const BEFORE_LAYERS: usize = align_of::<Layer>() - align_of::<f32>();
const _: () = assert!(size_of::<Run>() + BEFORE_LAYERS <= FIXED && align_of::<Run>() == 8);

/// Bytes of memory that a run over `dim` parameters needs, with `vectors` vectors of parameters beyond the sum (each
/// `damper_choose_…` says how many it takes) and `layers` layers of per-layer clipping. 0 where no memory is that
/// large.
#[unsafe(no_mangle)]
pub extern "C" fn damper_run_size(dim: usize, vectors: usize, layers: usize) -> usize {
    let size = || {
        let vectors = vectors.checked_add(1)?.checked_mul(dim)?.checked_mul(size_of::<f32>())?;
        let layers = layers.checked_mul(size_of::<Layer>())?.checked_add(BEFORE_LAYERS)?;
        vectors.checked_add(layers)?.checked_add(size_of::<Run>())
    };
    size().filter(|bytes| *bytes <= isize::MAX as usize).unwrap_or_default()
}

/// The alignment that a run's memory needs, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn damper_run_align() -> usize {
    align_of::<Run>()
}

/// Makes a run over `dim` parameters in `size` bytes at `memory`, aligned to `damper_run_align`. All of the memory is
/// overwritten, and nothing of it is read: it may be uninitialised. It is the run's until `damper_run_close`.
///
/// A run that is live at this address is lost, its key overwritten. Its own callback must not do this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_run_init(memory: *mut c_void, size: usize, dim: usize, run: *mut *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { border::init(memory.cast(), size, dim, run) })
}

/// What every run declares: DP-SGD with flat clipping, no momentum and a constant learning rate.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Config {
    /// Bytes of this struct: `DAMPER_CONFIG_INIT` sets it.
    pub size: usize,
    /// The grid: the clip is `2^grid_bits` units; 8 to 22. Choose `2^grid_bits` far above the root of the number of
    /// parameters; 16 suits most.
    pub grid_bits: u32,
    /// The divisor of the sum of gradients: the expected number of samples in a draw; 1 to 2^24.
    pub expected_batch: u32,
    /// Standard deviation of the noise over the clip; above 0. It is rounded up to the grid: see `damper_multiplier`.
    pub noise_multiplier: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// The Euclidean norm that no sample's gradient exceeds in the sum.
    pub clip: f32,
    /// Steps that may be released in all, at most 2^31; 0 where a Renyi filter pays.
    pub budget: u32,
}

/// Configures a run. Then slots are chosen, each at most once, in any order.
///
/// `DAMPER_STATUS_RANGE` also where sums in 32 bits could overflow: eight times the expected batch and twelve standard
/// deviations of the noise must stay below 2^31 grid units. Fewer `grid_bits` make room. And where the noise is too coarse for
/// its price: its standard deviation σ must be at least 2^10 grid units, and σ^2 at least 10 * 2^grid_bits. More `grid_bits` help.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_run_configure(run: *mut Run, config: *const Config) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { configure(run, config) })
}

unsafe fn configure(run: *mut Run, config: *const Config) -> Answer {
    // SAFETY: the caller's contract.
    let mut idle = unsafe { border::idle(run, Phase::New) }?;
    // SAFETY: the caller's contract.
    let config = unsafe { border::read_sized(idle.head, config) }?;
    let mechanism = Grid::new(config.grid_bits)
        .and_then(|grid| Mechanism::with_multiplier(grid, config.noise_multiplier))
        .map_err(|error| idle.head.refuse(error))?;
    if mechanism.grid().may_overflow_i32(config.expected_batch, mechanism.sigma()) {
        let error = ConfigError { parameter: "grid bits", must_be: "fewer for so large a batch or noise" };
        return Err(idle.head.refuse(error));
    }
    check_sigma(&mechanism).map_err(|error| idle.head.refuse(error))?;
    let plain = optimizer::plain().map_err(|error| idle.head.refuse(error))?;
    let (fixed, plain) =
        (idle.hold(Place::threshold, Held::threshold(Fixed(config.clip), ())), idle.hold(Place::optimizer, plain));
    let identity = idle.hold(Place::filter, Held::filter(Identity, ()));
    idle.body.stage = Stage::Choosing(Slots {
        mechanism,
        clip: AnyClip::FLAT,
        threshold: ThresholdSlot::of(fixed),
        filter: FilterSlot::of(identity),
        optimizer: OptimizerSlot::of(plain),
        schedule: AnySchedule::constant(config.learning_rate),
        expected_batch: config.expected_batch,
    });
    let sum = idle.sum();
    idle.body.state = Some(StepState::new(sum, identity, fixed, plain));
    idle.books.ledger = Ledger::new(config.budget);
    idle.head.phase = Phase::Choosing;
    Ok(())
}

/// Checks the configuration as a whole, and ends choosing. There must be a key and a store. Where it answers
/// `DAMPER_STATUS_RANGE`, the run is as it was before it was configured.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_run_start(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { start(run) })
}

unsafe fn start(run: *mut Run) -> Answer {
    // SAFETY: the caller's contract.
    let mut idle = unsafe { border::idle(run, Phase::Choosing) }?;
    if idle.body.generator.is_none() {
        return Err(Status::NoKey);
    }
    if !idle.books.store.is_some() {
        return Err(Status::NoStore);
    }
    let Stage::Choosing(choices) = core::mem::replace(&mut idle.body.stage, Stage::None) else {
        return Err(Status::Order);
    };
    let clip = choices.threshold.clip(&idle.state()?.threshold);
    match check_clip(&choices.mechanism, clip).and_then(|()| PrivateStep::new(choices)) {
        Ok(step) => {
            idle.body.stage = Stage::Started(step);
            idle.head.phase = Phase::Ready;
            Ok(())
        }
        Err(error) => {
            // What was refused cannot be mended by choosing again.
            idle.forget();
            Err(idle.head.refuse(error))
        }
    }
}

/// Fails if the accountant's bounds do not hold for noise this small.
pub(crate) fn check_sigma(mechanism: &Mechanism) -> Result<(), ConfigError> {
    use damper_core::private::Mechanism as _;
    mechanism.check_noise()
}

fn check_clip(mechanism: &Mechanism, clip: f32) -> Result<(), ConfigError> {
    use damper_core::private::Mechanism as _;
    mechanism.check_clip(clip)
}

/// Ends a run and wipes all of its memory, the key too. An open step releases nothing, and its payment stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_run_close(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { border::close(run) })
}

/// Why `DAMPER_STATUS_RANGE` was answered last: which number, and what it must be. The texts are not ended by a zero:
/// print them with `%.*s`. They stay valid for ever; empty where nothing was refused.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Refusal {
    /// The number, in words.
    pub parameter: *const c_char,
    /// Bytes of it.
    pub parameter_len: usize,
    /// What it must be.
    pub must_be: *const c_char,
    /// Bytes of it.
    pub must_be_len: usize,
}

/// Writes why `DAMPER_STATUS_RANGE` was answered last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_refusal(run: *const Run, refusal: *mut Refusal) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { border::head(run) }.and_then(|head| {
        let ConfigError { parameter, must_be } = head.refusal.get();
        let value = Refusal {
            parameter: parameter.as_ptr().cast(),
            parameter_len: parameter.len(),
            must_be: must_be.as_ptr().cast(),
            must_be_len: must_be.len(),
        };
        // SAFETY: the contract of the header.
        unsafe { border::write(head, refusal, value) }
    });
    status(answer)
}

/// Writes the noise multiplier that runs and is priced: σ in grid units over `2^grid_bits`, not below the one that was
/// asked for. A schedule multiplies it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_multiplier(run: *const Run, multiplier: *mut f64) -> Status {
    // SAFETY: the contract of the header. The mechanism is not what an open step writes.
    let answer = unsafe { border::settled(run) }.and_then(|Settled { head, body, .. }| {
        let mechanism = body.choices().ok_or(Status::Order)?.mechanism;
        // SAFETY: the contract of the header.
        unsafe { border::write(head, multiplier, mechanism.multiplier()) }
    });
    status(answer)
}

/// Writes the clip of the coming step. It is released: after a restart it may be the first clip of a threshold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_clip(run: *const Run, clip: *mut f32) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { border::settled(run) }.and_then(|Settled { head, body, .. }| {
        let value = body.clip().ok_or(Status::Order)?;
        // SAFETY: the contract of the header.
        unsafe { border::write(head, clip, value) }
    });
    status(answer)
}
