//! The program that calls the command inside its own process, if there is one: see `embed`.

use damper_data::Memory;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::env;
use std::path::PathBuf;

/// Callbacks to a calling program.
pub trait Listener {
    /// Something happened: an object with `event`, as docs/events.md lists them. Released and public values alone.
    fn event(&mut self, event: &Value);

    /// A warning that depends on rows of the data, which ε does not cover. It is for a value that somebody asks for, not for a log, a
    /// notebook or an exception. Not heard if not implemented.
    fn data_warning(&mut self, _text: &str) {}

    /// Returns true if a run is to end after its step.
    fn stop(&mut self) -> bool;
}

/// What a thread's call has.
struct Called {
    listener: Box<dyn Listener>,
    memory: Option<Memory>,
    answer: Option<String>,
}

thread_local! {
    static CALLED: RefCell<Option<Called>> = const { RefCell::new(None) };
}

/// A call of this thread. Its end goes back to the working folder, which a resumed run leaves.
pub(super) struct Call {
    folder: Option<PathBuf>,
}

impl Call {
    pub(super) fn begin(listener: Box<dyn Listener>, memory: Option<Memory>) -> Self {
        CALLED.replace(Some(Called { listener, memory, answer: None }));
        Self { folder: env::current_dir().ok() }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = env::set_current_dir(folder);
        }
        CALLED.with_borrow_mut(Option::take);
    }
}

/// Returns true if this thread serves a call.
pub(super) fn is_active() -> bool {
    CALLED.with_borrow(Option::is_some)
}

/// Tells the caller, if there is one. Returns true if so.
pub(super) fn tell(event: &str, mut fields: Value) -> bool {
    CALLED.with_borrow_mut(|called| {
        let Some(Called { listener, .. }) = called else { return false };
        let mut told = json!({ "event": event });
        if let (Some(told), Some(fields)) = (told.as_object_mut(), fields.as_object_mut()) {
            told.append(fields);
        }
        listener.event(&told);
        true
    })
}

/// Tells the caller of rows, if there is one.
pub(super) fn tell_of_rows(text: &str) {
    CALLED.with_borrow_mut(|called| {
        if let Some(called) = called {
            called.listener.data_warning(text);
        }
    });
}

/// Returns true if the caller wants the run to stop.
pub(super) fn stop() -> bool {
    CALLED.with_borrow_mut(|called| called.as_mut().is_some_and(|called| called.listener.stop()))
}

/// Keeps an answer for the caller, if there is one. Returns true if so.
pub(super) fn keep_answer(text: &str) -> bool {
    CALLED.with_borrow_mut(|called| called.as_mut().map(|called| called.answer = Some(text.to_owned())).is_some())
}

/// The caller's arrays.
pub(super) fn memory() -> Option<Memory> {
    CALLED.with_borrow(|called| called.as_ref()?.memory.clone())
}

/// The answer of this thread's call.
pub(super) fn take_answer() -> String {
    CALLED.with_borrow_mut(|called| called.as_mut()?.answer.take()).unwrap_or_default()
}
