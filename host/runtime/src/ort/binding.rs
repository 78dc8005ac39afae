//! Inputs and outputs bound to a session (onnxruntime's `IoBinding`). Binding an input in the processor's memory copies
//! it to the session's device. A session on the processor reads it in place.

use ort::session::Session;
use ort::{AsPointer as _, Error, sys};
use std::ffi::CStr;
use std::ptr;

/// Bindings of a session.
pub(super) struct Binding(*mut sys::OrtIoBinding);

// SAFETY: the binding has no other owner and is not bound to a thread.
unsafe impl Send for Binding {}

impl Binding {
    /// Creates empty bindings.
    pub(super) fn new(session: &Session) -> ort::Result<Self> {
        let mut binding = ptr::null_mut();
        // SAFETY: the session is alive, and `binding` becomes the owner of the result.
        unsafe {
            Error::result_from_status((ort::api().CreateIoBinding)(session.ptr().cast_mut(), &mut binding))?;
        }
        Ok(Self(binding))
    }

    /// Binds input `name`, replacing the previous value.
    ///
    /// # Safety
    ///
    /// `value` must be a tensor whose entries stay valid in every run until another value is bound.
    pub(super) unsafe fn input(&mut self, name: &CStr, value: *const sys::OrtValue) -> ort::Result<()> {
        // SAFETY: as the caller guarantees. onnxruntime keeps its own reference to the value.
        unsafe { Error::result_from_status((ort::api().BindInput)(self.0, name.as_ptr(), value)) }
    }

    /// Binds output `name`, replacing the previous value.
    ///
    /// # Safety
    ///
    /// `value` must be a tensor of the output's shape. Nothing may read it while the session runs.
    pub(super) unsafe fn output(&mut self, name: &CStr, value: *const sys::OrtValue) -> ort::Result<()> {
        // SAFETY: as the caller guarantees. onnxruntime keeps its own reference to the value.
        unsafe { Error::result_from_status((ort::api().BindOutput)(self.0, name.as_ptr(), value)) }
    }

    /// Runs `session`, for which the bindings were created, and waits for its copies.
    pub(super) fn run(&mut self, session: &mut Session) -> ort::Result<()> {
        let api = ort::api();
        // SAFETY: both are alive and exclusively borrowed. All bound values are valid, as the callers of `input` and
        // `output` guarantee.
        unsafe {
            Error::result_from_status((api.SynchronizeBoundInputs)(self.0))?;
            Error::result_from_status((api.RunWithBinding)(session.ptr().cast_mut(), ptr::null(), self.0))?;
            Error::result_from_status((api.SynchronizeBoundOutputs)(self.0))
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // SAFETY: the binding was created here, and nothing uses it afterwards.
        unsafe { (ort::api().ReleaseIoBinding)(self.0) };
    }
}
