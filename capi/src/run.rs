//! A run: created in the caller's memory, configured, started, closed.

use crate::ffi::{self, IdleMut, IdleRef};
pub use crate::memory::Run;
use crate::memory::{Mechanism, Phase, SlotStorage, Stage};
use crate::slots::optimizer;
use crate::status::{FfiResult, Status, status};
use core::ffi::{c_char, c_void};
use core::mem::{align_of, size_of};
use damper_core::accounting::{Ledger, MOST_STEPS, Rate};
use damper_core::clip::Layer;
use damper_core::error::ConfigError;
use damper_core::filter::Identity;
use damper_core::grid::Grid;
use damper_core::slots::{AnyClip, AnySchedule, FilterSlot, OptimizerSlot, StatefulSlot, ThresholdSlot};
use damper_core::step::{Slots, StepConfig as _, StepState};
use damper_core::threshold::{Fixed, Threshold as _};

impl IdleMut<'_> {
    /// Resets the run to its state before it was configured. Nothing refers to memory that is lent again.
    fn forget(&mut self) {
        self.body.stage = Stage::None;
        self.body.state = None;
        self.budget.filter = None;
        self.live.mixing = None;
        self.head.begin();
    }
}

/// Bytes of a run on any target without its vectors and layers, as `DAMPER_RUN_BYTES` counts them.
const FIXED: usize = 64 * size_of::<usize>() + 880;
/// Possible padding between vectors and layers, in bytes.
const BEFORE_LAYERS: usize = align_of::<Layer>() - align_of::<f32>();
const _: () = assert!(size_of::<Run>() + BEFORE_LAYERS <= FIXED && align_of::<Run>() == 8);

/// Returns the bytes of memory of a run over `dim` parameters. `vectors` is the number of parameter vectors in addition
/// to the sum. `layers` is the number of layers of per-layer clipping. The documentation of each `damper_choose_…` has
/// its number of vectors. Returns 0 if no memory is that large.
#[unsafe(no_mangle)]
pub extern "C" fn damper_run_size(dim: usize, vectors: usize, layers: usize) -> usize {
    let size = || {
        let vectors = vectors.checked_add(1)?.checked_mul(dim)?.checked_mul(size_of::<f32>())?;
        let layers = layers.checked_mul(size_of::<Layer>())?.checked_add(BEFORE_LAYERS)?;
        vectors.checked_add(layers)?.checked_add(size_of::<Run>())
    };
    size().filter(|bytes| *bytes <= isize::MAX as usize).unwrap_or_default()
}

/// Returns the alignment of a run's memory, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn damper_run_align() -> usize {
    align_of::<Run>()
}

/// Creates a run over `dim` parameters in `size` bytes at `memory`, aligned to `damper_run_align`. It overwrites all of
/// the memory and reads none of it, so the memory may be uninitialised. The memory belongs to the run until
/// `damper_run_close`.
///
/// A live run at this address is lost, and its key is overwritten. Its own callback must not do this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_run_init(memory: *mut c_void, size: usize, dim: usize, run: *mut *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::init(memory.cast(), size, dim, run) })
}

/// Configuration that every run needs: DP-SGD with flat clipping, no momentum and a constant learning rate.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Config {
    /// Bytes of this struct: `DAMPER_CONFIG_INIT` sets it.
    pub size: usize,
    /// The grid: the clip is `2^grid_bits` units, with 8 to 22 bits. Choose `2^grid_bits` far above the square root of
    /// the number of parameters. 16 suits most networks.
    pub grid_bits: u32,
    /// Divisor of the sum of gradients: the expected number of samples in a draw, from 1 to 2^24.
    pub expected_batch: u32,
    /// Standard deviation of the noise divided by the clip, above 0. It is rounded up to the grid: see
    /// `damper_multiplier`.
    pub noise_multiplier: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Upper bound on the Euclidean norm of a sample's gradient in the sum.
    pub clip: f32,
    /// Steps that may be released in total, at most 2^31. 0 if a Renyi filter is charged.
    pub budget: u32,
    /// Number of samples that each step draws from, by `damper_batch_begin`. 0 if the program draws itself.
    pub samples: u32,
    /// Probability of each sample, in units of 2^-53, at most `DAMPER_SAMPLING_RATE_ONE`. Use the same rate for
    /// accounting.
    pub sampling_rate: u64,
}

/// Configures a run. Then choose slots, each at most once, in any order.
///
/// `DAMPER_STATUS_RANGE` also if sums in 32 bits could overflow. With an expected batch B and noise of σ grid units,
/// min(8·B, 4·B + 32)·2^grid_bits + 12·σ must stay below 2^31. Fewer `grid_bits` make room. The same status if the
/// noise is too coarse for the accountant. σ must be at least 2^10 grid units, and σ^2 at least 10 * 2^grid_bits. More
/// `grid_bits` help.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_run_configure(run: *mut Run, config: *const Config) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { configure(run, config) })
}

