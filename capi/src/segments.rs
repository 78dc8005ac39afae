//! Streamed gradients: a callback pushes a gradient in segments, as often as needed, into a step or into memory.

use crate::ffi::{self, input_alone};
use crate::memory::Run;
use crate::status::{Status, status};
use core::ffi::c_void;
use damper_core::clip::Segments;

/// A sink for a gradient in segments. Only the producer that received it may use it, until the producer returns.
pub enum Sink<'a, 'b> {
    /// A step, which stores none of the gradient.
    Step(&'a mut Segments<'b>),
    /// Memory, and the number of values pushed.
    Stored(&'a mut [f32], usize),
}

impl Sink<'_, '_> {
    pub(crate) fn push(&mut self, segment: &[f32]) {
        match self {
            Self::Step(segments) => segments.push(segment),
            Self::Stored(grad, at) => {
                let end = at.saturating_add(segment.len());
                let here = grad.get_mut(*at..end).unwrap_or_default();
                here.iter_mut().zip(segment).for_each(|(to, from)| *to = *from);
                *at = end;
            }
        }
    }

    /// Borrows the sink that a producer received.
    pub(crate) unsafe fn of<'s>(sink: *mut Self) -> Option<&'s mut Self> {
        // SAFETY: by the contract of the header null, or the argument of `Produce` without another user.
        unsafe { sink.as_mut() }
    }
}

/// Pushes a sample's gradient: all of it, in order, in segments of any length, and the same values in each call. It
/// must not call a function of the run.
pub type Produce = Option<unsafe extern "C" fn(context: *mut c_void, sink: *mut Sink<'_, '_>)>;

/// Returns 1 if the sink skips the next `len` values in this pass. The producer must then not push them. A producer
/// need not call this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_sink_skip(sink: *mut Sink<'_, '_>, len: usize) -> u32 {
    // SAFETY: the contract of the header.
    match unsafe { Sink::of(sink) } {
        Some(Sink::Step(segments)) => segments.skip(len).into(),
        _ => 0,
    }
}

/// Pushes the next `len` values of the gradient.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_sink_push(sink: *mut Sink<'_, '_>, segment: *const f32, len: usize) {
    // SAFETY: the contract of the header. The consumer detects missing values.
    unsafe {
        if let (Some(sink), Ok(segment)) = (Sink::of(sink), input_alone(segment, len)) {
            sink.push(segment);
        }
    }
}

/// As `damper_add`, for a gradient that is not in memory. It calls `produce` several times. The sum has the same bits.
/// `DAMPER_STATUS_LENGTH` if the number of values is not `[dim]`. Nothing is added then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_add_streamed(run: *mut Run, produce: Produce, context: *mut c_void) -> Status {
    // SAFETY: the contract of the header. The sink lives until the producer returns.
    status(unsafe {
        let produce = produce.ok_or(Status::Null);
        produce.and_then(|produce| {
            ffi::with_open(run, |open| {
                Ok(open.add_combined_streamed(|segments| {
                    let mut sink = Sink::Step(segments);
                    produce(context, &raw mut sink);
                })?)
            })
        })
    })
}

/// Writes the gradient that `produce` pushes to `grad`. `DAMPER_STATUS_LENGTH` if the number of values is not `len`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_store_streamed(
    produce: Produce,
    context: *mut c_void,
    grad: *mut f32,
    len: usize,
) -> Status {
    // SAFETY: the contract of the header. The sink lives until the producer returns.
    status(unsafe {
        ffi::output_alone(grad, len).and_then(|grad| {
            let mut sink = Sink::Stored(grad, 0);
            produce.ok_or(Status::Null)?(context, &raw mut sink);
            match sink {
                Sink::Stored(grad, at) if at == grad.len() => Ok(()),
                _ => Err(Status::Length),
            }
        })
    })
}
