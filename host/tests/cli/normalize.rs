//! `--normalize-private`: every output names the release, and what claim and events say of it agrees.

use super::{DIGITS, MLP, folder, json, run, stderr, train};
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
