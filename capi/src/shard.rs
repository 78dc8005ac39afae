//! Shards: samples that other workers, or micro-batches, add to the open step.

use crate::ffi;
use crate::memory::Run;
pub use crate::memory::Shard;
use crate::status::{FfiResult, Status, status};
use crate::step::{DAMPER_MAX_SEGMENTS, Segment};
use core::ffi::c_void;
use core::mem::{align_of, size_of};

/// Bytes of a shard on any target without its sum, as `DAMPER_SHARD_BYTES` counts them.
const FIXED: usize = 16 * size_of::<usize>() + 128;
const _: () = assert!(size_of::<Shard>() <= FIXED && align_of::<Shard>() == 8);

/// Returns the bytes of memory that a shard over `dim` parameters needs, with the alignment of a run. Returns 0 if no
/// memory is that large.
#[unsafe(no_mangle)]
pub extern "C" fn damper_shard_size(dim: usize) -> usize {
    let size = dim.checked_mul(size_of::<i32>()).and_then(|sum| sum.checked_add(size_of::<Shard>()));
    size.filter(|bytes| *bytes <= isize::MAX as usize).unwrap_or_default()
}

/// Creates a shard of the open step in `size` bytes at `memory`. Samples in it count when it is merged. Another thread
/// may add to it while this thread uses the run: only opening and merging touch both. Samples are clipped as in the
/// run. The step has the same bits for every order and number of shards.
///
/// Merge or close it before its run is closed. After the end of the step it can only be closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_shard_open(
    run: *mut Run,
    memory: *mut c_void,
    size: usize,
    shard: *mut *mut Shard,
) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::shard::open(run, memory.cast(), size, shard) })
}

/// Adds one sample to a shard, as `damper_add` does to the step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_shard_add(shard: *mut Shard, grad: *const f32, len: usize) -> Status {
    let segment = Segment { data: grad, len };
    // SAFETY: the contract of the header.
    unsafe { damper_shard_add_segments(shard, &raw const segment, 1) }
}

/// As `damper_shard_add`, for a gradient in segments as in `damper_add_segments`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_shard_add_segments(
    shard: *mut Shard,
    segments: *const Segment,
    count: usize,
) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { add(shard, segments, count) })
}

unsafe fn add(shard: *mut Shard, segments: *const Segment, count: usize) -> FfiResult {
    // SAFETY: the caller's contract.
    let shard = unsafe { ffi::shard::shard(shard) }?;
    // SAFETY: the caller's contract.
    let lent = unsafe { shard.input(segments, count) }?;
    let mut parts: [&[f32]; DAMPER_MAX_SEGMENTS] = [&[]; DAMPER_MAX_SEGMENTS];
    let parts = parts.get_mut(..lent.len()).ok_or(Status::Length)?;
    let mut total = 0usize;
    for (part, segment) in parts.iter_mut().zip(lent) {
        // SAFETY: the caller's contract.
        *part = unsafe { shard.input(segment.data, segment.len) }?;
        total = total.saturating_add(segment.len);
    }
    if total != shard.dim {
        return Err(Status::Length);
    }
    Ok(shard.sum.as_mut().ok_or(Status::Order)?.add_combined(parts)?)
}

/// Adds the sum of a shard to the open step of its run, ends the shard and wipes its memory. `DAMPER_STATUS_ORDER` if
/// it belongs to another step or run. It is unchanged then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_shard_merge(run: *mut Run, shard: *mut Shard) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::shard::merge(run, shard) })
}

/// Ends a shard without adding it, and wipes its memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn damper_shard_close(shard: *mut Shard) -> Status {
    // SAFETY: the contract of the header.
    status(unsafe { ffi::shard::close(shard) })
}
