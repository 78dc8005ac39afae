//! Journals: turns pointers to them into references.
//!
//! While the caller's flash functions run, no reference to the mark exists. A nested call reads only the mark, and
//! fails.

use super::{apart, span, wipe};
use crate::flash::{Driver, Unfit};
use crate::journal::Journal;
use crate::status::{FfiResult, Status};
use core::mem::size_of;

/// Returns the mark of a journal at this address.
fn mark(journal: *const Journal) -> usize {
    journal.addr().wrapping_mul(7) ^ 0x4450_4a4c
}

impl From<Unfit> for Status {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Absent => Self::Null,
            Unfit::Sizes => Self::Geometry,
        }
    }
}

/// Stores the journal that `open` creates in `bytes` of memory. `open` calls the caller's flash. The memory may be
/// uninitialised, because it is not read.
pub(crate) unsafe fn make(
    memory: *mut u8,
    bytes: usize,
    out: *mut *mut Journal,
    open: impl FnOnce() -> FfiResult<damper_journal::Journal<Driver>>,
) -> FfiResult {
    let journal = memory.cast::<Journal>();
    span(journal, 1)?;
    apart(span(memory, bytes)?, span(out, 1)?)?;
    if bytes < size_of::<Journal>() {
        return Err(Status::TooSmall);
    }
    let kept = open()?;
    // SAFETY: the caller gives the memory: not null, aligned, and of that many bytes.
    unsafe {
        journal.write(Journal { mark: mark(journal), busy: false, kept });
        out.write(journal);
    }
    Ok(())
}

/// Fails unless there is a journal at this address that is not in a call.
unsafe fn check(journal: *const Journal) -> FfiResult {
    span(journal, 1)?;
    // SAFETY: not null and aligned. By the caller's contract `make` wrote a journal here, and only `close` has written
    // since. So the mark is initialised.
    if unsafe { (&raw const (*journal).mark).read() } != mark(journal) {
        return Err(Status::NotAJournal);
    }
    // SAFETY: the mark shows that `close` did not wipe the journal.
    if unsafe { (&raw const (*journal).busy).read() } { Err(Status::Busy) } else { Ok(()) }
}

/// Borrows the journal at this address.
pub(crate) unsafe fn journal<'a>(journal: *mut Journal) -> FfiResult<&'a mut Journal> {
    // SAFETY: the caller's contract. The journal is in no other call, so nothing else refers to it.
    unsafe { check(journal).map(|()| &mut *journal) }
}

/// Calls `act` with the journal at this address. Other calls with it fail meanwhile.
pub(crate) unsafe fn busy(
    journal: *mut Journal,
    act: impl FnOnce(&mut damper_journal::Journal<Driver>) -> FfiResult,
) -> FfiResult {
    // SAFETY: the caller's contract. The fields are disjoint: calls from the flash functions read only the mark and
    // `busy`.
    unsafe {
        check(journal)?;
        (&raw mut (*journal).busy).write(true);
        let answer = act(&mut (*journal).kept);
        (&raw mut (*journal).busy).write(false);
        answer
    }
}

/// Ends a journal and wipes its memory.
pub(crate) unsafe fn close(journal: *mut Journal) -> FfiResult {
    // SAFETY: the caller's contract. A journal has no destructor to run.
    unsafe {
        check(journal)?;
        wipe(journal.cast(), size_of::<Journal>());
    }
    Ok(())
}
