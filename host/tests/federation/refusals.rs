//! Errors of a federation, which cost nothing.

use super::*;

// An unwritable output is detected before the round is charged, on a device and on the server.
#[test]
fn unwritable_outputs_charge_nothing() {
    let federation = Federation::new(&[]);
    let model = Path::new(MODEL);
    for device in 1..=3 {
        let command = damper(&["federation", "update"]);
        let elsewhere = |mut command: Command| {
            command
                .arg(federation.at("federation.json"))
                .arg(model)
                .args(SAMPLES)
                .args(["--device", &device.to_string()]);
            command.args(["--round", "0", "--seed", "5", "--ledger"]).arg(federation.at(&format!("state-{device}")));
            command.arg("--out").arg(federation.at("absent/1.upd")).output().unwrap()
        };
        refused(&elsewhere(command), &["absent/1.upd", "make its folder first"]);
        assert_eq!(ok(&federation.update("federation.json", model, device, 0, &[]))["rounds_charged"], 1);
    }
    let files = ["1-0.upd", "2-0.upd", "3-0.upd"];
    let mut command = damper(&["aggregate", "--round", "0", "--federation"]);
    command.arg(federation.at("federation.json")).args(files.map(|file| federation.at(file))).arg("--ledger");
    command.arg(federation.at("server")).arg("--out").arg(federation.at("absent/0.sum"));
    refused(&command.output().unwrap(), &["absent/0.sum", "make its folder first"]);
    assert_eq!(ok(&federation.aggregate(&files, 0))["rounds_charged"], 1);
}

// Updates that do not fit the plan are named and left out, and the others are added, in any order.
#[test]
fn misfits_are_named_and_left_out() {
    let federation = Federation::new(&["--smallest-cohort", "2"]);
    federation.plan("other.json", &["--smallest-cohort", "2", "--clip", "2"]);
    let model = Path::new(MODEL);
    // Device 3 has another plan.
    ok(&federation.update("other.json", model, 3, 0, &[]));
    fs::rename(federation.at("3-0.upd"), federation.at("lie.upd")).unwrap();
    for device in [1, 2] {
        ok(&federation.update("federation.json", model, device, 0, &[]));
    }
    let one = fs::read(federation.at("1-0.upd")).unwrap();
    fs::write(federation.at("again.upd"), &one).unwrap();
    fs::write(federation.at("cut.upd"), &one[..one.len() - 3]).unwrap();
    fs::write(federation.at("text.upd"), "no update").unwrap();
    fs::write(federation.at("empty.upd"), "").unwrap();
    let mut flipped = one;
    flipped[100] ^= 4;
    fs::write(federation.at("flipped.upd"), flipped).unwrap();
    let bad = ["lie.upd", "cut.upd", "text.upd", "empty.upd", "flipped.upd", "absent.upd"];
    let files = [&bad[..], &["1-0.upd", "again.upd", "2-0.upd"]].concat();
    let sum = ok(&federation.aggregate(&files, 0));
    assert_eq!(sum["devices"], 2);
    let reasons: Vec<_> =
        sum["refused"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    let words = ["its run is", "truncated", "not an update", "not an update", "checksum", "No such file", "added once"];
    assert_eq!(reasons.len(), words.len(), "{reasons:?}");
    for ((reason, word), file) in reasons.iter().zip(words).zip(bad.iter().chain(&["again.upd"])) {
        assert!(reason.contains(word) && reason.contains(file), "{reason}");
    }
    let total = fs::read(federation.at("0.sum")).unwrap();
    let units =
        |name: &str| Update::parse(&fs::read(federation.at(name)).unwrap()).unwrap().units().collect::<Vec<_>>();
    let wanted: Vec<i64> = units("1-0.upd").iter().zip(units("2-0.upd")).map(|(a, b)| a + b).collect();
    assert!(Update::parse(&total).unwrap().units().eq(wanted));
}

// With fewer devices than the noise is for, or none, nothing is charged and no sum is written. The round completes when
// the others are there.
#[test]
fn small_cohort_releases_nothing() {
    let federation = Federation::new(&["--noise", "shares"]);
    for device in [1, 2, 3] {
        ok(&federation.update("federation.json", Path::new(MODEL), device, 0, &[]));
    }
    fs::write(federation.at("none.upd"), "").unwrap();
    refused(&federation.aggregate(&["none.upd"], 0), &["0 updates", "none.upd"]);
    refused(&federation.aggregate(&["1-0.upd", "2-0.upd"], 0), &["2 updates", "3 devices or more"]);
    assert!(!federation.at("0.sum").exists() && !federation.at("server/cohort.json").exists());
    let sum = ok(&federation.aggregate(&["1-0.upd", "2-0.upd", "3-0.upd"], 0));
    assert_eq!(sum["rounds_charged"], 1);
    // An update with a share of the noise is unreadable for other users of this machine.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name: &str| fs::metadata(federation.at(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("1-0.upd"), mode("state-1"), mode("state-1/ledger.json")), (0o600, 0o700, 0o600));
    }
}

