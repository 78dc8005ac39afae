//! Members with keys: signatures, approvals and charges.

use super::*;

/// Creates a private federation of three members, whose owners have approved its plan. `more` are flags of the plan.
pub(super) fn of_members(more: &[&str]) -> Federation {
    let federation = Federation { folder: tempfile::tempdir().unwrap() };
    let list: String = (1..=3)
        .map(|device| {
            let key = federation.at(&format!("{device}.key"));
            let made = succeeds(damper(&["federation", "key", "--json", "--out"]).arg(key));
            format!("{} clinic {device}\n", made["public"].as_str().unwrap())
        })
        .collect();
    fs::write(federation.at("members"), list).unwrap();
    let mut plan = damper(&["federation", "plan", MODEL, "--members"]);
    plan.arg(federation.at("members")).args(unless_given(&COMMON, more));
    plan.args(unless_given(&[["--noise-multiplier", "4"]], more)).args(more);
    succeeds(plan.arg("--out").arg(federation.at("federation.json")));
    federation
}

fn signed_update(federation: &Federation, device: u32, key: u32, more: &[&str]) -> Output {
    let mut command = damper(&["federation", "update"]);
    command.arg(federation.at("federation.json")).arg(MODEL).args(SAMPLES);
    command.args(["--device", &device.to_string(), "--round", "0", "--json", "--key"]);
    command.arg(federation.at(&format!("{key}.key"))).arg("--ledger").arg(federation.at(&format!("state-{device}")));
    command.arg("--out").arg(federation.at(&format!("{device}-0.upd"))).args(more).output().unwrap()
}

pub(super) fn approved(federation: &Federation, device: u32) -> serde_json::Value {
    let mut command = damper(&["federation", "approve", "--json"]);
    command.arg(federation.at("federation.json"));
    succeeds(command.arg("--ledger").arg(federation.at(&format!("state-{device}"))))
}

// Each member signs for itself, after its owner has approved the plan. Updates in its name from others are left out.
#[test]
fn members_speak_for_themselves_alone() {
    let federation = of_members(&[]);
    refused(&signed_update(&federation, 1, 1, &[]), &["has not approved this plan", "federation approve"]);
    let plan = FederationPlan::from_json(&fs::read(federation.at("federation.json")).unwrap()).unwrap();
    for device in 1..=3u32 {
        let shown = approved(&federation, device);
        assert_eq!(shown["members"][device as usize - 1]["name"], format!("clinic {device}"));
        assert_eq!(
            (shown["sha256"].as_str().unwrap(), shown["epsilon"]["server"].is_number()),
            (&*plan.digest(), true)
        );
    }
    refused(&signed_update(&federation, 1, 2, &[]), &["2.key", "not the key of device 1"]);
    refused(&signed_update(&federation, 1, 1, &["--max-epsilon", "0.1"]), &["--max-epsilon", "costs epsilon"]);
    let strict = ["--max-epsilon", "100", "--max-delta", "1e-6"];
    refused(&signed_update(&federation, 1, 1, &strict), &["--max-delta is 1e-6", "at delta 1e-5"]);
    for device in 1..=3 {
        assert_eq!(ok(&signed_update(&federation, device, device, &[]))["rounds_charged"], 1);
    }
    let read = |name: &str| fs::read(federation.at(name)).unwrap();
    let asked = Asked::new(&plan, 0, request_digest(&plan, 0, None));
    let update = |name: &str| Envelope::open(&asked, &read(name)).map(|envelope| envelope.update.to_vec());
    // The bare update without its envelope, another device's update in the first device's envelope, and a changed bit.
    fs::write(federation.at("bare.upd"), update("2-0.upd").unwrap()).unwrap();
    let (first, second) = (read("1-0.upd"), read("2-0.upd"));
    let end = first.len() - 64;
    fs::write(federation.at("moved.upd"), [&first[..96], &second[96..end], &first[end..]].concat()).unwrap();
    let mut flipped = second;
    flipped[200] ^= 1;
    fs::write(federation.at("flipped.upd"), flipped).unwrap();
    let bad = ["bare.upd", "moved.upd", "flipped.upd"];
    let sum = ok(&federation.aggregate(&[&bad[..], &["1-0.upd", "2-0.upd", "3-0.upd"]].concat(), 0));
    assert_eq!((sum["devices"].as_u64(), sum["refused"].as_array().map(Vec::len)), (Some(3), Some(3)));
    let mut wanted = vec![0; 650];
    for name in ["1-0.upd", "2-0.upd", "3-0.upd"] {
        let bytes = update(name).unwrap();
        Update::parse(&bytes).unwrap().units().zip(&mut wanted).for_each(|(units, sum)| *sum += units);
    }
    assert!(Update::parse(&read("0.sum")).unwrap().units().eq(wanted));
}

