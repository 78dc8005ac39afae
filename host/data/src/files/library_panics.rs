//! Converts panics of libraries on malformed files to errors.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while a panic on this thread is converted to an error. A panic hook must not report it.
#[must_use]
pub fn catches_panics() -> bool {
    GUARDED.get()
}

/// Runs `body`. Returns `None` if it panics.
pub(crate) fn guarded<T>(body: impl FnOnce() -> T) -> Option<T> {
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    GUARDED.set(before);
    result.ok()
}
