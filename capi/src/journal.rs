//! The ledger in flash: a journal that loses no charge in a power cut, as a store for `damper_set_store`.

use crate::ffi::{self, IdleRef};
use crate::flash::{Driver, ERASE, Failed};
pub use crate::flash::{Flash, FlashErase, FlashRead, FlashWrite};
use crate::memory::{Run, Stage};
use crate::status::{FfiResult, Status, status};
use crate::store::Record;
use core::ffi::{c_int, c_void};
use core::mem::size_of;
use damper_core::accounting::Store as _;
use damper_journal::{Allowance, Configuration, FirstBoot, JournalError};

/// Confirms to `damper_journal_provision` that nothing was ever charged to this run.
pub const DAMPER_FIRST_BOOT: u32 = 0x4642_3031;

/// Bytes of a journal on any target, as `DAMPER_JOURNAL_BYTES` counts them.
const FIXED: usize = 9 * size_of::<usize>() + 64;
const _: () = assert!(size_of::<Journal>() <= FIXED);

/// A journal. Opaque, in the caller's memory. Do not move, copy, read or write it until it is closed.
#[repr(C, align(8))]
pub struct Journal {
    /// Mark of the address at which this was written. It is the first field, so that other memory does not match it.
    pub(crate) mark: usize,
    pub(crate) busy: bool,
    pub(crate) kept: damper_journal::Journal<Driver>,
}

/// The run that a journal belongs to. The journal opens for no other run, and accepts no charges of another run.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct JournalRun {
    /// Bytes of this struct: `DAMPER_JOURNAL_RUN_INIT` sets it.
    pub size: usize,
    /// The run, configured, with its slots chosen. The journal is bound to its budget and everything that the privacy
    /// cost depends on. These are noise and its schedule, sampling rate, samples, number of parameters, expected batch,
    /// grid, clip and counts. The run is read only during the call.
    pub run: *const Run,
    /// Order of a Renyi filter. 0 for a ledger.
    pub order: u32,
    /// ε of a filter, else 0.
    pub epsilon: f64,
    /// δ of a filter, else 0.
    pub delta: f64,
    /// Optional bytes that identify what the configuration omits: the data set, a number of the run. Null if absent.
    pub description: *const u8,
    /// Length of `description`, in bytes.
    pub description_len: usize,
}

impl From<JournalError<Failed>> for Status {
    fn from(error: JournalError<Failed>) -> Self {
        match error {
            JournalError::Flash(_) => Self::Flash,
            JournalError::Geometry => Self::Geometry,
            JournalError::Blank => Self::Blank,
            JournalError::Occupied => Self::Occupied,
            JournalError::OtherConfiguration => Self::Configuration,
            JournalError::Budget => Self::Range,
            JournalError::Corrupted => Self::Damaged,
            JournalError::Backwards => Self::Record,
            _ => Self::Worn,
        }
    }
}

/// Returns the bytes of memory that a journal needs, aligned to 8.
#[unsafe(no_mangle)]
pub extern "C" fn damper_journal_size() -> usize {
    size_of::<Journal>()
}

/// Returns the erase size of the journal in bytes, as the library was built: see `damper_flash`.
#[unsafe(no_mangle)]
pub extern "C" fn damper_journal_erase_size() -> usize {
    ERASE
}

/// Starts a journal with nothing charged, in a region that the caller has erased, in `size` bytes at `memory`. Call it
/// once in the life of a run: in the factory, or by a decision of the device's owner. **Never call it because
/// `damper_journal_open` failed.** A region that was erased after charges looks like a new region, and a new journal
/// would lose those charges. `first_boot` is `DAMPER_FIRST_BOOT`, a constant that no other value equals by accident.
///
/// `DAMPER_STATUS_OCCUPIED` if the region is not erased. `DAMPER_STATUS_GEOMETRY` if sizes do not fit.
/// `DAMPER_STATUS_RANGE` if `first_boot` is another number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_journal_provision(
    memory: *mut c_void,
    size: usize,
    flash: *const Flash,
    run: *const JournalRun,
    first_boot: u32,
    journal: *mut *mut Journal,
) -> Status {
    if first_boot != DAMPER_FIRST_BOOT {
        return Status::Range;
    }
    let begin = |driver, run| {
        damper_journal::Journal::provision(driver, run, FirstBoot::confirmed_by_owner()).map_err(Status::from)
    };
    // SAFETY: the contract of the header.
    status(unsafe { make(memory, size, flash, run, journal, begin) })
}

