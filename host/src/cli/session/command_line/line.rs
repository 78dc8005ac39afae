//! The command line of the thread that serves a process or a call.

use std::cell::RefCell;

thread_local! {
    static LINE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// This thread's command line, the program's name first.
pub(in crate::cli) fn command() -> Vec<String> {
    LINE.with_borrow(Vec::clone)
}

/// Forgets this thread's command line, or goes back to the one that was before.
pub(in crate::cli) fn replaced(line: Vec<String>) -> Vec<String> {
    LINE.replace(line)
}
