//! A key leaves no trace in memory.

use damper_core::noise::Key;
use std::mem::ManuallyDrop;

/// A plain store before the end of a value's life is dead, so the compiler removes it. So the test reads the memory
/// afterwards.
#[test]
fn dropped_keys_are_erased() {
    const { assert!(size_of::<Key>() == 32) };
    let words = |key: &ManuallyDrop<Key>| {
        let place = std::ptr::from_ref(key).cast::<u32>();
        // SAFETY: a key is eight words, all written. Its destructor leaves words, and `ManuallyDrop` keeps the memory.
        [0, 1, 2, 3, 4, 5, 6, 7].map(|at| unsafe { place.add(at).read_volatile() })
    };
    let mut bytes = [0x5a; 32];
    let mut key = ManuallyDrop::new(Key::from_bytes(&mut bytes));
    assert_eq!((words(&key), bytes), ([0x5a5a_5a5a; 8], [0; 32]));
    // SAFETY: dropped once, and not used as a key afterwards.
    unsafe { ManuallyDrop::drop(&mut key) };
    assert_eq!(words(&key), [0; 8]);
}
