//! Read-ahead of chunks for one session: while a chunk runs, the next is read.

use damper_data::{Batch, Chunk};
use damper_runtime::{BackendError, ChunkPlace};

/// Fills a batch with each of `chunks` by `read`, and passes it to `work`, in order.
pub(super) fn read_ahead(
    [batch, next]: &mut [Batch; 2],
    chunks: &[Chunk<'_>],
    read: &(dyn Fn(&mut Batch, Chunk<'_>) -> Result<(), BackendError> + Sync),
    work: &mut dyn FnMut(&Batch, ChunkPlace) -> Result<(), BackendError>,
) -> Result<(), BackendError> {
    if let Some(first) = chunks.first() {
        read(batch, *first)?;
    }
    for index in 0..chunks.len() {
        let place = ChunkPlace { is_first: index == 0, is_last: index + 1 == chunks.len() };
        std::thread::scope(|scope| {
            let ahead = chunks.get(index + 1).map(|chunk| scope.spawn(|| read(next, *chunk)));
            work(batch, place)?;
            ahead.map_or(Ok(()), |ahead| ahead.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        std::mem::swap(batch, next);
    }
    Ok(())
}
