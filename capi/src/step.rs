//! A step: charged when it opens, given samples, and released by its end alone.

use crate::ffi::{self, Stepping};
use crate::memory::{Phase, Run};
use crate::status::{FfiResult, Status, status};
use damper_core::error::ConfigError;
use damper_core::filter::mix;

/// The most segments of a gradient in one call.
pub const DAMPER_MAX_SEGMENTS: usize = 32;

/// Consecutive coordinates of a gradient.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Segment {
    /// The first; may be null where there are none.
    pub data: *const f32,
    /// Number of elements.
    pub len: usize,
}

/// Charges a step, persists the charge, and opens the step; writes its number, counted from 0 over all restarts.
/// Without a durable charge nothing is opened.
///
/// `DAMPER_STATUS_BUDGET_SPENT` at the end of training; `DAMPER_STATUS_NOT_PERSISTED` where the store failed: the step
/// is burned, the next may be tried.
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

/// Begins the draw of the open step, as the configuration says: each of `0..samples` with probability `sampling_rate / 2^53`, by a coin
/// of its own. A step of `damper_step_open_adaptive` is drawn at the rate that it was charged. One draw a step.
///
/// `DAMPER_STATUS_RANGE` where the configuration has no samples.
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

/// Writes the index of the next sample that is drawn, ascending; `DAMPER_STATUS_END` after the last.
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

/// Hands the segments to `take` as slices.
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

/// Adds one sample to the open step: its gradient (`[dim]`) at the one point where it is wanted, or mixed by the caller
/// (see `damper_eval_point`). It is clipped, rounded to the grid and summed. A gradient whose squared norm is not a finite
/// `float` adds exactly nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_add(run: *mut Run, grad: *const f32, len: usize) -> Status {
    let segment = Segment { data: grad, len };
    // SAFETY: the contract of the header.
    unsafe { damper_add_segments(run, &raw const segment, 1) }
}

/// As `damper_add`, of a gradient in `count` consecutive segments, at most `DAMPER_MAX_SEGMENTS`: one of each tensor, say.
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

/// Writes at how many points each sample's gradient is wanted in the open step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_eval_points(run: *const Run, points: *mut usize) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::open_step(run) }.and_then(|(head, open)| {
        // SAFETY: the contract of the header.
        unsafe { ffi::write(head, points, open.eval_points()) }
    }))
}

/// Writes point `index` (`[dim]`) to `point` and the weight of the gradients taken there to `weight`. Whoever mixes
/// elsewhere computes `u = w_0·g_0`, then `u = u + w_j·g_j` in order, each operation rounded by itself, and adds `u` by
/// `damper_add`.
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

/// Takes 1 vector, in which `damper_combine_…` mixes the gradients of a sample at several points. Before
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

/// Begins a sample whose gradients come point by point; one that was begun and not ended adds nothing.
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

/// Writes where the sample's next gradient is wanted (`[dim]`) to `point`; `DAMPER_STATUS_END` when there are no more
/// points.
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

/// Mixes in the sample's gradient (`[dim]`) at the point that was written last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_combine_add(run: *mut Run, grad: *const f32, len: usize) -> Status {
    let segment = Segment { data: grad, len };
    // SAFETY: the contract of the header.
    unsafe { damper_combine_add_segments(run, &raw const segment, 1) }
}

/// As `damper_combine_add`, of a gradient in segments as in `damper_add_segments`.
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

/// Ends the sample: clips the mixed gradient and adds it. `DAMPER_STATUS_ORDER` where a point is missing; nothing was
/// added.
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

/// Adds the noise, releases the mean over the expected batch, filters it and updates `params` (`[dim]`); then releases
/// the counts, if the threshold has any, and lets it learn from them. The step is over. Where the call is refused, it
/// stays open.
///
/// Parameters must be finite; they are released, and nothing else of the step is.
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

/// Gives the open step up: nothing is released, its sum is wiped, its charge stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_step_abandon(run: *mut Run) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::stepping(run) }.map(|Stepping { head, live, .. }| {
        live.end();
        head.phase = Phase::Ready;
    }))
}
