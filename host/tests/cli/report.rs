//! Reports on a run's folder: the page, the JSON, and every kind of broken, changed or hostile folder.

use super::markup::assert_balanced;
use super::{DIGITS, MLP, assert_refused, damper, folder, json, stderr, train};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::LazyLock;
use tempfile::TempDir;

/// A private run, shared by the tests.
static RUN: LazyLock<TempDir> = LazyLock::new(|| {
    let (guard, out) = folder();
    let output = train(MLP, DIGITS, &out, &["--epsilon", "3", "--delta", "1e-5", "--epochs", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    guard
});

/// Returns a copy of that run's folder, to be broken.
fn copy() -> (TempDir, std::path::PathBuf) {
    let (guard, out) = folder();
    fs::create_dir(&out).unwrap();
    for name in ["model.onnx", "report.json", "events.json", "metrics.csv"] {
        fs::copy(RUN.path().join("run").join(name), out.join(name)).unwrap();
    }
    (guard, out)
}

fn report(out: &Path, extra: &[&str]) -> Output {
    damper().arg("report").arg(out).args(extra).output().unwrap()
}

fn edit(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    change(&mut value);
    fs::write(file, value.to_string()).unwrap();
}

fn page(out: &Path) -> String {
    fs::read_to_string(out.join("report.html")).unwrap()
}

/// Checks that every element is closed, in order, and that the page loads and runs nothing.
fn assert_calm(page: &str) {
    let (head, body) = page.split_once("</style>").unwrap();
    let markup = format!("{}{body}", head.replace(head.split_once("<style>").unwrap().1, "</style>"));
    assert_balanced(&markup);
    for word in ["<script", "http", "url(", "@import", "src=", "NaN", "inf\"", "onload", "<img", "\u{202e}"] {
        assert!(!page.contains(word), "{word}");
    }
    for word in
        ["<html lang=\"en\">", "<title>", "name=\"viewport\"", "role=\"img\"", "prefers-color-scheme", "@media print"]
    {
        assert!(page.contains(word), "{word}");
    }
}

// A report states the guarantee, and the section that answers each item of the guideline.
#[test]
fn report_states_guarantee_and_guideline() {
    let (_guard, out) = copy();
    let output = report(&out, &["--json"]);
    let statement = json(&output);
    let record: Value = serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap();
    for key in ["epsilon", "delta", "noise_multiplier", "sampling_rate", "steps", "accountant"] {
        assert_eq!(statement[key], record[key], "{key}");
    }
    assert_eq!((&statement["agrees"], &statement["guaranteed"]), (&json!(true), &json!(true)));
    let sentence = statement["guarantee"].as_str().unwrap();
    assert!(sentence.contains("at δ = 1e-5") && sentence.contains("1437 samples"), "{sentence}");
    let sample = record["privacy"]["sample"].as_str().unwrap();
    assert!(sample.starts_with("one image"), "{sample}");
    assert!(statement["sample"].as_str().unwrap().starts_with(sample), "{}", statement["sample"]);
    assert_eq!(statement["record"], record);
    assert!(statement["epsilon_of_replaced"].as_f64() > statement["epsilon"].as_f64());

    let curves = &statement["curves"];
    let epsilons = |name: &str| -> Vec<f64> {
        curves[name].as_array().unwrap().iter().map(|at| at["epsilon"].as_f64().unwrap()).collect()
    };
    let (steps, deltas) = (epsilons("over_steps"), epsilons("over_delta"));
    assert!(steps.len() > 10 && steps.windows(2).all(|pair| pair[0] <= pair[1]), "{steps:?}");
    assert_eq!(*steps.last().unwrap(), statement["epsilon"].as_f64().unwrap());
    assert!(deltas.len() > 8 && deltas.windows(2).all(|pair| pair[0] <= pair[1]), "{deltas:?}");

    let page = page(&out);
    assert_calm(&page);
    let items = statement["guideline"].as_array().unwrap();
    assert!(items.len() >= 18);
    for item in items {
        assert!(page.contains(item["asked"].as_str().unwrap()) && item["answer"].as_str().is_some_and(|a| a.len() > 5));
        if let Some(section) = item["section"].as_str() {
            assert!(page.contains(&format!("<section id=\"{section}\"")), "{section}");
        }
    }
    for word in ["discrete-gaussian", "Poisson", "pld", "ChaCha20", "tract", "checkpoint/", "SHA-256", "Computed again"]
    {
        assert!(page.contains(word), "{word}");
    }
    let written: Value = serde_json::from_slice(&fs::read(out.join("statement.json")).unwrap()).unwrap();
    assert_eq!(written, statement);
}

/// Training writes the same page. It contains neither the key nor the count in the ledger.
#[test]
fn run_writes_report_without_secrets() {
    let run = RUN.path().join("run");
    let (_guard, out) = copy();
    assert!(report(&out, &[]).status.success());
    for name in ["report.html", "statement.json"] {
        assert_eq!(fs::read(run.join(name)).unwrap(), fs::read(out.join(name)).unwrap(), "{name}");
    }
    assert!(!page(&out).contains("ledger"), "the private ledger is not spoken of");
    let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
    assert_eq!(names(&out), 6, "nothing half-written stays");
}

// A claim that contradicts the events is shown, and fails the report.
#[test]
fn unsupported_claim_fails_report() {
    type Change = (&'static str, fn(&mut Value), &'static str);
    let changes: [Change; 11] = [
        ("report.json", |file| file["epsilon"] = json!(1.0), "epsilon 1"),
        ("report.json", |file| file["delta"] = json!(1e-9), "delta 0.000000001"),
        ("report.json", |file| file["steps"] = json!(3), "a number of steps of 3"),
        ("report.json", |file| file["accountant"] = json!("rdp"), "the accountant rdp"),
        ("report.json", |file| file["mechanism"]["sigma_grid"] = json!(5), "noise on the gradient"),
        ("report.json", |file| file["mechanism"]["seed"] = json!(7), "to be a private"),
        ("report.json", |file| file["params_digest"] = json!("00"), "the parameters in model.onnx"),
        ("report.json", |file| file["training"]["tensors"][0] = json!("other"), "has no tensor other"),
        ("report.json", |file| file["privacy"]["sampler"] = json!("shuffled"), "the sampler shuffled"),
        ("events.json", |file| file["events"][0]["times"] = json!(3000), "epsilon"),
        ("events.json", |file| file["events"][0]["noise_multiplier"] = json!(0.5), "epsilon"),
    ];
    for (name, change, word) in changes {
        let (_guard, out) = copy();
        edit(&out.join(name), change);
        let output = report(&out, &[]);
        assert_eq!(output.status.code(), Some(1), "{word}");
        let message = stderr(&output);
        assert!(message.lines().count() == 1 && message.contains(word) && message.contains("do not rely"), "{message}");
        let (page, statement) = (page(&out), fs::read(out.join("statement.json")).unwrap());
        assert!(page.contains("role=\"alert\"") && page.contains("Do not rely on this claim"), "{word}");
        assert!(page.contains("There is no guarantee") && !page.contains("Computed again"), "{word}");
        assert_calm(&page);
        let statement: Value = serde_json::from_slice(&statement).unwrap();
        assert_eq!((&statement["agrees"], &statement["guaranteed"]), (&json!(false), &json!(false)));
    }
}

// The error for a broken folder names file and fix, and no page is written.
#[test]
fn broken_folder_error_names_fix() {
    let broken = |name: &str, bytes: &[u8], words: &[&str]| {
        let (_guard, out) = copy();
        fs::write(out.join(name), bytes).unwrap();
        let output = report(&out, &[]);
        assert_refused(&output, &[&[name], words].concat());
        assert!(!out.join("report.html").exists() && !out.join("statement.json").exists(), "{name}");
    };
    let record = fs::read(RUN.path().join("run/report.json")).unwrap();
    let events = fs::read(RUN.path().join("run/events.json")).unwrap();
    broken("report.json", &record[..record.len() / 2], &["damaged", "take the one"]);
    broken("report.json", b"", &["damaged"]);
    broken("report.json", &[0xff; 64], &["damaged"]);
    broken("report.json", b"{\"epsilon\": 1e999}", &["damaged"]);
    broken("report.json", "[".repeat(1 << 20).as_bytes(), &["damaged"]);
    broken("report.json", &vec![b' '; (1 << 22) + 1], &["larger than 4 MiB"]);
    broken("events.json", &events[..events.len() - 9], &["damaged", "take the one"]);
    broken("events.json", b"{\"delta\": 1e-5, \"accountant\": \"pld\", \"events\": []}", &["cannot be priced"]);
    let event = |rate: u64, sigma: &str, times: u64| {
        format!(
            "{{\"delta\": 1e-5, \"accountant\": \"pld\", \"events\": [{{\"sampling_rate_numerator\": {rate}, \
             \"noise_multiplier\": {sigma}, \"times\": {times}}}]}}"
        )
    };
    broken("events.json", event(u64::MAX, "1.0", 5).as_bytes(), &["--sampling-rate 2048: must be", "damaged"]);
    broken("events.json", event(1 << 50, "-1.0", 5).as_bytes(), &["cannot be priced"]);
    broken("events.json", event(1 << 50, "1e-300", 5).as_bytes(), &["cannot be priced"]);
    broken("events.json", event(0, "1.0", u64::MAX).as_bytes(), &["cannot be priced"]);
    broken("audit-canary.json", b"{}", &["damaged"]);
    broken("audit-neighbours.json", b"{\"holds\": true", &["damaged"]);
    broken("model.onnx", b"no model", &["model.onnx"]);

    for name in ["report.json", "events.json"] {
        let (_guard, out) = copy();
        fs::remove_file(out.join(name)).unwrap();
        assert_refused(&report(&out, &[]), &[name, "is missing"]);
        fs::create_dir(out.join(name)).unwrap();
        assert_refused(&report(&out, &[]), &[name, "is not a file"]);
    }
    let (_guard, out) = copy();
    assert_refused(&report(&out.join("no"), &[]), &["no: ", "damper train --out"]);
    assert_refused(&report(&out.join("report.json"), &[]), &["is a file", "damper train --out"]);
    fs::create_dir(out.join("report.html")).unwrap();
    assert_refused(&report(&out, &[]), &["report.html"]);
    let missing = out.join("missing");
    assert_refused(&report(&out, &["--out", missing.to_str().unwrap()]), &["missing", "make its folder"]);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_waited_for() {
    let (_guard, out) = copy();
    for (name, to) in [("events.json", "/dev/zero"), ("report.json", "/dev/null"), ("model.onnx", "/dev/zero")] {
        fs::remove_file(out.join(name)).unwrap();
        std::os::unix::fs::symlink(to, out.join(name)).unwrap();
        assert_refused(&report(&out, &[]), &["is not a file"]);
        if name == "events.json" {
            assert_refused(&super::run(&["epsilon", out.to_str().unwrap()]), &["events.json", "is not a file"]);
        }
    }
}

#[test]
fn hostile_words_stay_words() {
    let (_guard, out) = copy();
    let hostile = "</td><script>alert(1)</script><img src=x onload=y> \u{202e}desrever\u{0}";
    edit(&out.join("report.json"), |record| {
        for (section, key) in [
            ("privacy", "path_note"),
            ("privacy", "sample"),
            ("method", "filter"),
            ("versions", "backend"),
            ("training", "method"),
        ] {
            record[section][key] = json!(hostile);
        }
        record["warnings"] = json!([hostile]);
    });
    let output = report(&out, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let page = page(&out);
    assert!(page.matches("&lt;script&gt;").count() >= 5);
    let outside = page.replace("src=x", "").replace("onload=y", "");
    assert_calm(&outside);
}

fn claim(record: &Value) -> Value {
    let keys = ["epsilon", "delta", "noise_multiplier", "sampling_rate", "steps"];
    keys.iter().map(|key| (key.to_string(), record[*key].clone())).collect::<serde_json::Map<_, _>>().into()
}

// The page shows the result of an audit. A failed audit, or an audit of another run, fails the report.
#[test]
fn failed_or_foreign_audit_fails_report() {
    let record: Value = serde_json::from_slice(&fs::read(RUN.path().join("run/report.json")).unwrap()).unwrap();
    let canary = |lower: f64| {
        json!({"audit": "canary", "refuted": lower > 3.0, "epsilon_lower": lower, "confidence": 0.999, "claim": claim(&record),
            "canaries": "dirac", "count": 1000, "guesses": 400, "correct": 217, "adversary": "sees all", "bound": "a theorem",
            "seed": 123_456_789, "model": "audit-canary-model.not-a-result.onnx"})
    };
    let neighbours = |violation: Value| {
        json!({"audit": "neighbours", "holds": violation.is_null(), "claim": claim(&record), "steps": 8, "seed": 987_654_321,
            "other_samples": "compared bit for bit",
            "cases": [{"case": "one sample removed", "sample": 5, "drawn": 4, "violation": violation}]})
    };
    let mechanism = |holds: bool| {
        json!({"audit": "mechanism", "holds": holds, "claim": claim(&record), "error_rate": 1e-6, "tests": 2500, "precision": 0.01,
            "findings": [{"what": "wide: deviation of the noise", "holds": holds, "detail": "step 3: 0.5 of the deviation"}]})
    };
    let with = |files: &[(&str, &Value)]| {
        let (guard, out) = copy();
        for (name, file) in files {
            fs::write(out.join(name), file.to_string()).unwrap();
        }
        let output = report(&out, &[]);
        let page = page(&out);
        assert_calm(&page);
        drop(guard);
        (output.status.code(), stderr(&output), page)
    };
    let (held, fine) = (neighbours(Value::Null), canary(0.25));
    let right = mechanism(true);
    let files = [("audit-canary.json", &fine), ("audit-neighbours.json", &held), ("audit-mechanism.json", &right)];
    let (code, _, page) = with(&files);
    assert_eq!(code, Some(0));
    assert!(page.contains("2500, which refute a right mechanism"));
    for word in
        ["at least 0.2500 with 99.9 % confidence", "not refuted", "217 right of 400", "1 neighbouring data sets"]
    {
        assert!(page.contains(word), "{word}");
    }
    for word in ["not-a-result", "123456789", "987654321"] {
        assert!(!page.contains(word), "{word}");
    }
    let broken = neighbours(json!({"step": 2, "sample": 5, "what": "the sum moved by 2 clips"}));
    let mut other = canary(0.25);
    other["claim"]["epsilon"] = json!(8.0);
    // A record that contradicts its own figures.
    let mut quiet = canary(4.0);
    quiet["refuted"] = json!(false);
    for (name, file, word) in [
        ("audit-canary.json", canary(4.0), "the claim is refuted"),
        ("audit-canary.json", quiet, "the claim is refuted"),
        ("audit-neighbours.json", broken, "the sum moved by 2 clips"),
        ("audit-mechanism.json", mechanism(false), "step 3: 0.5 of the deviation"),
        ("audit-canary.json", other, "to be of a run with epsilon 8"),
    ] {
        let (code, message, page) = with(&[(name, &file)]);
        assert_eq!(code, Some(1), "{word}");
        assert!(message.contains(word) && message.contains("do not rely"), "{message}");
        assert!(page.contains("There is no guarantee") && page.contains("role=\"alert\""), "{word}");
    }
}

#[test]
fn a_canary_model_is_never_a_result() {
    let (_guard, out) = copy();
    let file = out.join("model.onnx");
    let mut model = damper::onnx::load(&file).unwrap();
    damper::onnx::mark(&mut model);
    fs::write(&file, damper::onnx::encode(&model)).unwrap();
    let output = report(&out, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no result"), "{}", stderr(&output));
    assert!(page(&out).contains("No result") && !page(&out).contains("differentially private with"));
}

// Simulations and the float path have no guarantee, and the page gives the reason.
#[test]
fn simulation_or_float_has_no_guarantee() {
    for (flags, word, reason) in [
        (&["--seed", "7"][..], "A simulation: its seed is known", "the run is a simulation"),
        (&["--noise", "continuous"], "Not the exact path", "whose sums and noise are floats"),
    ] {
        let (_guard, out) = folder();
        let output = train(MLP, DIGITS, &out, flags).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let statement = json(&report(&out, &["--json"]));
        assert_eq!(statement["guaranteed"], false, "{word}");
        let guarantee = statement["guarantee"].as_str().unwrap();
        assert!(guarantee.starts_with("There is no guarantee") && guarantee.contains(reason), "{guarantee}");
        assert!(page(&out).contains(word) && !page(&out).contains("Computed again"), "{word}");
    }
}

// Shuffled batches cost one event per epoch without amplification, and only on request.
#[test]
fn shuffled_epoch_costs_unamplified_event() {
    let steps = ["--noise-multiplier", "8", "--epochs", "2", "--json"];
    let (_guard, out) = folder();
    let output = train(MLP, DIGITS, &out, &[&steps[..], &["--sampler", "shuffled"]].concat()).output().unwrap();
    assert!(stderr(&output).contains("nothing is gained by sampling"), "{}", stderr(&output));
    let shuffled = json(&output);
    // 1,437 samples in batches of 64.
    assert_eq!((&shuffled["steps"], &shuffled["privacy"]["events"]), (&json!(46), &json!(2)));
    assert_eq!(shuffled["sampling_rate"], 1.0);
    let events = json(&damper().args(["epsilon", out.to_str().unwrap(), "--json"]).output().unwrap());
    let two =
        ["epsilon", "--noise-multiplier", "8", "--sampling-rate", "1", "--steps", "2", "--delta", "1e-5", "--json"];
    assert_eq!(shuffled["epsilon"], json(&damper().args(two).output().unwrap())["epsilon"]);
    assert_eq!((&events["epsilon"], &events["steps"]), (&shuffled["epsilon"], &json!(46)));
    assert!(report(&out, &[]).status.success());
    assert!(page(&out).contains("2 epochs, each composed as one event at a rate of 1"));

    let (_guard, out) = folder();
    let poisson = json(&train(MLP, DIGITS, &out, &steps).output().unwrap());
    assert_eq!(poisson["privacy"]["sampler"], "poisson");
    assert!(poisson["epsilon"].as_f64() < shuffled["epsilon"].as_f64());
}

// The privacy cost of correlated noise follows from its coefficients. A record with a larger claim is rejected.
#[test]
fn correlated_noise_is_priced_from_its_record() {
    let of = |flags: &[&str]| {
        let (guard, out) = folder();
        let all = [&["--epsilon", "4", "--delta", "1e-5", "--epochs", "2", "--json"], flags].concat();
        (json(&train(MLP, DIGITS, &out, &all).output().unwrap()), guard, out)
    };
    for (flags, events, name) in [
        (&["--sampler", "min-separation", "--noise-correlation", "lambda:3/4"][..], 1, "lambda:3/4"),
        (
            &["--sampler", "min-separation", "--noise-correlation", "banded:3", "--noise-objective", "max"],
            1,
            "banded:3",
        ),
        // 45 steps in cycles of five groups.
        (&["--sampler", "cyclic-poisson", "--noise-correlation", "banded:3", "--groups", "5"], 9, "banded:3"),
    ] {
        let (found, _guard, out) = of(flags);
        assert_eq!((&found["privacy"]["events"], &found["run"]), (&json!(events), &json!("private")));
        let epsilon = found["epsilon"].as_f64().unwrap();
        assert!(epsilon <= 4.0 && epsilon > 3.9, "{epsilon}");
        let correlation = &found["mechanism"]["correlation"];
        assert_eq!(correlation["noise_correlation"], name);
        // sigma over beta is the event's multiplier.
        let sigma = found["mechanism"]["gradient_multiplier"].as_f64().unwrap();
        let beta =
            correlation["sensitivity"].as_f64().unwrap() / (1.0 - correlation["rounding_share"].as_f64().unwrap());
        assert!((sigma / beta / found["noise_multiplier"].as_f64().unwrap() - 1.0).abs() < 1e-6);
        let again = json(&damper().args(["epsilon", out.to_str().unwrap(), "--json"]).output().unwrap());
        assert_eq!(again["epsilon"], found["epsilon"]);
        let statement = json(&report(&out, &["--json"]));
        assert_eq!((&statement["agrees"], &statement["guaranteed"]), (&json!(true), &json!(true)), "{statement}");
        assert_eq!(statement["epsilon_of_replaced"].is_null(), events > 1);
        assert_calm(&page(&out));
        assert!(page(&out).contains(name));
        edit(&out.join("events.json"), |file| {
            let sigma = file["events"][0]["noise_multiplier"].as_f64().unwrap();
            file["events"][0]["noise_multiplier"] = json!(1.001 * sigma);
        });
        let refused = damper().args(["epsilon", out.to_str().unwrap()]).output().unwrap();
        assert_refused(&refused, &["correlated noise", "the file is damaged"]);
    }
}

// A truncated batch uses a part of delta. A split into physical batches costs nothing.
#[test]
fn truncation_uses_delta_and_split_is_free() {
    let with = |flags: &[&str]| {
        let (_guard, out) = folder();
        let common = ["--noise-multiplier", "1", "--json", "--epochs", "1"];
        let report = json(&train(MLP, DIGITS, &out, &[&common[..], flags].concat()).output().unwrap());
        let events = json(&damper().args(["epsilon", out.to_str().unwrap(), "--json"]).output().unwrap());
        assert_eq!(events["epsilon"], report["epsilon"], "{flags:?}");
        assert!(super::run(&["report", out.to_str().unwrap()]).status.success(), "{flags:?}");
        report
    };
    let (plain, split, cut) = (with(&[]), with(&["--physical-batch", "3"]), with(&["--truncate", "110"]));
    assert_eq!(split["epsilon"], plain["epsilon"]);
    assert!(cut["epsilon"].as_f64() > plain["epsilon"].as_f64());
    assert_eq!(cut["privacy"]["truncation"], json!({"samples": 1437, "most": 110}));

    let (_guard, out) = folder();
    let refused = |flags: &[&str], words: &[&str]| super::refused(train(MLP, DIGITS, &out, flags), &out, words);
    refused(&["--truncate", "70"], &["--truncate 70", "raise it"]);
    refused(&["--truncate", "110", "--dataset-size", "1500"], &["--dataset-size"]);
    refused(&["--sampler", "shuffled", "--truncate", "110"], &["--truncate"]);
    refused(&["--sampler", "shuffled", "--dataset-size", "1500"], &["--dataset-size"]);
}

// `epsilon` solves for delta, and `calibrate` for any one quantity.
#[test]
fn solves_delta_or_any_quantity() {
    let run = RUN.path().join("run");
    let run = run.to_str().unwrap();
    let found = json(&damper().args(["epsilon", run, "--epsilon", "2", "--json"]).output().unwrap());
    assert!(found["epsilon"] == 2.0 && found["delta"].as_f64().unwrap() > 1e-5, "{found}");
    let replaced = json(&damper().args(["epsilon", run, "--neighbours", "replace", "--json"]).output().unwrap());
    assert!(replaced["epsilon"].as_f64().unwrap() > 3.0 && replaced["neighbours"] == "replace");
    let common = ["--sampling-rate", "0.0042667", "--steps", "3516", "--delta", "1e-5", "--json"];
    let ask = |args: &[&str]| json(&damper().args(args).args(common).output().unwrap());
    let free = ask(&["calibrate", "--noise-multiplier", "1.1"]);
    assert_eq!(free["epsilon"], ask(&["epsilon", "--noise-multiplier", "1.1"])["epsilon"]);
    for group in ["1", "3"] {
        let steps = ["epsilon", "--noise-multiplier", "1.1", "--sampling-rate", "0.01", "--steps", "100"];
        let found = json(&damper().args(steps).args(["--epsilon", "1", "--group", group, "--json"]).output().unwrap());
        let delta = found["delta"].as_f64().unwrap().to_string();
        let back = json(&damper().args(steps).args(["--delta", &delta, "--group", group, "--json"]).output().unwrap());
        let price = back["epsilon"].as_f64().unwrap();
        assert!(found["epsilon"] == 1.0 && (0.99..=1.0).contains(&price), "{found} {back}");
    }
    let reached = ask(&["calibrate", "--epsilon", "3"])["epsilon"].as_f64().unwrap();
    assert!((2.999..=3.0).contains(&reached), "{reached}");

    let drawn = ["calibrate", "--samples", "60000", "--noise-multiplier", "1.1", "--steps", "3516", "--delta", "1e-5"];
    let batch = json(&damper().args(drawn).args(["--epsilon", "3", "--json"]).output().unwrap());
    let found = batch["batch_size"].as_u64().unwrap().to_string();
    assert!((2.98..=3.0).contains(&batch["epsilon"].as_f64().unwrap()), "{batch}");
    let again = json(&damper().args(drawn).args(["--batch-size", &found, "--json"]).output().unwrap());
    assert_eq!(again["epsilon"], batch["epsilon"]);
}
