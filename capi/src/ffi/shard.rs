//! Shards: turns pointers to a shard, and to a run next to a shard, into references.

use super::{Stepping, apart, input_alone, span, stepping, wipe};
use crate::memory::{Run, Shard, ShardSum};
use crate::status::{FfiResult, Status};
use core::mem::size_of;
use core::ptr;
use damper_core::private::SumWord;

/// Returns the mark of a shard at this address.
fn mark(shard: *const Shard) -> usize {
    shard.addr().wrapping_mul(5) ^ 0x4450_5348
}

/// Creates a shard of the open step in `bytes` of memory. The memory may be uninitialised, because it is not read.
pub(crate) unsafe fn open(run: *mut Run, memory: *mut u8, bytes: usize, out: *mut *mut Shard) -> FfiResult {
    let shard = memory.cast::<Shard>();
    span(shard, 1)?;
    let (lent, result) = (span(memory, bytes)?, span(out, 1)?);
    // SAFETY: the caller's contract.
    let Stepping { head, live, .. } = unsafe { stepping(run) }?;
    apart(lent, result)?;
    apart(lent, head.span())?;
    apart(result, head.span())?;
    let sum_bytes = head.dim.checked_mul(size_of::<i32>()).ok_or(Status::TooSmall)?;
    size_of::<Shard>().checked_add(sum_bytes).filter(|needed| *needed <= bytes).ok_or(Status::TooSmall)?;
    let step = live.open.as_ref().ok_or(Status::Order)?;
    // SAFETY: the caller gives the memory: not null, aligned, separate from the run and of that many bytes. The sum is
    // after the shard, set to zero. It is aligned, because the shard's size is a multiple of its alignment. Nothing
    // else refers to it until the shard is closed.
    unsafe {
        wipe(memory, bytes);
        let sum = core::slice::from_raw_parts_mut(memory.add(size_of::<Shard>()).cast::<SumWord<i32>>(), head.dim);
        let (mark, run) = (mark(shard), run.addr());
        shard.write(Shard { mark, run, bytes, dim: head.dim, sum: Some(step.shard(sum)?) });
        out.write(shard);
    }
    Ok(())
}

/// Borrows the shard at this address.
pub(crate) unsafe fn shard<'a>(shard: *mut Shard) -> FfiResult<&'a mut Shard> {
    span(shard, 1)?;
    // SAFETY: not null and aligned. By the caller's contract `open` wrote a shard here, and only `merge` and `close`
    // have written since. So the mark is initialised.
    let found = unsafe { (&raw const (*shard).mark).read() };
    if found != mark(shard) {
        return Err(Status::NotAShard);
    }
    // SAFETY: the mark shows that `open` wrote a shard here and `close` did not wipe it. Only one thread uses it.
    Ok(unsafe { &mut *shard })
}

impl Shard {
    /// Borrows elements of the caller for reading. They must not overlap the shard's memory. `data` may be null if
    /// `len` is 0.
    pub(crate) unsafe fn input<'a, T>(&self, data: *const T, len: usize) -> FfiResult<&'a [T]> {
        if len > 0 {
            let start = ptr::from_ref(self).addr();
            apart(span(data, len)?, (start, start.saturating_add(self.bytes)))?;
        }
        // SAFETY: as `input` of the parent module.
        unsafe { input_alone(data, len) }
    }
}

/// Merges a shard into the open step of its run.
pub(crate) unsafe fn merge(run: *mut Run, pointer: *mut Shard) -> FfiResult {
    // SAFETY: the caller's contract.
    let step = unsafe { stepping(run) }?;
    // SAFETY: the caller's contract.
    let found = unsafe { shard(pointer) }?;
    if found.run != run.addr() || found.dim != step.head.dim {
        return Err(Status::Order);
    }
    let open = step.live.open.as_mut().ok_or(Status::Order)?;
    open.takes(found.sum.as_ref().ok_or(Status::Order)?)?;
    let sum: ShardSum = found.sum.take().ok_or(Status::Order)?;
    open.merge(sum)?;
    // SAFETY: the caller's contract. The borrow of the sum has ended.
    unsafe { close(pointer) }
}

/// Ends a shard and wipes its memory.
pub(crate) unsafe fn close(pointer: *mut Shard) -> FfiResult {
    // SAFETY: the caller's contract.
    let found = unsafe { shard(pointer) }?;
    found.sum = None;
    let bytes = found.bytes;
    // SAFETY: the memory that was given to `open`, after its last borrow.
    unsafe { wipe(pointer.cast(), bytes) };
    Ok(())
}
