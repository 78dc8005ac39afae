//! The host runs what the boards run, and must say the same, byte for byte.

use damper_core::update::Update;
use damper_firmware_program::methods::METHODS;
use damper_firmware_program::{federated, personalise, price, train};

#[test]
fn the_host_says_what_every_board_must_say() {
    let mut said = String::new();
    assert!(train::run(|line| said += &format!("{line}\n")), "{said}");
    assert_eq!(said, include_str!("../../expected/train.txt"));
    said.clear();
    assert!(personalise::run(|line| said += &format!("{line}\n")), "{said}");
    assert_eq!(said, include_str!("../../expected/personalise.txt"));
    said.clear();
    assert!(federated::run(1, |line| said += &format!("{line}\n")), "{said}");
    assert_eq!(said, include_str!("../../expected/federated.txt"));
}

/// What the lines carry is what was emitted, and one device's is not another's.
#[test]
fn the_lines_of_a_device_carry_its_update() {
    let mut updates = Vec::new();
    for device in 1..=federated::DEVICES {
        let (mut bytes, mut hex) = (Vec::new(), String::new());
        assert!(federated::emit(device, |part| bytes.extend_from_slice(part)).is_ok());
        federated::run(device, |line| {
            if let Some(digits) = line.to_string().strip_prefix("update ") {
                hex += digits;
            }
        });
        let said: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, said);
        let update = Update::parse(&bytes).unwrap();
        assert_eq!((update.header().device, update.header().multiplier()), (u64::from(device), 2.0));
        updates.push(update.units().collect::<Vec<_>>());
    }
    assert!(updates[0] != updates[1] && updates[1] != updates[2]);
}

#[test]
fn every_method_ends_on_the_host_with_the_digest_that_every_board_must_have() {
    for method in &METHODS {
        let digest = method.run();
        assert_eq!(digest, Some(method.digest), "{}: {:#018x}", method.name, digest.unwrap_or_default());
    }
}

#[test]
fn the_price_that_the_boards_work_out_is_an_upper_bound_within_a_millionth() {
    assert!(price::run());
}

/// A filter without delays is none, and every method does something.
#[test]
fn methods_differ_from_dp_sgd_and_from_each_other() {
    let digest = |name| METHODS.iter().find(|method| method.name == name).unwrap().digest;
    assert_eq!(digest("filter of order 0"), digest("dp-sgd"));
    let mut digests: Vec<u64> = METHODS.iter().map(|method| method.digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), METHODS.len() - 1);
}
