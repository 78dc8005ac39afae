//! A key leaves no trace in memory.

use damper_core::noise::Key;
use std::mem::ManuallyDrop;

/// A plain store before the end of a value's life is dead, and left out by the compiler: so what lies there is read.
#[test]
fn dropped_keys_are_erased() {
    const { assert!(size_of::<Key>() == 32) };
    let words = |key: &ManuallyDrop<Key>| {
        let place = std::ptr::from_ref(key).cast::<u32>();
        // SAFETY: a key is eight words, all written; what its destructor leaves of them is words still, and `ManuallyDrop` keeps the place.
        [0, 1, 2, 3, 4, 5, 6, 7].map(|at| unsafe { place.add(at).read_volatile() })
    };
    let mut bytes = [0x5a; 32];
    let mut key = ManuallyDrop::new(Key::from_bytes(&mut bytes));
    assert_eq!((words(&key), bytes), ([0x5a5a_5a5a; 8], [0; 32]));
    // SAFETY: dropped once, and not used as a key after.
    unsafe { ManuallyDrop::drop(&mut key) };
    assert_eq!(words(&key), [0; 8]);
}