unsafe fn configure(run: *mut Run, config: *const Config) -> FfiResult {
    // SAFETY: the caller's contract.
    let mut idle = unsafe { ffi::idle(run, Phase::New) }?;
    // SAFETY: the caller's contract.
    let config = unsafe { ffi::read_sized(idle.head, config) }?;
    let mechanism = Grid::new(config.grid_bits)
        .and_then(|grid| Mechanism::with_multiplier(grid, config.noise_multiplier))
        .map_err(|error| idle.head.refuse(error))?;
    if mechanism.grid().may_overflow_i32(config.expected_batch, mechanism.sigma()) {
        let error = ConfigError { parameter: "grid bits", must_be: "fewer for so large a batch or noise" };
        return Err(idle.head.refuse(error));
    }
    check_sigma(&mechanism).map_err(|error| idle.head.refuse(error))?;
    if config.budget > MOST_STEPS {
        return Err(idle.head.refuse(ConfigError { parameter: "budget", must_be: "at most 2^31 steps" }));
    }
    let rate = Rate::from_numerator(config.sampling_rate).map_err(|error| idle.head.refuse(error))?;
    idle.body.draw = (config.samples > 0).then_some((rate, config.samples));
    let plain = optimizer::plain().map_err(|error| idle.head.refuse(error))?;
    let (fixed, plain) = (
        idle.hold(SlotStorage::threshold, StatefulSlot::threshold(Fixed(config.clip), ())),
        idle.hold(SlotStorage::optimizer, plain),
    );
    let identity = idle.hold(SlotStorage::filter, StatefulSlot::filter(Identity, ()));
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
    idle.body.state = Some(StepState::new(sum, identity, plain, fixed));
    // After a rejected start, resumed steps stay charged.
    let (charged, bound) = (idle.budget.ledger.charged_steps(), idle.budget.ledger.fingerprint());
    idle.budget.ledger = Ledger::resume(*idle.budget.ledger.store(), config.budget, charged).bound_to(bound);
    idle.head.phase = Phase::Choosing;
    Ok(())
}

/// Checks the configuration as a whole, and ends the choice of slots. There must be a key and a store.
/// `DAMPER_STATUS_CONFIGURATION` if the resumed record belongs to another configuration. After this status or
/// `DAMPER_STATUS_RANGE`, the run is as before `damper_run_configure`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_run_start(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { start(run) })
}

unsafe fn start(run: *mut Run) -> FfiResult {
    // SAFETY: the caller's contract.
    let mut idle = unsafe { ffi::idle(run, Phase::Choosing) }?;
    if idle.body.generator.is_none() {
        return Err(Status::NoKey);
    }
    if !idle.budget.ledger.store().is_some() {
        return Err(Status::NoStore);
    }
    let Stage::Choosing(choices) = core::mem::replace(&mut idle.body.stage, Stage::None) else {
        return Err(Status::Order);
    };
    let clip = choices.threshold.clip(&idle.state()?.threshold);
    match check_clip(&choices.mechanism, clip).and_then(|()| idle.body.step(choices)) {
        Ok(step) => {
            let bound = idle.budget.ledger.fingerprint();
            if bound != 0 && bound != step.fingerprint(idle.head.dim) {
                idle.forget();
                return Err(Status::Configuration);
            }
            idle.body.stage = Stage::Started(step);
            idle.head.phase = Phase::Ready;
            Ok(())
        }
        Err(error) => {
            // Further choices cannot repair a rejected configuration.
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

/// Ends a run and wipes all of its memory, including the key. An open step releases nothing, and its charge stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_run_close(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::close(run) })
}

/// Text of the last `DAMPER_STATUS_RANGE`: the number, and its permitted values. The texts are not zero-terminated:
/// print them with `%.*s`. They stay valid forever. They are empty before the first such status.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LastErrorText {
    /// Name of the number.
    pub parameter: *const c_char,
    /// Length of `parameter`, in bytes.
    pub parameter_len: usize,
    /// Permitted values.
    pub must_be: *const c_char,
    /// Length of `must_be`, in bytes.
    pub must_be_len: usize,
}

/// Writes the text of the last `DAMPER_STATUS_RANGE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_last_error(run: *const Run, refusal: *mut LastErrorText) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::head(run) }.and_then(|head| {
        let ConfigError { parameter, must_be } = head.refusal.get();
        let value = LastErrorText {
            parameter: parameter.as_ptr().cast(),
            parameter_len: parameter.len(),
            must_be: must_be.as_ptr().cast(),
            must_be_len: must_be.len(),
        };
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, refusal, value) }
    });
    status(answer)
}

/// Writes the noise multiplier that the run and the accountant use: σ in grid units over `2^grid_bits`, not below the
/// requested multiplier. A schedule multiplies it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_multiplier(run: *const Run, multiplier: *mut f64) -> Status {
    // SAFETY: the contract of the header. An open step does not write the mechanism.
    let answer = unsafe { ffi::settled(run) }.and_then(|IdleRef { head, body, .. }| {
        let mechanism = body.choices().ok_or(Status::Order)?.mechanism;
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, multiplier, mechanism.multiplier()) }
    });
    status(answer)
}

/// Writes the clip of the next step. It is a released value: after a restart it may be the first clip of a threshold.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_clip(run: *const Run, clip: *mut f32) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::settled(run) }.and_then(|IdleRef { head, body, .. }| {
        let value = body.clip().ok_or(Status::Order)?;
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, clip, value) }
    });
    status(answer)
}
