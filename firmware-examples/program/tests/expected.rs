//! The host runs the boards' programs, and must print the same lines, byte for byte.

use damper_core::update::Update;
use damper_firmware_program::methods::{METHODS, NAMES};
use damper_firmware_program::model::DeviceModel;
use damper_firmware_program::train::{self, method};
use damper_firmware_program::{correlated, federated, mlp, personalise, price, softmax};
use std::collections::BTreeMap;
use std::{fs, path::Path};

/// Returns true if the tests write the expected output of boards, after a change of bits: with `DAMPER_WRITE_EXPECTED`.
fn writes() -> bool {
    std::env::var_os("DAMPER_WRITE_EXPECTED").is_some()
}

/// Replaces `old` by `new` in a file of the firmware's folder.
fn replace(file: &str, old: &str, new: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    fs::write(&path, fs::read_to_string(&path).unwrap().replace(old, new)).unwrap();
}

/// Checks that the host's output equals `file` of `expected`.
fn expect(file: &str, said: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../expected").join(file);
    if writes() {
        fs::write(&path, said).unwrap();
    }
    assert_eq!(said, fs::read_to_string(path).unwrap(), "{file}");
}

#[test]
fn the_host_says_what_every_board_must_say() {
    let mut said = String::new();
    assert!(personalise::run(|line| said += &format!("{line}\n")), "{said}");
    expect("personalise.txt", &said);
    said.clear();
    assert!(correlated::run(|line| said += &format!("{line}\n")), "{said}");
    expect("correlated.txt", &said);
    said.clear();
    assert!(federated::run(1, |line| said += &format!("{line}\n")), "{said}");
    expect("federated.txt", &said);
}

/// Returns the output of `train` for a model by each method, under the name of its file in `expected`.
fn trained<const D: usize>(model: &DeviceModel<D>, file: &str) -> Vec<(String, String)> {
    let trained = |(name, run)| {
        let mut said = String::new();
        assert!(train::by(model, (name, run), &mut |line| said += &format!("{line}\n")), "{name}: {said}");
        (if name == "dp-sgd" { format!("{file}.txt") } else { format!("{file}-{name}.txt") }, said)
    };
    method::all().map(trained).collect()
}

// A build chooses one model and one method. The host runs all of them, and each has a file and no other exists.
#[test]
fn host_output_matches_boards() {
    let said: BTreeMap<_, _> =
        trained(&softmax::MODEL, "train").into_iter().chain(trained(&mlp::MODEL, "train-mlp")).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../expected");
    if writes() {
        let digest = |said: &str| u64::from_str_radix(said.split_ascii_whitespace().last().unwrap(), 16).unwrap();
        let old = digest(&fs::read_to_string(folder.join("train.txt")).unwrap());
        replace("program/src/dp_sgd.rs", &grouped(old), &grouped(digest(&said["train.txt"])));
    }
    said.iter().for_each(|(file, said)| expect(file, said));
    expect("train-streamed.txt", &said["train.txt"]);
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut expected: BTreeMap<_, _> = files
        .filter(|file| file.starts_with("train"))
        .map(|file| (file.clone(), fs::read_to_string(folder.join(file)).unwrap()))
        .collect();
    // A separate build, with the bits of the stored form.
    assert_eq!(expected.remove("train-streamed.txt").unwrap(), said["train.txt"]);
    assert_eq!(said, expected);
    // Each has a different result.
    let mut digests: Vec<_> = said.values().map(|said| said.lines().last().unwrap()).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), said.len());
}

// The default build trains a softmax regression by DP-SGD.
#[test]
fn default_build_is_softmax_dp_sgd() {
    let (mut said, mut chosen) = (String::new(), String::new());
    assert!(train::run(|line| said += &format!("{line}\n")));
    assert!(train::by(&softmax::MODEL, method::all().next().unwrap(), &mut |line| chosen += &format!("{line}\n")));
    assert_eq!(said, chosen);
}

// The lines carry the emitted bytes, and two devices' bytes differ.
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

/// Formats a digest as the program writes it.
fn grouped(digest: u64) -> String {
    let [a, b, c, d] = [48, 32, 16, 0].map(|shift| digest >> shift & 0xffff);
    format!("0x{a:04x}_{b:04x}_{c:04x}_{d:04x}")
}

// On the host, every method ends with the digest that the boards expect.
#[test]
fn host_digests_match_boards() {
    for (method, name) in METHODS.iter().zip(NAMES) {
        let digest = method.run().unwrap_or_else(|| panic!("{name} is refused"));
        if writes() {
            replace("program/src/methods.rs", &grouped(method.digest), &grouped(digest));
            replace("c/methods.h", &format!("{:#018x}u", method.digest), &format!("{digest:#018x}u"));
        } else {
            assert_eq!(digest, method.digest, "{name}: {digest:#018x}");
        }
    }
}

// The epsilon that boards compute is an upper bound, within 1e-6.
#[test]
fn board_epsilon_is_tight_upper_bound() {
    assert!(price::run());
}

// A filter without delays is the identity, and every method has an effect.
#[test]
fn methods_have_distinct_digests() {
    let digest = |name| METHODS.iter().zip(NAMES).find(|(_, named)| *named == name).unwrap().0.digest;
    assert_eq!(digest("filter of order 0"), digest("dp-sgd"));
    let mut digests: Vec<u64> = METHODS.iter().map(|method| method.digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), METHODS.len() - 1);
}

// Programs that keep a ledger or train on the board's data begin with the self-test, their own or that of the board's
// `run`.
#[test]
fn training_boards_check_their_arithmetic() {
    for board in ["cortex-m", "riscv"] {
        let read = |file: &str| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(board).join("src");
            fs::read_to_string(folder.join(file)).unwrap()
        };
        assert!(read("lib.rs").contains("-> ! {\n    if damper_core::self_test().is_err() {\n        exit(false);"));
        for program in ["train", "federated", "personalise"] {
            assert!(read(&format!("bin/{program}.rs")).contains("-> ! {\n    run("), "{board}: {program}");
        }
        assert!(read("bin/journal.rs").contains("-> ! {\n    exit(damper_core::self_test().is_ok() && "), "{board}");
    }
}