// A sum of another plan, a device's update and a damaged sum change no parameter.
#[test]
fn only_sums_of_the_plan_are_applied() {
    let federation = Federation::new(&["--smallest-cohort", "1"]);
    let model = Path::new(MODEL);
    ok(&federation.update("federation.json", model, 1, 0, &[]));
    ok(&federation.aggregate(&["1-0.upd"], 0));
    let apply = |model: &Path, sum: &str| federation.apply(model, sum, "out.onnx", &[]);
    refused(&apply(model, "1-0.upd"), &["1-0.upd", "not a sum of this plan"]);
    let sum = fs::read(federation.at("0.sum")).unwrap();
    fs::write(federation.at("cut.sum"), &sum[..sum.len() / 2]).unwrap();
    refused(&apply(model, "cut.sum"), &["cut.sum", "truncated"]);
    federation.plan("federation.json", &["--smallest-cohort", "1", "--clip", "2"]);
    refused(&apply(model, "0.sum"), &["0.sum", "not a sum of this plan"]);
    let other = Path::new("onnx-models/digits-mlp.onnx");
    refused(&apply(other, "0.sum"), &["digits-mlp.onnx", "not the model of the plan"]);
    let bad = federation.at("nan.params").display().to_string();
    fs::write(&bad, f32::NAN.to_le_bytes().repeat(650)).unwrap();
    refused(&federation.apply(model, "0.sum", "out.onnx", &["--params", &bad]), &["nan.params", "650 finite"]);
    assert!(!federation.at("out.onnx").exists());
}

// The error names a wrong setting, and no round is charged.
#[test]
fn wrong_settings_charge_nothing() {
    let federation = Federation::new(&USERS);
    let model = Path::new(MODEL);
    let update = |device, more: &[&str]| federation.update("federation.json", model, device, 0, more);
    refused(&update(4, &[]), &["--device 4", "devices 1 to 3"]);
    refused(&update(0, &[]), &["--device 0"]);
    let short = federation.at("short");
    fs::write(&short, "a\nb\n").unwrap();
    refused(&update(1, &["--users", &short.display().to_string()]), &["--users", "2 lines", "24 training rows"]);
    refused(
        &federation.update("federation.json", Path::new("onnx-models/digits-mlp.onnx"), 1, 0, &[]),
        &["digits-mlp.onnx", "not the model of the plan"],
    );
    let damaged = fs::read_to_string(federation.at("federation.json")).unwrap().replace("\"rounds\":2", "\"rounds\":9");
    fs::write(federation.at("damaged.json"), damaged).unwrap();
    refused(&federation.update("damaged.json", model, 1, 0, &[]), &["damaged.json", "digest does not match"]);
    ok(&update(1, &[]));

    let mut private = damper(&["federation", "plan", MODEL, "--rounds", "2", "--devices", "3", "--batch-size", "4"]);
    succeeds(private.args(["--noise-multiplier", "1", "--delta", "1e-5", "--out"]).arg(federation.at("private.json")));
    refused(&federation.update("private.json", model, 2, 0, &[]), &["--seed 5", "plan is private"]);
    let simulated = federation.simulate("one.onnx", &["--users", &short.display().to_string()]);
    refused(&simulated, &["2 lines"]);
}

// A server controls only the values of the trained parameters. Any other request is rejected with the same words for
// any data, before a charge and without a folder.
#[test]
fn crafted_requests_are_refused_in_the_same_words() {
    let federation = Federation::new(&[]);
    let words = |values: &[f32]| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let good = vec![0.25f32; 650];
    let with = |at: usize, value: f32| {
        let mut values = good.clone();
        values[at] = value;
        words(&values)
    };
    let crafted = [
        vec![],
        words(&good[..649]),
        words(&[&good[..], &[1.0]].concat()),
        words(&good)[..2599].to_vec(),
        [words(&good), vec![0]].concat(),
        with(0, f32::NAN),
        with(649, f32::INFINITY),
        with(300, f32::NEG_INFINITY),
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MODEL)).unwrap(),
    ];
    // The same rows with other labels, and other rows.
    let (one, two) = (["--train-size", "24"], ["--train-size", "9"]);
    let mut said = std::collections::BTreeSet::new();
    for (at, bytes) in crafted.iter().enumerate() {
        let file = federation.at(&format!("{at}.params"));
        fs::write(&file, bytes).unwrap();
        for rows in [one, two] {
            for round in [0, 1] {
                let more = [&rows[..], &["--params", file.to_str().unwrap()]].concat();
                let output = request(&federation, round, &more);
                said.insert(String::from_utf8(output.stderr).unwrap());
                assert!(!output.status.success());
            }
        }
    }
    // A later round without parameters is not a valid request either.
    said.insert(String::from_utf8(request(&federation, 1, &one).stderr).unwrap());
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said.first().unwrap().contains("--params"), "{said:?}");
    let state = fs::read_to_string(federation.at("state-1/ledger.json")).unwrap_or_default();
    assert!(!state.contains("\"paid\":1") && !federation.at("1-0.upd").exists(), "{state}");
    // Another network is rejected by its digest, whatever its output on the rows.
    for other in ["onnx-models/digits-mlp.onnx", "onnx-models/digits-cnn.onnx"] {
        refused(&federation.update("federation.json", Path::new(other), 1, 0, &[]), &["not the model of the plan"]);
    }
    let file = federation.at("good.params");
    fs::write(&file, words(&good)).unwrap();
    let good = [&two[..], &["--params", file.to_str().unwrap()]].concat();
    assert_eq!(ok(&request(&federation, 1, &good))["rounds_charged"], 1);
    // A device with far more units than expected is rejected before a request, by its own check.
    let mut check = damper(&["federation", "check"]);
    check.arg(federation.at("federation.json")).args([MODEL, "--data", "idx:onnx-models/digits"]);
    refused(&check.output().unwrap(), &["--most-units 32", "1437 units"]);
    assert!(check.args(one).output().unwrap().status.success());
}
