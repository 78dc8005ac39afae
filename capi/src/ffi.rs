//! FFI boundary: turns pointers into references. Every pointer is checked here first, as far as a pointer can be
//! checked.
//!
//! The contract at the top of the header covers the rest.
//!
//! # Reads
//!
//! The caller's memory for a run, a shard or a result may be uninitialised. The library writes it before it reads it.
//! The check of a handle reads the mark, which this library wrote at `init` and wiped at `close`. By the contract, a
//! handle is not used before `init`, or after the memory of a closed run was used for something else.
//!
//! # References
//!
//! A run is one struct. Its fields are borrowed separately, each from the caller's pointer, never as a whole. The
//! memory after the struct (sum, vectors, layers) is lent out once. `'static` stands for "until the run is closed or
//! configured again", and both end every reference first. While a store's callback runs, no reference to the head
//! exists. A nested call reads only the head, and fails. A generator's callback runs before the run is borrowed, so
//! calls in it are ordinary calls.

pub(crate) mod journal;
pub(crate) mod shard;

use crate::memory::{Body, BudgetState, Head, Live, OpenStep, Phase, Room, Run, SlotStorage, Stage, State, Step};
use crate::slots::held::Vector;
use crate::slots::layer::EachLayer;
use crate::status::{FfiResult, Status};
use crate::store::Undurable;
use core::mem::{align_of, size_of};
use core::ptr;
use damper_core::accounting::RenyiFilter;
use damper_core::clip::Layer;
use damper_core::error::{CallError, OpenError};
use damper_core::noise::ChaCha20;
use damper_core::private::SumWord;

/// Returns the mark of a run at this address. A copy at another address has another mark, and so does a shard.
fn mark(run: *const Run) -> usize {
    run.addr().wrapping_mul(3) ^ 0x4450_5352
}

/// Returns the start and end address of `len` elements at `data`.
fn span<T>(data: *const T, len: usize) -> FfiResult<(usize, usize)> {
    if data.is_null() {
        return Err(Status::Null);
    }
    if !data.is_aligned() {
        return Err(Status::Misaligned);
    }
    let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize).ok_or(Status::Length)?;
    let end = data.addr().checked_add(bytes).ok_or(Status::Length)?;
    Ok((data.addr(), end))
}

/// Fails if two spans share a byte.
fn apart(a: (usize, usize), b: (usize, usize)) -> FfiResult {
    if a.0 < b.1 && b.0 < a.1 { Err(Status::Overlap) } else { Ok(()) }
}

impl Head {
    /// Address and length of the run's memory.
    fn span(&self) -> (usize, usize) {
        let start = ptr::from_ref(self).addr();
        (start, start.saturating_add(self.bytes))
    }
}

/// Borrows `len` elements of the caller for reading. `data` may be null if `len` is 0.
pub(crate) unsafe fn input<'a, T>(head: &Head, data: *const T, len: usize) -> FfiResult<&'a [T]> {
    if len > 0 {
        apart(span(data, len)?, head.span())?;
    }
    // SAFETY: the caller's contract. The elements do not overlap the run.
    unsafe { input_alone(data, len) }
}

/// As [`input`], without a run.
pub(crate) unsafe fn input_alone<'a, T>(data: *const T, len: usize) -> FfiResult<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    span(data, len)?;
    // SAFETY: not null, aligned, within an allocation by the caller's contract, and separate from what this crate
    // writes.
    Ok(unsafe { core::slice::from_raw_parts(data, len) })
}

/// Borrows initialised elements of the caller for writing, without a run.
pub(crate) unsafe fn output_alone<'a, T>(data: *mut T, len: usize) -> FfiResult<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    span(data, len)?;
    // SAFETY: as `input_alone`, and separate from all other arguments of the call.
    Ok(unsafe { core::slice::from_raw_parts_mut(data, len) })
}

/// Fails unless `len` is `expected` and the elements may be written.
pub(crate) fn writable_all<T>(head: &Head, data: *mut T, len: usize, expected: usize) -> FfiResult {
    if len != expected {
        return Err(Status::Length);
    }
    apart(span(data, len)?, head.span())
}

/// Borrows `len` initialised elements of the caller for reading and writing. `len` must be `expected`.
pub(crate) unsafe fn update<'a, T>(head: &Head, data: *mut T, len: usize, expected: usize) -> FfiResult<&'a mut [T]> {
    writable_all(head, data, len, expected)?;
    // SAFETY: not null, aligned, initialised and within an allocation by the caller's contract, and separate from the
    // run.
    Ok(unsafe { core::slice::from_raw_parts_mut(data, len) })
}

