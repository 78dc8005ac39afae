//! The program that embeds the command in its process, if there is one: see `embed`.

use crate::cli::session::command_line::line;
use damper_data::MemoryArrays;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;

/// Callbacks of an embedding program.
pub trait Listener {
    /// Receives an event: an object with `event`, as docs/events.md lists them. It has only released and public values.
    fn event(&mut self, event: &Value);

    /// Receives a warning that depends on rows of the data, which ε does not cover.
    ///
    /// Keep it as a value for explicit access, not in a log, a notebook or an exception. The default ignores it.
    fn data_warning(&mut self, _text: &str) {}

    /// Returns true if the run must end after its current step.
    fn stop(&mut self) -> bool;
}

/// State of this thread's embedded call. A listener is borrowed while it runs, because it may make its own call.
struct Called {
    listener: Rc<RefCell<Box<dyn Listener>>>,
    memory: Option<MemoryArrays>,
    answer: Option<String>,
    /// Command line of the enclosing call.
    line: Vec<String>,
}

thread_local! {
    /// Calls of this thread, the innermost last.
    static CALLED: RefCell<Vec<Called>> = const { RefCell::new(Vec::new()) };
}

/// A call of this thread.
pub(in crate::cli) struct Call;

impl Call {
    pub(in crate::cli) fn begin(listener: Box<dyn Listener>, memory: Option<MemoryArrays>) -> Self {
        let line = line::replaced(Vec::new());
        let called = Called { listener: Rc::new(RefCell::new(listener)), memory, answer: None, line };
        CALLED.with_borrow_mut(|calls| calls.push(called));
        Self
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(ended) = CALLED.with_borrow_mut(Vec::pop) {
            line::replaced(ended.line);
        }
    }
}

/// Returns true if this thread serves a call.
pub(in crate::cli) fn is_active() -> bool {
    CALLED.with_borrow(|calls| !calls.is_empty())
}

fn listener() -> Option<Rc<RefCell<Box<dyn Listener>>>> {
    CALLED.with_borrow(|calls| Some(calls.last()?.listener.clone()))
}

/// Sends an event to the caller, if there is one. Returns true if so.
pub(in crate::cli) fn tell(event: &str, mut fields: Value) -> bool {
    let Some(listener) = listener() else { return false };
    let mut told = json!({ "event": event });
    if let (Some(told), Some(fields)) = (told.as_object_mut(), fields.as_object_mut()) {
        told.append(fields);
    }
    listener.borrow_mut().event(&told);
    true
}

/// Sends a warning about rows to the caller, if there is one.
pub(in crate::cli) fn tell_of_rows(text: &str) {
    if let Some(listener) = listener() {
        listener.borrow_mut().data_warning(text);
    }
}

/// Returns true if the caller requests a stop of the run.
pub(in crate::cli) fn stop() -> bool {
    listener().is_some_and(|listener| listener.borrow_mut().stop())
}

/// Stores an answer for the caller, if there is one. Returns true if so.
pub(in crate::cli) fn keep_answer(text: &str) -> bool {
    CALLED.with_borrow_mut(|calls| calls.last_mut().map(|called| called.answer = Some(text.to_owned())).is_some())
}

/// Returns the caller's arrays.
pub(in crate::cli) fn memory() -> Option<MemoryArrays> {
    CALLED.with_borrow(|calls| calls.last()?.memory.clone())
}

/// Takes the answer of this thread's call.
pub(in crate::cli) fn take_answer() -> String {
    CALLED.with_borrow_mut(|calls| calls.last_mut()?.answer.take()).unwrap_or_default()
}
