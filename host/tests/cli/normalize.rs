//! `--normalize-private` and `--release-non-finite`: every output names the release, and the claim agrees with the
//! events.

use super::data_files::linear;
use super::{DIGITS, MLP, damper, folder, json, run, stderr, train};
use damper::data::Normalize;
use serde_json::{Value, json};
use std::fs;

#[test]
fn outputs_name_the_release() {
    let (_guard, out) = folder();
    let flags = ["--epsilon", "3", "--delta", "1e-5", "--epochs", "1", "--normalize-private", "0,1"];
    let output = train(MLP, DIGITS, &out, &flags).output().unwrap();
    let terminal = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        output.status.success() && terminal.contains("scaled by released means and deviations"),
        "{}",
        stderr(&output)
    );
    let file = |name: &str| serde_json::from_str::<Value>(&fs::read_to_string(out.join(name)).unwrap()).unwrap();
    let (report, events) = (file("report.json"), file("events.json"));
    let constants = report["normalize"]["constants"].as_str().unwrap();
    let Normalize { means, stds } = constants.parse().unwrap();
    assert!(means.len() == 64 && stds.iter().all(|std| *std > 0.0 && *std <= 0.5), "{constants}");
    assert_eq!(report["normalize"]["bounds"], "0,1");
    assert_eq!(report["normalize"]["noise_multiplier"], events["normalize"]["noise_multiplier"]);
    for text in [&report["privacy"]["covered"], &report["privacy"]["taken_as_public"]] {
        assert!(text.to_string().contains("of the features"), "{text}");
    }
    let model = damper::onnx::load(&out.join("model.onnx")).unwrap();
    assert!(model.metadata_props.iter().any(|entry| entry.key == "damper.normalize" && entry.value == constants));
    let folder = out.to_str().unwrap();
    let epsilon = json(&run(&["epsilon", folder, "--json"]));
    assert_eq!((&epsilon["epsilon"], epsilon["epsilon"].as_f64() <= Some(3.0)), (&report["epsilon"], true));
    assert_eq!(epsilon["normalize_noise_multiplier"], events["normalize"]["noise_multiplier"]);
    let text = String::from_utf8(run(&["epsilon", folder]).stdout).unwrap();
    assert!(text.contains("one release of the features' means and deviations"), "{text}");

    // A record without the release, or with more noise, disagrees.
    for change in [json!(null), json!({ "sampling_rate_numerator": 1u64 << 53, "noise_multiplier": 40.0, "times": 1 })]
    {
        let mut changed = events.clone();
        changed["normalize"] = change;
        fs::write(out.join("events.json"), changed.to_string()).unwrap();
        assert_eq!(run(&["report", folder]).status.code(), Some(1));
        assert!(
            fs::read_to_string(out.join("report.html")).unwrap().contains("means and deviations with a multiplier of")
        );
    }
}

#[test]
fn outputs_name_the_count() {
    let (guard, out) = folder();
    let log = guard.path().join("log.jsonl");
    let flags =
        ["--epsilon", "3", "--delta", "1e-5", "--epochs", "1", "--normalize-private", "0,1", "--release-non-finite"];
    let mut command = train(MLP, DIGITS, &out, &flags);
    let output = command.args(["--events", log.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let terminal = String::from_utf8(output.stdout.clone()).unwrap();
    let file = |name: &str| serde_json::from_str::<Value>(&fs::read_to_string(out.join(name)).unwrap()).unwrap();
    let (report, events) = (file("report.json"), file("events.json"));
    let count = &report["non_finite"];
    let (released, noise) = (count["released"].as_f64().unwrap(), count["noise_multiplier"].as_f64().unwrap());
    assert_eq!(count["count"].as_f64().unwrap(), released.round().clamp(0.0, 1437.0));
    assert_eq!(
        (&count["samples"], &count["noise_multiplier"]),
        (&json!(1437), &events["non_finite"]["noise_multiplier"])
    );
    // Every digit has a gradient, so the number is only noise, from a 256th of the budget.
    assert!(released.abs() < 6.0 * noise && noise > 10.0 && count["epsilon"].as_f64() < Some(0.3), "{count}");
    let shown = format!("about {} of 1437 training samples have no finite gradient", count["count"]);
    assert!(terminal.contains(&format!("counted   {shown}")), "{terminal}");
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains(&shown));
    assert!(report["privacy"]["covered"].to_string().contains("number of samples without a finite gradient"));
    let folder = out.to_str().unwrap();
    let epsilon = json(&run(&["epsilon", folder, "--json"]));
    assert_eq!((&epsilon["epsilon"], epsilon["epsilon"].as_f64() <= Some(3.0)), (&report["epsilon"], true));
    assert_eq!(epsilon["non_finite_noise_multiplier"], events["non_finite"]["noise_multiplier"]);
    let text = String::from_utf8(run(&["epsilon", folder]).stdout).unwrap();
    assert!(text.contains("one release of the number of samples without a finite gradient"), "{text}");
    // Without the release the privacy cost is lower. `damper epsilon` reads both.
    let mut less = events.clone();
    less["non_finite"] = json!(null);
    fs::write(out.join("events.json"), less.to_string()).unwrap();
    assert!(json(&run(&["epsilon", folder, "--json"]))["epsilon"].as_f64() < report["epsilon"].as_f64());

    // A record without the release, or with more noise, disagrees.
    for change in
        [json!(null), json!({ "sampling_rate_numerator": 1u64 << 53, "noise_multiplier": 4000.0, "times": 1 })]
    {
        let mut changed = events.clone();
        changed["non_finite"] = change;
        fs::write(out.join("events.json"), changed.to_string()).unwrap();
        assert_eq!(run(&["report", folder]).status.code(), Some(1));
        assert!(
            fs::read_to_string(out.join("report.html"))
                .unwrap()
                .contains("without a finite gradient with a multiplier of")
        );
    }
}

// Outputs outside the private folder have only the noisy number, also without a terminal for warnings about rows.
#[test]
fn only_the_noisy_count_is_kept() {
    let (guard, _) = folder();
    let model = guard.path().join("one.onnx");
    linear(guard.path(), "one", &[2], 1);
    let data = guard.path().join("data.csv");
    let rows = |row: usize| {
        if row.is_multiple_of(4) { "3e38,3e38,1\n".to_owned() } else { format!("0.{row},1,{}\n", row % 2) }
    };
    fs::write(&data, (0..200).map(rows).collect::<String>()).unwrap();
    let out = guard.path().join("run");
    let log = guard.path().join("log.jsonl");
    let flags =
        ["--loss", "mse", "--noise-multiplier", "2", "--delta", "1e-4", "--epochs", "1", "--release-non-finite"];
    let mut command = damper();
    command.args([
        "train",
        model.to_str().unwrap(),
        "--data",
        &format!("csv:{}", data.display()),
        "--batch-size",
        "50",
    ]);
    command
        .args(["--lr", "0.1", "--backend", "tract", "--seed", "5", "--non-finite-noise-multiplier", "2"])
        .args(flags);
    command.args(["--out", out.to_str().unwrap(), "--events", log.to_str().unwrap()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
    let released = report["non_finite"]["released"].as_f64().unwrap();
    assert!((released - 50.0).abs() < 12.0 && released != 50.0, "{released}");
    let error = stderr(&output);
    let shown = format!("about {} of 200 training samples", report["non_finite"]["count"]);
    assert!(error.contains(&format!("before the first step: {shown}")), "{error}");
    let log = fs::read_to_string(&log).unwrap();
    assert!(
        !error.contains("added nothing") && !error.contains("of the first") && !log.contains("finite gradient"),
        "{error} {log}"
    );
}