/// A vector to read and a vector to write, of `expected` elements each. They do not overlap.
pub(crate) struct Pair {
    from: *const f32,
    to: *mut f32,
    len: usize,
}

/// Checks a pair without access to its elements.
pub(crate) fn pair(head: &Head, from: (*const f32, usize), to: (*mut f32, usize), expected: usize) -> FfiResult<Pair> {
    if from.1 != expected || to.1 != expected {
        return Err(Status::Length);
    }
    apart(span(from.0, expected)?, span(to.0, expected)?)?;
    apart(span(from.0, expected)?, head.span())?;
    apart(span(to.0, expected)?, head.span())?;
    Ok(Pair { from: from.0, to: to.0, len: expected })
}

impl Pair {
    /// Borrows the vectors. The vector to write may be uninitialised, and is set to zero first.
    pub(crate) unsafe fn lend<'a>(self) -> (&'a [f32], &'a mut [f32]) {
        let Self { from, to, len } = self;
        // SAFETY: `pair` checked the pointers, as far as pointers can be checked. The caller's contract covers the
        // rest. The vectors do not overlap.
        unsafe {
            to.write_bytes(0, len);
            (core::slice::from_raw_parts(from, len), core::slice::from_raw_parts_mut(to, len))
        }
    }
}

/// Copies a struct of the caller.
pub(crate) unsafe fn read<T: Copy>(head: &Head, data: *const T) -> FfiResult<T> {
    apart(span(data, 1)?, head.span())?;
    // SAFETY: the caller's contract.
    unsafe { read_alone(data) }
}

/// As [`read`], without a run.
pub(crate) unsafe fn read_alone<T: Copy>(data: *const T) -> FfiResult<T> {
    span(data, 1)?;
    // SAFETY: not null, aligned, and a struct of numbers and pointers by the caller's contract.
    Ok(unsafe { data.read() })
}

/// As [`read`], for a struct that starts with its size in the caller's program, a `usize`.
pub(crate) unsafe fn read_sized<T: Copy>(head: &Head, data: *const T) -> FfiResult<T> {
    apart(span(data, 1)?, head.span())?;
    // SAFETY: the caller's contract.
    unsafe { read_sized_alone(data) }
}

/// As [`read_sized`], without a run.
pub(crate) unsafe fn read_sized_alone<T: Copy>(data: *const T) -> FfiResult<T> {
    span(data, 1)?;
    // SAFETY: not null, aligned for a struct that begins with a size, and initialised by the caller's contract.
    if unsafe { data.cast::<usize>().read() } != size_of::<T>() {
        return Err(Status::Size);
    }
    // SAFETY: the size matches. The rest as in `read`.
    Ok(unsafe { data.read() })
}

/// As [`read`]. Returns `None` for a null pointer.
pub(crate) unsafe fn read_optional<T: Copy>(head: &Head, data: *const T) -> FfiResult<Option<T>> {
    if data.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's contract.
    unsafe { read(head, data) }.map(Some)
}

/// Borrows a struct of the caller in place, so that a secret is not copied.
pub(crate) unsafe fn lend<'a, T>(head: &Head, data: *const T) -> FfiResult<&'a T> {
    apart(span(data, 1)?, head.span())?;
    // SAFETY: not null, aligned, and plain numbers by the caller's contract.
    Ok(unsafe { &*data })
}

/// As [`writable`], for a result that must not overlap two vectors of `len` elements.
pub(crate) fn writable_beside<T>(head: &Head, out: *mut T, others: [*const f32; 2], len: usize) -> FfiResult {
    writable(head, out)?;
    for other in others {
        apart(span(out, 1)?, span(other, len)?)?;
    }
    Ok(())
}

/// Checks that a result may be written, before any work that would be lost.
pub(crate) fn writable<T>(head: &Head, out: *mut T) -> FfiResult {
    apart(span(out, 1)?, head.span())
}

/// Writes a result.
pub(crate) unsafe fn write<T>(head: &Head, out: *mut T, value: T) -> FfiResult {
    writable(head, out)?;
    // SAFETY: not null, aligned, separate from the run, and the caller's to write.
    unsafe { out.write(value) };
    Ok(())
}

