//! The host runs what the boards run, and must say the same, byte for byte.

use damper_firmware_program::methods::METHODS;
use damper_firmware_program::train;

#[test]
fn the_host_says_what_every_board_must_say() {
    let mut said = String::new();
    assert!(train::run(|line| said += &format!("{line}\n")), "{said}");
    assert_eq!(said, include_str!("../../expected/train.txt"));
}

#[test]
fn every_method_ends_on_the_host_with_the_digest_that_every_board_must_have() {
    for (name, run, digest) in METHODS {
        assert_eq!(run(), Some(digest), "{name}: {:#018x}", run().unwrap_or_default());
    }
}

/// A filter without delays is none, and every method does something.
#[test]
fn methods_differ_from_dp_sgd_and_from_each_other() {
    let digest = |name| METHODS.iter().find(|method| method.0 == name).unwrap().2;
    assert_eq!(digest("filter of order 0"), digest("dp-sgd"));
    let mut digests: Vec<u64> = METHODS.iter().map(|method| method.2).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), METHODS.len() - 1);
}
