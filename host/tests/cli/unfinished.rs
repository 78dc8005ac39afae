//! Runs that were killed or failed: their cost follows from the plan and the ledger in `checkpoint`.

use super::markup::assert_balanced;
use super::{DIGITS, MLP, assert_refused, damper, folder, json, stderr, train};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Returns a run with `extra` flags that lost everything except its private folder.
fn stopped(extra: &[&str]) -> (TempDir, PathBuf) {
    let (guard, out) = folder();
    let output = train(MLP, DIGITS, &out, extra).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for name in ["model.onnx", "report.json", "events.json", "metrics.csv", "report.html", "statement.json"] {
        fs::remove_file(out.join(name)).unwrap();
    }
    (guard, out)
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Changes the value under `key` in the file `name` in `checkpoint`, and its digest with it.
fn rewrite(out: &Path, name: &str, key: &str, change: impl FnOnce(&mut Value)) {
    let path = out.join("checkpoint").join(name);
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut file[key]);
    file["sha256"] = json!(sha256(&file[key].to_string()));
    fs::write(path, file.to_string()).unwrap();
}

fn set_paid(out: &Path, paid: u32) {
    rewrite(out, "ledger.json", "ledger", |ledger| ledger["paid"] = json!(paid));
}

fn epsilon(out: &Path, extra: &[&str]) -> Output {
    damper().arg("epsilon").arg(out).args(extra).output().unwrap()
}

/// 180 steps.
const LONG: [&str; 2] = ["--epochs", "8"];

#[test]
fn paid_steps_are_priced() {
    let (_guard, out) = stopped(&LONG);
    set_paid(&out, 128);
    let found = json(&epsilon(&out, &["--json"]));
    assert_eq!(
        (&found["finished"], &found["steps"], &found["planned_steps"]),
        (&json!(false), &json!(128), &json!(180))
    );
    assert_eq!(found["run"], "private");
    let rate = found["sampling_rate"].as_f64().unwrap().to_string();
    let sigma = found["noise_multiplier"].as_f64().unwrap().to_string();
    let args =
        ["epsilon", "--noise-multiplier", &sigma, "--sampling-rate", &rate, "--delta", "1e-5", "--json", "--steps"];
    let of = |steps: &str| json(&damper().args(args).arg(steps).output().unwrap())["epsilon"].clone();
    assert_eq!(found["epsilon"], of("128"));
    let planned = json(&epsilon(&out, &["--planned", "--json"]));
    assert_eq!((&planned["epsilon"], &planned["steps"]), (&of("180"), &json!(180)));
    let text = String::from_utf8(epsilon(&out, &[]).stdout).unwrap();
    assert!(
        text.contains("unfinished        128 of 180 planned steps are paid") && text.contains("upper bound"),
        "{text}"
    );

    let statement = json(&damper().arg("report").arg(&out).arg("--json").output().unwrap());
    let shared =
        ["epsilon", "delta", "noise_multiplier", "sampling_rate", "steps", "planned_steps", "accountant", "finished"];
    for key in shared {
        assert_eq!(statement[key], found[key], "{key}");
    }
    assert_eq!(statement["guaranteed"], true);
    let guarantee = statement["guarantee"].as_str().unwrap();
    assert!(guarantee.contains("128 paid steps") && guarantee.contains("at δ = 1e-5"), "{guarantee}");
    let written: Value = serde_json::from_slice(&fs::read(out.join("statement.json")).unwrap()).unwrap();
    assert_eq!(written, statement);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    let (head, body) = page.split_once("</style>").unwrap();
    assert_balanced(&format!("{}{body}", head.replace(head.split_once("<style>").unwrap().1, "</style>")));
    assert!(
        page.contains("unfinished: 128 of 180 planned steps are charged") && page.contains("role=\"alert\""),
        "{page}"
    );
}

#[test]
fn simulation_has_no_guarantee() {
    let (_guard, out) = stopped(&["--seed", "1"]);
    assert!(String::from_utf8(epsilon(&out, &[]).stdout).unwrap().contains("NO GUARANTEE"));
    let statement = json(&damper().arg("report").arg(&out).arg("--json").output().unwrap());
    assert_eq!((&statement["guaranteed"], &statement["run"]), (&json!(false), &json!("simulation")));
    let (_guard, out) = stopped(&["--noise", "continuous"]);
    let statement = json(&damper().arg("report").arg(&out).arg("--json").output().unwrap());
    assert_eq!((&statement["guaranteed"], &statement["run"]), (&json!(false), &json!("private")));
}