/// Opens the journal of a run after a restart, in `size` bytes at `memory`. Then read its record by
/// `damper_journal_record`, and pass it to `damper_resume`, or to the choice of a Renyi filter.
///
/// If this fails, nothing may be released. `DAMPER_STATUS_BLANK` if the flash has no journal: the device was not
/// provisioned, or its flash was erased. `DAMPER_STATUS_DAMAGED` if charges may be missing: `damper_journal_recover`
/// continues. `DAMPER_STATUS_CONFIGURATION` if it belongs to another configuration or an earlier version. Nothing is
/// erased.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_journal_open(
    memory: *mut c_void,
    size: usize,
    flash: *const Flash,
    run: *const JournalRun,
    journal: *mut *mut Journal,
) -> Status {
    let open = |driver, run| damper_journal::Journal::open(driver, run).map_err(Status::from);
    // SAFETY: the contract of the header.
    status(unsafe { make(memory, size, flash, run, journal, open) })
}

/// As `damper_journal_open`, but opens a damaged journal. It counts every charge that the damage may hide as
/// `most_steps` steps and, for a Renyi filter, `most_divergence`. `most_steps` is the largest value that was given to
/// `damper_reserve_steps`, else 1. It over-counts, and never under-counts if no charge was larger. With `UINT32_MAX`
/// steps the whole budget counts as charged. Call it only by a decision of the device's owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_journal_recover(
    memory: *mut c_void,
    size: usize,
    flash: *const Flash,
    run: *const JournalRun,
    most_steps: u32,
    most_divergence: f64,
    journal: *mut *mut Journal,
) -> Status {
    let most = Allowance { steps: most_steps.max(1), divergence: most_divergence };
    let open = |driver, run| damper_journal::Journal::recover(driver, run, most).map_err(Status::from);
    // SAFETY: the contract of the header.
    status(unsafe { make(memory, size, flash, run, journal, open) })
}

/// Returns the configuration that the journal of this run is bound to.
unsafe fn configuration(run: &JournalRun) -> FfiResult<Configuration> {
    // SAFETY: the caller's contract.
    let IdleRef { head, budget, body } = unsafe { ffi::settled(run.run) }?;
    let chosen;
    let step = match &body.stage {
        Stage::None => return Err(Status::Order),
        Stage::Choosing(choices) => {
            chosen = body.step(*choices).map_err(|error| head.refuse(error))?;
            &chosen
        }
        Stage::Started(step) => step,
    };
    // SAFETY: the caller's contract.
    let description = if run.description.is_null() && run.description_len == 0 {
        &[]
    } else {
        // SAFETY: the caller's contract.
        unsafe { ffi::input_alone(run.description, run.description_len) }?
    };
    let configuration = match run.order {
        0 => Configuration::of_ledger(budget.ledger.budget(), step, head.dim),
        order => Configuration::of_filter(order, run.epsilon, run.delta, step, head.dim),
    };
    Ok(configuration.with(description))
}

unsafe fn make(
    memory: *mut c_void,
    size: usize,
    flash: *const Flash,
    run: *const JournalRun,
    journal: *mut *mut Journal,
    open: impl FnOnce(Driver, Configuration) -> FfiResult<damper_journal::Journal<Driver>>,
) -> FfiResult {
    // SAFETY: the caller's contract.
    let flash = unsafe { ffi::read_sized_alone(flash) }?;
    // SAFETY: the caller's contract.
    let run = unsafe { ffi::read_sized_alone(run) }?;
    // SAFETY: the caller's contract.
    let configuration = unsafe { configuration(&run) }?;
    let make = || open(Driver::new(flash)?, configuration);
    // SAFETY: the caller's contract.
    unsafe { ffi::journal::make(memory.cast(), size, journal, make) }
}

/// Writes the newest record in the journal.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_journal_record(journal: *const Journal, record: *mut Record) -> Status {
    // SAFETY: the contract of the header.
    let answer = unsafe { ffi::journal::journal(journal.cast_mut()) }.and_then(|journal| {
        let damper_core::accounting::Record { budget, paid, divergence, order, fingerprint } = journal.kept.record();
        // SAFETY: the contract of the header.
        unsafe { ffi::write_alone(record, Record { budget, paid, divergence, order, fingerprint }) }
    });
    status(answer)
}

/// Persists a record: the callback for `damper_set_store`, with the journal as its context. Returns 0 when the record
/// would survive a power cut, else a status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_journal_persist(journal: *mut c_void, record: *const Record) -> c_int {
    // SAFETY: the contract of the header.
    status(unsafe { persist(journal.cast(), record) }) as c_int
}

unsafe fn persist(journal: *mut Journal, record: *const Record) -> FfiResult {
    // SAFETY: the caller's contract.
    let Record { budget, paid, divergence, order, fingerprint } = unsafe { ffi::read_alone(record) }?;
    let record = damper_core::accounting::Record { budget, paid, divergence, order, fingerprint };
    // SAFETY: the caller's contract.
    unsafe { ffi::journal::busy(journal, |kept| Ok(kept.persist(record)?)) }
}

/// Ends the use of a journal and wipes its memory. The flash keeps what was persisted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_journal_close(journal: *mut Journal) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::journal::close(journal) })
}
