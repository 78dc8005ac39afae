//! Inputs and outputs that are bound to a session, as onnxruntime has them. Binding an input that lies in the processor's memory copies it
//! to the session's device; a session on the processor reads it where it lies.

use ort::session::Session;
use ort::{AsPointer as _, Error, sys};
use std::ffi::CStr;
use std::ptr;

/// A session's bindings.
pub(super) struct Binding(*mut sys::OrtIoBinding);

// SAFETY: it is nobody else's, and belongs to no thread.
unsafe impl Send for Binding {}

impl Binding {
    /// None yet.
    pub(super) fn new(session: &Session) -> ort::Result<Self> {
        let mut binding = ptr::null_mut();
        // SAFETY: the session is alive; what is written is owned here.
        unsafe {
            Error::result_from_status((ort::api().CreateIoBinding)(session.ptr().cast_mut(), &mut binding))?;
        }
        Ok(Self(binding))
    }

    /// Binds input `name`, in the place of the value before.
    ///
    /// # Safety
    ///
    /// `value` is a tensor, and its entries are there in every run until another is bound.
    pub(super) unsafe fn input(&mut self, name: &CStr, value: *const sys::OrtValue) -> ort::Result<()> {
        // SAFETY: as promised; onnxruntime keeps a reference of its own to the value.
        unsafe { Error::result_from_status((ort::api().BindInput)(self.0, name.as_ptr(), value)) }
    }

    /// Binds output `name`, in the place of the value before.
    ///
    /// # Safety
    ///
    /// `value` is a tensor of the output's shape, which nobody reads while the session runs.
    pub(super) unsafe fn output(&mut self, name: &CStr, value: *const sys::OrtValue) -> ort::Result<()> {
        // SAFETY: as promised; onnxruntime keeps a reference of its own to the value.
        unsafe { Error::result_from_status((ort::api().BindOutput)(self.0, name.as_ptr(), value)) }
    }

    /// Runs `session`, for which it was made, and waits for its copies.
    pub(super) fn run(&mut self, session: &mut Session) -> ort::Result<()> {
        let api = ort::api();
        // SAFETY: both are alive and borrowed alone; what is bound is there, as was promised.
        unsafe {
            Error::result_from_status((api.SynchronizeBoundInputs)(self.0))?;
            Error::result_from_status((api.RunWithBinding)(session.ptr().cast_mut(), ptr::null(), self.0))?;
            Error::result_from_status((api.SynchronizeBoundOutputs)(self.0))
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // SAFETY: it was made here, and is gone then.
        unsafe { (ort::api().ReleaseIoBinding)(self.0) };
    }
}