/// As [`write`], without a run.
pub(crate) unsafe fn write_alone<T>(out: *mut T, value: T) -> FfiResult {
    span(out, 1)?;
    // SAFETY: not null, aligned, and the caller's to write.
    unsafe { out.write(value) };
    Ok(())
}

/// Fails unless there is a run at this address that is not in a call. Creates no reference: the call that invoked the
/// callback may have one.
unsafe fn check(run: *const Run) -> FfiResult {
    span(run, 1)?;
    // SAFETY: not null and aligned. By the caller's contract `init` wrote a run here, and only `close` has written
    // since. So the mark is initialised.
    let found = unsafe { (&raw const (*run).head.mark).read() };
    if found != mark(run) {
        return Err(Status::NotARun);
    }
    // SAFETY: the mark shows that `close` did not wipe the run.
    if unsafe { (&raw const (*run).head.busy).read() } { Err(Status::Busy) } else { Ok(()) }
}

/// Borrows the head of the run at this address for reading.
pub(crate) unsafe fn head<'a>(run: *const Run) -> FfiResult<&'a Head> {
    // SAFETY: the caller's contract. The run is in no other call, so nothing else refers to its head.
    unsafe { check(run).map(|()| &(*run).head) }
}

/// Borrows the head of the run at this address.
unsafe fn head_mut<'a>(run: *mut Run) -> FfiResult<&'a mut Head> {
    // SAFETY: as `head`.
    unsafe { check(run).map(|()| &mut (*run).head) }
}

/// A run without an open step.
pub(crate) struct IdleMut<'a> {
    run: *mut Run,
    pub(crate) head: &'a mut Head,
    pub(crate) budget: &'a mut BudgetState,
    pub(crate) body: &'a mut Body,
    pub(crate) live: &'a mut Live,
}

/// Borrows the run at this address, in the given phase. The phase must be without an open step.
pub(crate) unsafe fn idle<'a>(run: *mut Run, phase: Phase) -> FfiResult<IdleMut<'a>> {
    // SAFETY: the caller's contract.
    let head = unsafe { head_mut(run) }?;
    if head.phase != phase || phase == Phase::Stepping {
        return Err(Status::Order);
    }
    // SAFETY: there is a run, and no open step borrows its body. The fields are disjoint.
    unsafe {
        let (budget, body, live) = (&mut (*run).budget, &mut (*run).body, &mut (*run).live);
        Ok(IdleMut { run, head, budget, body, live })
    }
}

/// A run without an open step, for reading.
pub(crate) struct IdleRef<'a> {
    pub(crate) head: &'a Head,
    pub(crate) budget: &'a BudgetState,
    pub(crate) body: &'a Body,
}

/// Borrows the run at this address for reading, in any phase without an open step.
pub(crate) unsafe fn settled<'a>(run: *const Run) -> FfiResult<IdleRef<'a>> {
    // SAFETY: the caller's contract.
    let head = unsafe { head(run) }?;
    if head.phase == Phase::Stepping {
        return Err(Status::Order);
    }
    // SAFETY: there is a run, and no open step borrows its body. The fields are disjoint.
    unsafe { Ok(IdleRef { head, budget: &(*run).budget, body: &(*run).body }) }
}

/// Borrows the head and the budget state of the run at this address, in any phase.
pub(crate) unsafe fn budget<'a>(run: *const Run) -> FfiResult<(&'a Head, &'a BudgetState)> {
    // SAFETY: the caller's contract.
    let head = unsafe { head(run) }?;
    // SAFETY: there is a run, and an open step does not borrow the ledger.
    Ok((head, unsafe { &(*run).budget }))
}

