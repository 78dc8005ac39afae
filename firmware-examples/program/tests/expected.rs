//! The host runs what the boards run, and must say the same, byte for byte.

use damper_firmware_program::train;

#[test]
fn the_host_says_what_every_board_must_say() {
    let mut said = String::new();
    assert!(train::run(|line| said += &format!("{line}\n")), "{said}");
    assert_eq!(said, include_str!("../../expected/train.txt"));
}
