//! A lock that workers acquire in chunk order, so that a shared sum has a fixed order.

use damper_data::Chunk;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The index of the next chunk, and the sum. `None` after a worker failed.
pub(super) struct OrderedLock<S> {
    next: Mutex<Option<(usize, S)>>,
    moved: Condvar,
}

impl<S> OrderedLock<S> {
    /// Creates the lock, with the first chunk next.
    pub(super) fn new(sum: S) -> Self {
        Self { next: Mutex::new(Some((0, sum))), moved: Condvar::new() }
    }

    /// Waits for the turn of chunk `index`, and calls `act`. Returns `None` if a worker failed.
    pub(super) fn take<R>(&self, index: usize, act: impl FnOnce(&mut S) -> R) -> Option<R> {
        let mut next = self.lock();
        while next.as_ref().is_some_and(|(number, _)| *number != index) {
            next = self.moved.wait(next).unwrap_or_else(PoisonError::into_inner);
        }
        let (number, sum) = next.as_mut()?;
        *number += 1;
        let done = act(sum);
        self.moved.notify_all();
        Some(done)
    }

    /// Returns the sum, or `None` if a worker failed.
    pub(super) fn into_inner(self) -> Option<S> {
        self.next.into_inner().unwrap_or_else(PoisonError::into_inner).map(|(_, sum)| sum)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(usize, S)>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `work` on all `chunks`. Each worker has a thread and takes every n-th chunk, for n workers. A thread without a
/// chunk is not started. If a worker fails, the waits of all others end.
pub(super) fn share_chunks<W: Send, S: Send, E: Send>(
    workers: &mut [W],
    chunks: &[Chunk<'_>],
    turn: &OrderedLock<S>,
    work: impl Fn(&mut W, Chunk<'_>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let threads = workers.len();
    let share = |index, worker: &mut W| {
        let leave = Leave(turn);
        chunks.iter().skip(index).step_by(threads).try_for_each(|chunk| work(worker, *chunk))?;
        std::mem::forget(leave);
        Ok(())
    };
    let share = &share;
    std::thread::scope(|scope| {
        let mut workers = workers.iter_mut().take(chunks.len()).enumerate();
        let own = workers.next();
        let others: Vec<_> = workers.map(|(index, worker)| scope.spawn(move || share(index, worker))).collect();
        let done = own.map_or(Ok(()), |(index, worker)| share(index, worker));
        others
            .into_iter()
            .fold(done, |done, other| done.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    })
}

/// Ends all waits when it is dropped (not when forgotten). A worker that failed or panicked must not leave the others
/// waiting.
pub(super) struct Leave<'a, S>(pub(super) &'a OrderedLock<S>);

impl<S> Drop for Leave<'_, S> {
    fn drop(&mut self) {
        *self.0.lock() = None;
        self.0.moved.notify_all();
    }
}
