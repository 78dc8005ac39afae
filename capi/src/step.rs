//! A step: charged when it opens, filled with samples, and released only by its end.

use crate::ffi::{self, Stepping};
use crate::memory::{Phase, Run};
use crate::status::{FfiResult, Status, status};
use damper_core::error::ConfigError;
use damper_core::filter::mix;

/// Largest number of segments of a gradient in one call.
pub const DAMPER_MAX_SEGMENTS: usize = 32;

/// Consecutive coordinates of a gradient.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Segment {
    /// The first element. May be null if `len` is 0.
    pub data: *const f32,
    /// Number of elements.
    pub len: usize,
}

/// Charges a step, persists the charge, and opens the step. Writes its number, counted from 0 over all restarts.
/// Without a durable charge no step opens.
///
/// `DAMPER_STATUS_BUDGET_SPENT` at the end of training. `DAMPER_STATUS_NOT_PERSISTED` if the store failed: the step is
/// lost, and the next may be tried.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_step_open(run: *mut Run, number: *mut u32) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe {
        ffi::open(run, number, |step, state, budget| match budget.filter {
            None => step.open(state, &mut budget.ledger),
            Some(_) => Err(ffi::NOT_CHARGED),
        })
    })
}

/// Starts the draw of the open step, as configured. Each of `0..samples` is drawn independently with probability
/// `sampling_rate / 2^53`. A step of `damper_step_open_adaptive` is drawn at the rate that was charged. A step has one
/// draw.
///
/// `DAMPER_STATUS_RANGE` if the configuration has no samples.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_batch_begin(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.and_then(|step| {
        let Stepping { head, live, generator } = step;
        let (Some(open), None) = (&live.open, &live.draw) else { return Err(Status::Order) };
        let unset = ConfigError { parameter: "samples", must_be: "set in the configuration, with their sampling rate" };
        live.draw = Some(open.poisson_batch(generator).map_err(|_| head.refuse(unset))?);
        Ok(())
    }))
}

/// Writes the index of the next drawn sample, in ascending order. `DAMPER_STATUS_END` after the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_batch_next(run: *mut Run, index: *mut u32) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.and_then(|Stepping { head, live, .. }| {
        ffi::writable(head, index)?;
        let sample = live.draw.as_mut().ok_or(Status::Order)?.next().ok_or(Status::End)?;
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, index, sample) }
    }))
}

/// Calls `take` with the segments as slices.
unsafe fn with_segments<R>(
    step: Stepping<'_>,
    segments: *const Segment,
    count: usize,
    take: impl FnOnce(Stepping<'_>, &[&[f32]]) -> FfiResult<R>,
) -> FfiResult<R> {
    // SAFETY: the caller's contract.
    let lent = unsafe { ffi::input(step.head, segments, count) }?;
    let mut parts: [&[f32]; DAMPER_MAX_SEGMENTS] = [&[]; DAMPER_MAX_SEGMENTS];
    let parts = parts.get_mut(..lent.len()).ok_or(Status::Length)?;
    let mut total = 0usize;
    for (part, segment) in parts.iter_mut().zip(lent) {
        // SAFETY: the caller's contract.
        *part = unsafe { ffi::input(step.head, segment.data, segment.len) }?;
        total = total.saturating_add(segment.len);
    }
    if total != step.head.dim { Err(Status::Length) } else { take(step, parts) }
}

/// Adds one sample to the open step: its gradient (`[dim]`) at the only evaluation point, or combined by the caller
/// (see `damper_eval_point`). It is clipped, rounded to the grid and summed. If its squared norm is not a finite
/// `float`, it adds exactly nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_add(run: *mut Run, grad: *const f32, len: usize) -> Status {
    let segment = Segment { data: grad, len };
    // SAFETY: the contract of the header.
    unsafe { damper_add_segments(run, &raw const segment, 1) }
}

/// As `damper_add`, for a gradient in `count` consecutive segments, at most `DAMPER_MAX_SEGMENTS`. A segment may be a
/// tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_add_segments(run: *mut Run, segments: *const Segment, count: usize) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.and_then(|step| {
        let add = |step: Stepping<'_>, parts: &[&[f32]]| {
            Ok(step.live.open.as_mut().ok_or(Status::Order)?.add_combined(parts)?)
        };
        // SAFETY: the contract of the header.
        unsafe { with_segments(step, segments, count, add) }
    }))
}

/// Writes the number of evaluation points of each sample's gradient in the open step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_eval_points(run: *const Run, points: *mut usize) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::open_step(run) }.and_then(|(head, open)| {
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, points, open.eval_points()) }
    }))
}