/// The initial plan equals the recorded events, with every sampler and schedule.
#[test]
fn plan_has_the_events_of_the_run() {
    let cases: [&[&str]; 6] = [
        &[],
        &["--noise", "continuous"],
        &["--sampler", "shuffled", "--epochs", "2.5"],
        &["--truncate", "200"],
        &["--method", "adp", "--lr-schedule", "constant", "--noise-schedule", "polynomial:3,0.5"],
        &["--method", "adp", "--clip-rule", "percentile", "--sampler", "shuffled", "--epochs", "2"],
    ];
    for extra in cases {
        let (_guard, out) = folder();
        let output = train(MLP, DIGITS, &out, extra).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let read = |name: &str| -> Value { serde_json::from_slice(&fs::read(out.join(name)).unwrap()).unwrap() };
        let (plan, events) = (&read("checkpoint/plan.json")["plan"], read("events.json"));
        for key in ["delta", "accountant", "sampler", "steps", "truncation", "events"] {
            assert_eq!(plan["events"][key], events[key], "{extra:?} {key}");
        }
        assert_eq!(plan["steps"], read("report.json")["steps"], "{extra:?}");
    }
}

#[test]
fn part_of_an_epoch_counts_whole() {
    let (_guard, out) = stopped(&["--sampler", "shuffled", "--epochs", "3"]);
    for (paid, events) in [(23, 1), (24, 2), (64, 3)] {
        set_paid(&out, paid);
        let statement = json(&damper().arg("report").arg(&out).arg("--json").output().unwrap());
        assert_eq!((&statement["steps"], &statement["events"]["events"][0]["times"]), (&json!(paid), &json!(events)));
    }
}

/// For damaged files, the error gives ε of the whole plan if there is a plan.
#[test]
fn damaged_ledger_gives_the_bound() {
    let bound = |out: &Path| json(&epsilon(out, &["--planned", "--json"]))["epsilon"].as_f64().unwrap();
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 6] = [
        ("missing", |file| fs::remove_file(file).unwrap()),
        ("damaged", |file| fs::write(file, b"").unwrap()),
        ("damaged", |file| {
            let bytes = fs::read(file).unwrap();
            fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("digest", |file| {
            let text = fs::read_to_string(file).unwrap();
            fs::write(file, text.replace("\"paid\":180", "\"paid\":18")).unwrap();
        }),
        ("181 paid steps of 180", |file| set_paid(file.parent().unwrap().parent().unwrap(), 181)),
        ("another plan", |file| {
            let out = file.parent().unwrap().parent().unwrap();
            rewrite(out, "ledger.json", "ledger", |ledger| ledger["plan"] = json!("00"));
        }),
    ];
    let (_guard, out) = stopped(&LONG);
    let ledger = out.join("checkpoint/ledger.json");
    let whole = fs::read(&ledger).unwrap();
    for (word, damage) in cases {
        damage(&ledger);
        let figure = format!("{:.3}", bound(&out));
        for command in ["epsilon", "report"] {
            let output = damper().arg(command).arg(&out).output().unwrap();
            assert_refused(&output, &["ledger.json", word, "180 planned steps", &figure[..3], "--planned"]);
        }
        fs::write(&ledger, &whole).unwrap();
    }
    let plan = out.join("checkpoint/plan.json");
    let text = fs::read_to_string(&plan).unwrap();
    for damaged in [&text[..text.len() / 2], "", &text.replace("\"times\":180", "\"times\":1")] {
        fs::write(&plan, damaged).unwrap();
        for extra in [&[][..], &["--planned"]] {
            assert_refused(&epsilon(&out, extra), &["plan.json", "damaged", "--noise-multiplier"]);
        }
    }
    fs::remove_file(&plan).unwrap();
    assert_refused(&epsilon(&out, &[]), &["events.json", "plan.json"]);
    assert_refused(&epsilon(&out, &["--planned"]), &["plan.json", "missing"]);
}

// The error for a folder with a ledger asks to keep the folder, not to remove it.
#[test]
fn folder_with_ledger_is_kept() {
    let (_guard, out) = stopped(&[]);
    let output = train(MLP, DIGITS, &out, &[]).output().unwrap();
    assert_refused(&output, &["holds the ledger", "keep it"]);
    assert!(out.join("checkpoint/ledger.json").exists());
}