// After a device has joined, each request of the plan gets a charged update. With invalid rows it is noise alone, and
// the message stays on the device.
#[test]
fn joined_device_answers_whatever_its_rows_are() {
    let federation = of_members(&["--rounds", "9"]);
    approved(&federation, 1);
    let data = |name: &str, label: usize| {
        let rows: String =
            (0..4).map(|row| format!("{}{}\n", "0.5,".repeat(64), if row == 3 { label } else { row })).collect();
        let file = federation.at(name);
        fs::write(&file, rows).unwrap();
        format!("csv:{}", file.display())
    };
    let (good, bad) = (data("good.csv", 9), data("bad.csv", 10));
    let params = federation.at("zero.params").display().to_string();
    fs::write(&params, [0; 2600]).unwrap();
    let update = |round: u32, data: &str| {
        let mut command = damper(&["federation", "update"]);
        command.arg(federation.at("federation.json")).arg(MODEL).args(["--data", data, "--device", "1", "--json"]);
        command.args(["--round", &round.to_string(), "--params", &params, "--backend", "portable", "--key"]);
        command.arg(federation.at("1.key")).arg("--ledger").arg(federation.at("state-1"));
        command.arg("--out").arg(federation.at("1.upd")).output().unwrap()
    };
    // Before it has joined, nothing is sent and nothing is charged.
    refused(&update(0, &bad), &["bad.csv: line 4", "label"]);
    let mut check = damper(&["federation", "check"]);
    check.arg(federation.at("federation.json")).arg(MODEL).args(["--data", &good]);
    assert!(check.arg("--ledger").arg(federation.at("state-1")).output().unwrap().status.success());
    let first = ok(&update(1, &good));
    let noise = update(2, &bad);
    let second = ok(&noise);
    assert_eq!((&first["bytes"], first["rounds_charged"].as_u64()), (&second["bytes"], Some(1)));
    assert_eq!(second["rounds_charged"], 2);
    assert_eq!(first.as_object().unwrap().len(), second.as_object().unwrap().len());
    let sent = fs::read_to_string(federation.at("state-1/sent.log")).unwrap();
    assert!(sent.contains("the data does not fit"), "{sent}");
    // A lost note changes nothing: a device that was charged has joined.
    fs::remove_file(federation.at("state-1/joined.json")).unwrap();
    assert_eq!(ok(&update(3, &bad))["rounds_charged"], 3);
}

