//! Erasing secrets so that the compiler keeps the writes.

use zeroize::optimization_barrier;

/// Writes zeros over a key or a key stream. A plain store to memory that is dropped next is dead, and is optimised away.
// Once where flash is short.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn erase<T: Copy + Default>(secret: &mut [T]) {
    secret.fill(T::default());
    optimization_barrier(secret);
}
