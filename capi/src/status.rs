//! The status that every function returns: a stable number, its name, and a sentence.

use core::ffi::{CStr, c_char};
use damper_core::error::{CallError, OpenError};

/// Result of a call. Values below 16 are success. Any other call failed as a whole: nothing was added, released or
/// changed, unless the sentence of the status states it. Numbers are stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// No more items: no further sample in the draw, no further evaluation point of the sample.
    End = 1,
    /// A pointer is null.
    Null = 16,
    /// A pointer is not aligned for its type.
    Misaligned = 17,
    /// The memory of the run is too small for the run and its slots.
    TooSmall = 18,
    /// A length differs from the required length.
    Length = 19,
    /// A buffer overlaps the run's memory or another buffer of the call.
    Overlap = 20,
    /// This address holds no run: it was closed, moved or copied.
    NotARun = 21,
    /// The run is already in a call: the callback called it.
    Busy = 22,
    /// The call is out of order: see the function.
    Order = 23,
    /// A number is out of its range: `damper_last_error` names it and its range.
    Range = 24,
    /// The run has no key, or its generator failed.
    NoKey = 25,
    /// The run has no store for its ledger.
    NoStore = 26,
    /// The privacy budget is used up: stop.
    BudgetSpent = 27,
    /// The ledger could not be persisted. Nothing is released, and the step is lost.
    NotPersisted = 28,
    /// The record belongs to another budget.
    Record = 29,
    /// This address holds no shard: it was merged, closed, moved or copied.
    NotAShard = 30,
    /// The bytes differ from those that were saved.
    Damaged = 31,
    /// The saved state belongs to another configuration.
    Configuration = 32,
    /// The `size` of a struct is unknown to this library: header and library are of different versions.
    Size = 33,
    /// The processor does not compute by IEEE 754: see `damper_self_test`.
    Arithmetic = 34,
    /// This address holds no journal: it was closed, moved or copied.
    NotAJournal = 35,
    /// The flash driver failed.
    Flash = 36,
    /// The sizes of a region of flash do not fit: see `damper_flash`.
    Geometry = 37,
    /// The flash has no journal: the device was not provisioned, or its flash was erased. Nothing may be released.
    Blank = 38,
    /// A region to be provisioned is not erased.
    Occupied = 39,
    /// The flash does not store what is written.
    Worn = 40,
    /// The key repeats one word, or the generator's words repeat or are 0: see `damper_set_fresh_key`.
    DeadGenerator = 41,
}

/// All statuses, for tables.
const ALL: [(Status, &CStr, &CStr); 28] = [
    (Status::Ok, c"DAMPER_STATUS_OK", c"done"),
    (Status::End, c"DAMPER_STATUS_END", c"there is nothing more"),
    (Status::Null, c"DAMPER_STATUS_NULL", c"a pointer is null"),
    (Status::Misaligned, c"DAMPER_STATUS_MISALIGNED", c"a pointer is not aligned for what it points to"),
    (Status::TooSmall, c"DAMPER_STATUS_TOO_SMALL", c"the memory of the run is too small for it and what was chosen"),
    (Status::Length, c"DAMPER_STATUS_LENGTH", c"a length is not the one that is needed"),
    (Status::Overlap, c"DAMPER_STATUS_OVERLAP", c"a buffer overlaps the run's memory or another buffer of the call"),
    (Status::NotARun, c"DAMPER_STATUS_NOT_A_RUN", c"there is no run here: closed, moved or copied"),
    (Status::Busy, c"DAMPER_STATUS_BUSY", c"the run is in a call already"),
    (Status::Order, c"DAMPER_STATUS_ORDER", c"the call is out of order"),
    (Status::Range, c"DAMPER_STATUS_RANGE", c"a number is out of its range: damper_last_error says which"),
    (Status::NoKey, c"DAMPER_STATUS_NO_KEY", c"the run has no key"),
    (Status::NoStore, c"DAMPER_STATUS_NO_STORE", c"the run has no store for its ledger"),
    (Status::BudgetSpent, c"DAMPER_STATUS_BUDGET_SPENT", c"the privacy budget is spent"),
    (Status::NotPersisted, c"DAMPER_STATUS_NOT_PERSISTED", c"the ledger could not be persisted: nothing is released"),
    (Status::Record, c"DAMPER_STATUS_RECORD", c"the record is another budget's"),
    (Status::NotAShard, c"DAMPER_STATUS_NOT_A_SHARD", c"there is no shard here: merged, closed, moved or copied"),
    (Status::Damaged, c"DAMPER_STATUS_DAMAGED", c"the bytes are not what was saved"),
    (Status::Configuration, c"DAMPER_STATUS_CONFIGURATION", c"what was saved is of another configuration"),
    (
        Status::Size,
        c"DAMPER_STATUS_SIZE",
        c"the size of a struct is of another version: use the header of this library",
    ),
    (
        Status::Arithmetic,
        c"DAMPER_STATUS_ARITHMETIC",
        c"the processor's floating-point mode is not the one of IEEE 754",
    ),
    (Status::NotAJournal, c"DAMPER_STATUS_NOT_A_JOURNAL", c"there is no journal here: closed, moved or copied"),
    (Status::Flash, c"DAMPER_STATUS_FLASH", c"the flash did not do what it was asked"),
    (Status::Geometry, c"DAMPER_STATUS_GEOMETRY", c"the sizes of the region of flash do not fit"),
    (Status::Blank, c"DAMPER_STATUS_BLANK", c"there is no journal in the flash: not provisioned, or erased"),
    (Status::Occupied, c"DAMPER_STATUS_OCCUPIED", c"a region that is to be provisioned must be erased"),
    (Status::Worn, c"DAMPER_STATUS_WORN", c"the flash does not keep what is written"),
    (
        Status::DeadGenerator,
        c"DAMPER_STATUS_DEAD_GENERATOR",
        c"the random generator is dead: its words repeat or are 0",
    ),
];

fn find(status: i32, text: fn(&(Status, &'static CStr, &'static CStr)) -> &'static CStr) -> *const c_char {
    ALL.iter().find(|entry| entry.0 as i32 == status).map_or(c"no status of damper", text).as_ptr()
}

/// Returns the name of a status, as in this header. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn damper_status_name(status: i32) -> *const c_char {
    find(status, |entry| entry.1)
}

/// Returns a status as a sentence. Never null.
#[unsafe(no_mangle)]
pub extern "C" fn damper_status_message(status: i32) -> *const c_char {
    find(status, |entry| entry.2)
}

/// Result of a function inside this crate.
pub(crate) type FfiResult<T = ()> = Result<T, Status>;

/// Converts a result to a status.
pub(crate) fn status(answer: FfiResult) -> Status {
    answer.err().unwrap_or(Status::Ok)
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Length { .. } => Self::Length,
            CallError::Clip => Self::Range,
            _ => Self::Order,
        }
    }
}

impl<E> From<OpenError<E>> for Status {
    fn from(error: OpenError<E>) -> Self {
        match error {
            OpenError::BudgetSpent => Self::BudgetSpent,
            OpenError::Store(_) => Self::NotPersisted,
            OpenError::Call(error) => error.into(),
        }
    }
}