impl IdleMut<'_> {
    /// Takes the next `bytes` unused bytes of the run's memory.
    fn take(&mut self, bytes: usize, align: usize) -> FfiResult<*mut u8> {
        let start = self.head.used.checked_next_multiple_of(align).ok_or(Status::TooSmall)?;
        let end = start.checked_add(bytes).filter(|end| *end <= self.head.bytes).ok_or(Status::TooSmall)?;
        self.head.used = end;
        // SAFETY: within the caller's memory, which starts with the run.
        Ok(unsafe { self.run.cast::<u8>().add(start) })
    }

    /// Borrows the memory of the sum. An earlier state's reference to it, if any, is not used again.
    pub(crate) fn sum(&mut self) -> Vector<SumWord<i32>> {
        // SAFETY: `init` reserved zeroed memory for the sum after the run. It is aligned, because the run's size is a
        // multiple of its alignment. Nothing else refers to it.
        unsafe { core::slice::from_raw_parts_mut(self.run.add(1).cast(), self.head.dim) }
    }

    /// Takes `count` vectors of parameters, in one segment, set to zero.
    pub(crate) fn vectors(&mut self, count: usize) -> FfiResult<Vector<f32>> {
        let len = self.head.dim.checked_mul(count).ok_or(Status::TooSmall)?;
        let bytes = len.checked_mul(size_of::<f32>()).ok_or(Status::TooSmall)?;
        let data = self.take(bytes, align_of::<f32>())?;
        // SAFETY: within the run's memory, aligned, and not taken before. A rejected configuration may have left
        // padding here, so the memory is written before it is borrowed.
        unsafe {
            let data = data.cast::<f32>();
            data.write_bytes(0, len);
            Ok(core::slice::from_raw_parts_mut(data, len))
        }
    }

    /// Stores an object in its place until the run is closed or the place is filled again. The object is not dropped.
    pub(crate) fn hold<T, const BYTES: usize>(
        &mut self,
        room: fn(*mut SlotStorage) -> *mut Room<BYTES>,
        object: T,
    ) -> &'static mut T {
        const { assert!(size_of::<T>() <= BYTES && align_of::<T>() <= align_of::<Room<BYTES>>()) };
        // SAFETY: there is a run, and only this function borrows its places, one slot at a time. The new object
        // replaces the old object in the state before any use. The place is large enough and aligned, as asserted.
        unsafe {
            let place = room(&raw mut (*self.run).place).cast::<T>();
            place.write(object);
            &mut *place
        }
    }

    /// Stores a Rényi filter in the run's memory.
    pub(crate) fn renyi_filter(&mut self, filter: RenyiFilter) -> FfiResult<&'static mut RenyiFilter> {
        let data = self.take(size_of::<RenyiFilter>(), align_of::<RenyiFilter>())?.cast::<RenyiFilter>();
        // SAFETY: within the run's memory and not taken before. Aligned, because that memory starts at a multiple of 8.
        unsafe {
            data.write(filter);
            Ok(&mut *data)
        }
    }

    /// Copies layers into the run's memory.
    pub(crate) fn layers(&mut self, layers: &[EachLayer]) -> FfiResult<&'static [Layer]> {
        let bytes = layers.len().checked_mul(size_of::<Layer>()).ok_or(Status::TooSmall)?;
        let data = self.take(bytes, align_of::<Layer>())?.cast::<Layer>();
        for (index, layer) in layers.iter().enumerate() {
            // SAFETY: within the memory just taken.
            unsafe { data.add(index).write(Layer { len: layer.len, share: layer.share }) };
        }
        // SAFETY: all elements were written. They are not written again before the run is closed or configured again.
        Ok(unsafe { core::slice::from_raw_parts(data, layers.len()) })
    }
}

/// A run with an open step, which borrows the body.
pub(crate) struct Stepping<'a> {
    pub(crate) head: &'a mut Head,
    pub(crate) live: &'a mut Live,
    pub(crate) generator: &'static ChaCha20,
}

/// Borrows the run at this address, with an open step.
pub(crate) unsafe fn stepping<'a>(run: *mut Run) -> FfiResult<Stepping<'a>> {
    // SAFETY: the caller's contract.
    let head = unsafe { head_mut(run) }?;
    if head.phase != Phase::Stepping {
        return Err(Status::Order);
    }
    // SAFETY: there is a run. The generator is separate from what the open step borrows mutably, and only a run without
    // an open step changes it.
    unsafe {
        let live = &mut (*run).live;
        let generator: &Option<ChaCha20> = &(*run).body.generator;
        let generator = generator.as_ref().ok_or(Status::NoKey)?;
        Ok(Stepping { head, live, generator })
    }
}

/// Borrows the head and the open step of the run at this address, for reading.
pub(crate) unsafe fn open_step<'a>(run: *const Run) -> FfiResult<(&'a Head, &'a OpenStep<'static>)> {
    // SAFETY: the caller's contract.
    let head = unsafe { head(run) }?;
    if head.phase != Phase::Stepping {
        return Err(Status::Order);
    }
    // SAFETY: there is a run, and the fields are disjoint.
    let open = unsafe { &(*run).live.open };
    Ok((head, open.as_ref().ok_or(Status::Order)?))
}

