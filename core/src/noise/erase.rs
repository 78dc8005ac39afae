//! Erasure of secrets with writes that the compiler keeps.

use zeroize::optimization_barrier;

/// Overwrites a key or a key stream with zeros. The compiler would remove a plain store to memory that is dropped next.
// Not inlined on small targets, to save flash.
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(super) fn erase<T: Copy + Default>(secret: &mut [T]) {
    secret.fill(T::default());
    optimization_barrier(secret);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_a_secret_is_zero() {
        let mut secret = [7u32; 9];
        erase(&mut secret[1..8]);
        assert_eq!(secret, [7, 0, 0, 0, 0, 0, 0, 0, 7]);
    }
}