// With a fixed delay a joined device answers after that delay, also if its data cannot be read to the end.
#[cfg(unix)]
#[test]
fn slow_data_does_not_delay_an_answer() {
    let federation = of_members(&["--reply-seconds", "3"]);
    approved(&federation, 1);
    let mut check = damper(&["federation", "check"]);
    check.arg(federation.at("federation.json")).arg(MODEL).args(&SAMPLES[..4]);
    assert!(check.arg("--ledger").arg(federation.at("state-1")).output().unwrap().status.success());
    // A pipe without a writer.
    let pipe = federation.at("pipe.csv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = damper(&["federation", "update"]);
    command.arg(federation.at("federation.json")).arg(MODEL).arg("--data").arg(format!("csv:{}", pipe.display()));
    command
        .args(["--device", "1", "--round", "0", "--backend", "portable", "--json", "--key"])
        .arg(federation.at("1.key"));
    command.arg("--ledger").arg(federation.at("state-1")).arg("--out").arg(federation.at("1.upd"));
    let begun = SystemTime::now();
    let made = succeeds(&mut command);
    let seconds = begun.elapsed().unwrap().as_secs_f64();
    assert!((3.0..20.0).contains(&seconds) && made["rounds_charged"] == 1, "{seconds} {made}");
    assert!(federation.at("1.upd").exists());
}

// The device's own files are not overwritten, and a sum updates the parameters of its own round.
#[test]
fn files_in_wrong_places_are_refused() {
    let federation = Federation::new(&["--smallest-cohort", "1"]);
    let model = Path::new(MODEL);
    ok(&federation.update("federation.json", model, 1, 0, &[]));
    let mut command = damper(&["federation", "update"]);
    command.arg(federation.at("federation.json")).arg(MODEL).args(SAMPLES).args(["--device", "1", "--round", "1"]);
    command.args(["--seed", "5", "--ledger"]).arg(federation.at("state-1")).arg("--params").arg(federation.at("p"));
    fs::write(federation.at("p"), [0; 2600]).unwrap();
    let inside = command.arg("--out").arg(federation.at("state-1/../state-1/ledger.json")).output().unwrap();
    refused(&inside, &["--out", "that the device keeps"]);
    let params = federation.at("p").display().to_string();
    ok(&federation.update("federation.json", model, 1, 1, &["--params", &params]));
    ok(&federation.aggregate(&["1-1.upd"], 1));
    refused(&federation.apply(model, "1.sum", "out.onnx", &[]), &["--params: the sum is of round 1"]);
    // A folder belongs to one device.
    let mut other = damper(&["federation", "update"]);
    other.arg(federation.at("federation.json")).arg(MODEL).args(SAMPLES).args(["--device", "2", "--round", "1"]);
    other.args(["--seed", "5", "--params", &params, "--ledger"]).arg(federation.at("state-1"));
    refused(&other.arg("--out").arg(federation.at("x")).output().unwrap(), &["that of device 1"]);
}

// One budget covers all plans on a device's data. Each is charged once, before its first round.
#[test]
fn device_charges_one_budget() {
    let federation = of_members(&[]);
    approved(&federation, 1);
    let file = federation.at("data.budget");
    let mut budget = damper(&["budget", "--create", "data", "--epsilon", "6", "--delta", "1e-5", "--json"]);
    succeeds(budget.arg(&file));
    let total = || succeeds(damper(&["budget", "--json"]).arg(&file));
    let flag = file.display().to_string();
    for _ in 0..2 {
        ok(&signed_update(&federation, 1, 1, &["--budget", &flag]));
    }
    let found = total();
    let plan = succeeds(damper(&["epsilon", "--json"]).arg(federation.at("federation.json")));
    let (charged, server) = (found["epsilon"].as_f64().unwrap(), plan["epsilon"]["server"].as_f64().unwrap());
    assert!(found["runs"].as_array().unwrap().len() == 1 && (charged / server - 1.0).abs() < 1e-6, "{found} {plan}");
    // A plan above the limit charges no round.
    let dear = of_members(&["--noise-multiplier", "0.8"]);
    approved(&dear, 1);
    refused(&signed_update(&dear, 1, 1, &["--budget", &flag]), &["data.budget", "above the limit"]);
    let ledger = fs::read_to_string(dear.at("state-1/ledger.json")).unwrap();
    assert!(ledger.contains("\"paid\":0"), "{ledger}");
}

// With a fixed delay an answer comes after that delay, if it is ready, rejected, or late. A late answer is noise alone.
#[test]
fn answers_come_at_the_plans_delay() {
    let of = |federation: &Federation, more: &[&str]| {
        let begun = std::time::Instant::now();
        let output = signed_update(federation, 1, 1, more);
        (output, begun.elapsed().as_secs_f64())
    };
    let quick = of_members(&["--reply-seconds", "4"]);
    approved(&quick, 1);
    let (output, seconds) = of(&quick, &["--max-epsilon", "0.1"]);
    refused(&output, &["costs epsilon"]);
    assert!(seconds >= 4.0, "{seconds}");
    let begun = SystemTime::now();
    let (output, seconds) = of(&quick, &[]);
    assert!(ok(&output)["resent"] == false && seconds >= 4.0, "{seconds}");
    // The file too, so that its time reveals nothing to an observer.
    let written = fs::metadata(quick.at("1-0.upd")).unwrap().modified().unwrap();
    assert!(written.duration_since(begun).unwrap() >= Duration::from_millis(3990));
    let sent = |federation: &Federation| fs::read_to_string(federation.at("state-1/sent.log")).unwrap();
    assert!(sent(&quick).contains("\"update\""), "{}", sent(&quick));
    let (output, seconds) = of(&quick, &[]);
    assert!(ok(&output)["resent"] == true && seconds >= 4.0, "{seconds}");

    // Many local steps take minutes.
    let users = ["--unit", "user", "--local-lr", "0.1", "--local-batch", "24", "--local-steps", "16000000"];
    let slow = of_members(&[&users[..], &["--sampling-rate", "1", "--reply-seconds", "4"]].concat());
    approved(&slow, 1);
    let (output, seconds) = of(&slow, &[]);
    assert_eq!(ok(&output)["rounds_charged"], 1);
    assert!((4.0..60.0).contains(&seconds), "{seconds}");
    assert!(sent(&slow).contains("noise alone"), "{}", sent(&slow));
    // It contains only noise.
    let plan = FederationPlan::from_json(&fs::read(slow.at("federation.json")).unwrap()).unwrap();
    let bytes = fs::read(slow.at("1-0.upd")).unwrap();
    let update = Envelope::open(&Asked::new(&plan, 0, request_digest(&plan, 0, None)), &bytes).unwrap().update;
    let noise: Vec<i64> = Update::parse(update).unwrap().units().collect();
    let deviation = (noise.iter().map(|x| (*x as f64).powi(2)).sum::<f64>() / noise.len() as f64).sqrt();
    assert!((deviation / f64::from(plan.sigma) - 1.0).abs() < 0.15, "{deviation} {}", plan.sigma);
    assert!(ok(&of(&slow, &[]).0)["resent"] == true);
    assert_eq!(fs::read(slow.at("1-0.upd")).unwrap(), bytes);
}