/// Calls `take` with the open step of the run at this address. `take` may call the caller's code. The run is busy
/// meanwhile.
pub(crate) unsafe fn with_open(run: *mut Run, take: impl FnOnce(&mut OpenStep<'static>) -> FfiResult) -> FfiResult {
    // SAFETY: the caller's contract.
    let Stepping { head, live, .. } = unsafe { stepping(run) }?;
    let open = live.open.as_mut().ok_or(Status::Order)?;
    head.busy = true;
    // The callback may call with `run`. The head then refuses the call. No reference to the head is used meanwhile.
    let taken = take(open);
    // SAFETY: the callback has returned, and the head is separate from the step.
    unsafe { (*run).head.busy = false };
    taken
}

/// Error for a budget tracker that the run does not have.
pub(crate) const NOT_CHARGED: OpenError<Undurable> = OpenError::Call(CallError::Order("paid by something else"));

/// Opens a step by `pay`, which may call the caller's code, and stores it. The step borrows the body from here on.
pub(crate) unsafe fn open(
    run: *mut Run,
    number: *mut u32,
    pay: impl FnOnce(&'static Step, &'static mut State, &mut BudgetState) -> Result<OpenStep<'static>, OpenError<Undurable>>,
) -> FfiResult {
    // SAFETY: the caller's contract.
    let idle = unsafe { idle(run, Phase::Ready) }?;
    writable(idle.head, number)?;
    idle.head.busy = true;
    // SAFETY: there is a run without an open step, and no reference from above is used again. The callback may call
    // with `run`, and the head then refuses the call. The fields are disjoint. The lifetime is the run's, because the
    // step is dropped before its body is touched.
    let opened = unsafe {
        let (stage, state) = (&(*run).body.stage, &mut (*run).body.state);
        let budget = &mut (*run).budget;
        match (stage, state) {
            (Stage::Started(step), Some(state)) => pay(step, state, budget),
            _ => Err(NOT_CHARGED),
        }
    };
    // SAFETY: the callback has returned, and the head is separate from what the step borrows.
    let head = unsafe { &mut (*run).head };
    head.busy = false;
    let opened = opened?;
    // SAFETY: as above.
    let live = unsafe { &mut (*run).live };
    let step = opened.number();
    live.begin(opened);
    head.phase = Phase::Stepping;
    // SAFETY: checked above.
    unsafe { write(head, number, step) }
}

/// Creates a run in `bytes` of memory, with zeros after it. The memory may be uninitialised, because it is not read.
pub(crate) unsafe fn init(memory: *mut u8, bytes: usize, dim: usize, out: *mut *mut Run) -> FfiResult {
    let run = memory.cast::<Run>();
    span(run, 1)?;
    apart(span(memory, bytes)?, span(out, 1)?)?;
    if bytes < size_of::<Run>() {
        return Err(Status::TooSmall);
    }
    if dim == 0 {
        return Err(Status::Length);
    }
    let sum_bytes = dim.checked_mul(size_of::<i32>()).ok_or(Status::TooSmall)?;
    let used = size_of::<Run>().checked_add(sum_bytes).filter(|used| *used <= bytes).ok_or(Status::TooSmall)?;
    // SAFETY: the caller gives the memory: not null, aligned, and of that many bytes.
    unsafe {
        wipe(memory, bytes);
        run.write(Run::new(Head::new(mark(run), bytes, used, dim)));
        out.write(run);
    }
    Ok(())
}

/// Ends a run: drops an open step, and wipes all of its memory, the mark first.
pub(crate) unsafe fn close(run: *mut Run) -> FfiResult {
    // SAFETY: the caller's contract.
    let bytes = unsafe { head_mut(run) }?.bytes;
    // SAFETY: there is a run. Everything that borrows the body is dropped before the wipe. `bytes` is the size that the
    // caller gave.
    unsafe {
        let live = &mut (*run).live;
        live.end();
        wipe(run.cast(), bytes);
    }
    Ok(())
}

/// Writes zeros from the first byte on. The compiler cannot remove these writes as dead stores.
unsafe fn wipe(memory: *mut u8, bytes: usize) {
    for at in 0..bytes {
        // SAFETY: within the memory that the caller owns.
        unsafe { memory.add(at).write_volatile(0) };
    }
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}
