//! Command line of the thread that serves a process or a call.

use std::cell::RefCell;

thread_local! {
    static LINE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Returns this thread's command line, starting with the program's name.
pub(in crate::cli) fn command() -> Vec<String> {
    LINE.with_borrow(Vec::clone)
}

/// Replaces this thread's command line, and returns the previous value.
pub(in crate::cli) fn replaced(line: Vec<String>) -> Vec<String> {
    LINE.replace(line)
}