/// Writes evaluation point `index` (`[dim]`) to `point` and the weight of its gradients to `weight`. To combine
/// gradients elsewhere, compute `u = w_0·g_0`, then `u = u + w_j·g_j` in order, and round after each operation. Then
/// add `u` by `damper_add`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_eval_point(
    run: *const Run,
    index: usize,
    params: *const f32,
    params_len: usize,
    point: *mut f32,
    point_len: usize,
    weight: *mut f32,
) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::open_step(run) }.and_then(|(head, open)| {
        ffi::writable_beside(head, weight, [params, point], head.dim)?;
        let pair = ffi::pair(head, (params, params_len), (point, point_len), head.dim)?;
        if index >= open.eval_points() {
            return Err(Status::Order);
        }
        // SAFETY: the contract of the header.
        let (params, point) = unsafe { pair.lend() };
        let found = open.eval_point(index, params, point)?;
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, weight, found) }
    }))
}

/// Takes 1 vector, in which `damper_combine_…` combines the gradients of a sample at several points. Call it before
/// `damper_run_start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_reserve_combining(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::idle(run, Phase::Choosing) }.and_then(|mut idle| {
        if idle.live.mixing.is_some() {
            return Err(Status::Order);
        }
        idle.live.mixing = Some(idle.vectors(1)?);
        Ok(())
    }))
}

/// Starts a sample with gradients at several points, which come one at a time. A sample without an end adds nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_combine_begin(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.and_then(|Stepping { live, .. }| {
        if live.mixing.is_none() {
            return Err(Status::Order);
        }
        (live.point, live.weight) = (Some(0), None);
        Ok(())
    }))
}

/// Writes the next evaluation point of the sample (`[dim]`) to `point`. `DAMPER_STATUS_END` after the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_combine_eval_point(
    run: *mut Run,
    params: *const f32,
    params_len: usize,
    point: *mut f32,
    point_len: usize,
) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.and_then(|Stepping { head, live, .. }| {
        let pair = ffi::pair(head, (params, params_len), (point, point_len), head.dim)?;
        let (open, next) = (live.open.as_ref().ok_or(Status::Order)?, live.point.ok_or(Status::Order)?);
        if next >= open.eval_points() {
            return Err(Status::End);
        }
        // SAFETY: the contract of the header.
        let (params, point) = unsafe { pair.lend() };
        live.weight = Some(open.eval_point(next, params, point)?);
        Ok(())
    }))
}

/// Adds the sample's gradient (`[dim]`) at the last written point to the combination.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_combine_add(run: *mut Run, grad: *const f32, len: usize) -> Status {
    let segment = Segment { data: grad, len };
    // SAFETY: the contract of the header.
    unsafe { damper_combine_add_segments(run, &raw const segment, 1) }
}

/// As `damper_combine_add`, for a gradient in segments as in `damper_add_segments`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_combine_add_segments(run: *mut Run, segments: *const Segment, count: usize) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.and_then(|step| {
        let add = |step: Stepping<'_>, parts: &[&[f32]]| {
            let live = step.live;
            let (next, weight) = (live.point.ok_or(Status::Order)?, live.weight.ok_or(Status::Order)?);
            let mixing = live.mixing.as_mut().ok_or(Status::Order)?;
            mix(next, weight, parts, mixing);
            (live.point, live.weight) = (next.checked_add(1), None);
            Ok(())
        };
        // SAFETY: the contract of the header.
        unsafe { with_segments(step, segments, count, add) }
    }))
}

/// Ends the sample: clips the combined gradient and adds it. `DAMPER_STATUS_ORDER` if a point is missing. Nothing is
/// added then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_combine_end(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.and_then(|Stepping { live, .. }| {
        let (open, mixing) = (live.open.as_mut().ok_or(Status::Order)?, live.mixing.as_ref().ok_or(Status::Order)?);
        if live.point != Some(open.eval_points()) {
            return Err(Status::Order);
        }
        live.point = None;
        Ok(open.add_combined(&[mixing])?)
    }))
}

/// Adds the noise, releases the mean over the expected batch, filters it and updates `params` (`[dim]`). Then releases
/// the counts, if the threshold has any, and updates the threshold from them. The step is then over. If the call fails,
/// the step stays open.
///
/// Parameters must be finite. They are the only release of the step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_step_finish(run: *mut Run, params: *mut f32, len: usize) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.and_then(|Stepping { head, live, generator }| {
        // SAFETY: the contract of the header.
        let params = unsafe { ffi::update(head, params, len, head.dim) }?;
        let finished = match live.open.take() {
            Some(open) => open.finish(params, generator),
            None => return Err(Status::Order),
        };
        live.end();
        head.phase = Phase::Ready;
        Ok(finished?)
    }))
}

/// Abandons the open step. Nothing is released, its sum is wiped, and its charge stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_step_abandon(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.map(|Stepping { head, live, .. }| {
        live.end();
        head.phase = Phase::Ready;
    }))
}
