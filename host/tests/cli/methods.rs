//! Every method through the command: its report, its reduction to DP-SGD, and its errors.

use super::{DIGITS, MLP, folder, json, refused, run, train};
use serde_json::Value;

/// Returns the report of a seeded run of about `steps` steps with these flags.
fn report(extra: &[&str]) -> Value {
    let (_folder, out) = folder();
    json(&train(MLP, DIGITS, &out, &[extra, &["--seed", "7", "--json"]].concat()).output().unwrap())
}

/// All values of `--method`, with an optimizer if one is needed.
const METHODS: [&[&str]; 9] = [
    &["--method", "dp-sgd"],
    &["--method", "doppler"],
    &["--method", "dp-pmlf"],
    &["--method", "disk"],
    &["--method", "dc-sgd-p"],
    &["--method", "dc-sgd-e"],
    &["--method", "adp"],
    &["--method", "quantile"],
    &["--method", "inner-outer", "--optimizer", "momentum"],
];

#[test]
fn every_method_trains_and_says_what_it_did() {
    for flags in METHODS {
        let report = report(flags);
        assert_eq!(report["method"]["name"], flags[1]);
        assert_eq!(report["training"]["method"], flags[1]);
        assert_eq!(report["steps"], 5, "{flags:?}");
        assert!(report["method"]["sensitivity"].as_str().unwrap().contains("at most the clip"), "{flags:?}");
        let gradients = if ["dp-pmlf", "inner-outer"].contains(&flags[1]) { 2 } else { 1 };
        assert_eq!(report["method"]["gradients_per_sample"], gradients, "{flags:?}");
        let learned = ["dc-sgd-p", "dc-sgd-e", "quantile"].contains(&flags[1]);
        assert_eq!(report["method"]["clip_first"] != report["method"]["clip_last"], learned, "{flags:?}");
        assert_eq!(report["mechanism"]["count_noise_multiplier"].is_null(), !learned, "{flags:?}");
    }
}

/// The same seed gives the same bits. A method with an effect must give other bits.
#[test]
fn trivial_methods_are_dp_sgd_bit_for_bit() {
    for optimizer in ["momentum", "adamw"] {
        let digest = |extra: &[&str]| {
            report(&[extra, &["--optimizer", optimizer]].concat())["params_digest"].as_str().unwrap().to_owned()
        };
        let plain = digest(&[]);
        for same in [
            &["--method", "doppler", "--filter", "none", "--betas", "0.9,0.999"][..],
            &["--method", "doppler", "--filter", ";1", "--betas", "0.9,0.999"],
            &["--method", "dp-pmlf", "--iterates", "1", "--filter", "none"],
            &["--method", "disk", "--kappa", "1"],
            &["--method", "disk", "--kappa", "1", "--gamma", "0.5"],
            &["--method", "adp", "--lr-schedule", "constant"],
            // 64-bit sums, as every noise schedule has. The others here have 32-bit sums.
            &["--method", "adp", "--lr-schedule", "constant", "--noise-schedule", "polynomial:3,0"],
        ] {
            let same: Vec<&str> = match same.iter().position(|flag| *flag == "--betas") {
                Some(at) if optimizer == "momentum" => same[..at].to_vec(),
                _ => same.to_vec(),
            };
            assert_eq!(digest(&same), plain, "{same:?}");
        }
        for other in [
            &["--method", "doppler"][..],
            &["--method", "dp-pmlf", "--filter", "none"],
            &["--method", "disk"],
            &["--method", "disk", "--gamma", "0.5"],
            &["--noise-schedule", "polynomial:3,0.5"],
            &["--clipping", "automatic"],
            &["--clipping", "per-layer"],
        ] {
            assert_ne!(digest(other), plain, "{other:?}");
        }
    }
}

// The bits of a run do not depend on the number of workers.
#[test]
fn bits_do_not_depend_on_workers() {
    for flags in [
        &["--method", "dp-pmlf", "--iterates", "3"][..],
        &["--method", "disk", "--gamma", "0.5"],
        &["--method", "dc-sgd-e"],
        &["--method", "quantile"],
        &["--clipping", "per-layer"],
    ] {
        let digest = |workers| report(&[flags, &["--workers", workers]].concat())["params_digest"].clone();
        assert_eq!(digest("1"), digest("3"), "{flags:?}");
    }
}

/// Options of the papers in addition to their methods' defaults, each with a word of the report.
#[test]
fn options_of_papers_train_and_are_reported() {
    let cases: [(&[&str], &str, &str); 11] = [
        (&["--method", "doppler", "--adaptive-fir", "3,0.8"], "/method/filter", "3 past gradients"),
        (&["--method", "doppler", "--no-bias-correction"], "/method/filter", "without bias correction"),
        (&["--method", "dp-pmlf", "--no-bias-correction"], "/method/filter", "without bias correction"),
        (&["--method", "dc-sgd-p", "--count-non-finite"], "/method/threshold", "not finite counted in the last bin"),
        (&["--method", "dc-sgd-e", "--count-non-finite"], "/method/threshold", "not finite counted in the last bin"),
        (&["--method", "adp", "--noise-schedule", "clt"], "/method/noise_schedule", "e^(-1/z^2)"),
        (
            &["--optimizer", "adam", "--adam-denominator", "floored", "--adam-epsilon", "0.1"],
            "/training/optimizer/second_moment",
            "epsilon where that is larger",
        ),
        (&["--adagrad-norm", "20,1e-5", "--norm-weight", "512,22"], "/training/adagrad_norm/weight", "512"),
        (&["--average", "0.5,lr"], "/privacy/released_model", "weighted by the learning rate"),
        (&["--average", "ema:0.9"], "/privacy/released_model", "exponential moving average with decay 0.9 of released"),
        (&["--average", "poly:8"], "/privacy/released_model", "weighted by the power 8 of the step"),
    ];
    for (flags, place, words) in cases {
        let report = report(flags);
        let found = report.pointer(place).unwrap_or(&Value::Null).to_string();
        assert!(found.contains(words), "{flags:?}: {found}");
        assert_eq!(report["steps"], 5);
    }
    let usual = report(&["--optimizer", "adam", "--adam-denominator", "added"]);
    assert_eq!(usual["params_digest"], report(&["--optimizer", "adam"])["params_digest"]);
}

#[test]
fn equation_6_is_a_budget_of_its_own() {
    let (_folder, out) = folder();
    let mut command = super::damper();
    command.args([
        "train",
        MLP,
        "--data",
        DIGITS,
        "--batch-size",
        "64",
        "--lr",
        "0.5",
        "--backend",
        "tract",
        "--quiet",
    ]);
    command.args(["--epochs", "0.2", "--workers", "1", "--delta", "1e-5", "--equation-6", "0.8", "--json", "--out"]);
    let report = json(&command.arg(&out).output().unwrap());
    let of = |key: &str| report[key].as_f64().unwrap();
    let (q, steps) = (of("sampling_rate"), of("steps"));
    let expected = q / 0.8 * ((16.0 * steps * q / 1e-5).ln() * (1.25f64 / 1e-5).ln() * steps).sqrt();
    assert!((of("noise_multiplier") / expected - 1.0).abs() < 1e-5, "{} {expected}", of("noise_multiplier"));
    assert!(report["warnings"].to_string().contains("--equation-6 0.8"), "{}", report["warnings"]);
    assert!((priced(&report) / of("epsilon") - 1.0).abs() < 1e-9);
}

/// Returns ε of the reported multiplier, rate and steps, by `damper epsilon`.
fn priced(report: &Value) -> f64 {
    let [multiplier, rate, steps] = ["noise_multiplier", "sampling_rate", "steps"].map(|key| report[key].to_string());
    let flags = ["--noise-multiplier", &multiplier, "--sampling-rate", &rate, "--steps", &steps, "--delta", "1e-5"];
    json(&run(&[&["epsilon", "--json"][..], &flags].concat()))["epsilon"].as_f64().unwrap()
}

/// Gradient and counts are one event. The reported multiplier is of both, and `damper epsilon` computes the same ε from
/// it.
#[test]
fn counts_and_gradient_cost_one_event() {
    for method in ["dc-sgd-p", "dc-sgd-e", "quantile"] {
        let report = report(&["--method", method, "--epsilon", "3", "--delta", "1e-5"]);
        let of = |value: &Value| value.as_f64().unwrap();
        let mechanism = &report["mechanism"];
        let (gradient, counts) = (of(&mechanism["gradient_multiplier"]), of(&mechanism["count_noise_multiplier"]));
        let joint = of(&report["noise_multiplier"]);
        assert!((gradient.powi(-2) + counts.powi(-2) - joint.powi(-2)).abs() < 1e-12, "{method}");
        assert!((2.97..=3.0).contains(&of(&report["epsilon"])), "{method}");
        assert!((priced(&report) / of(&report["epsilon"]) - 1.0).abs() < 1e-9, "{method}");
    }
}

/// The whole schedule is calibrated to the budget, and costs less than its least noise at every step would.
#[test]
fn a_noise_schedule_is_priced_as_a_whole() {
    let report = report(&["--method", "adp", "--epsilon", "3", "--delta", "1e-5", "--epochs", "3"]);
    let of = |value: &Value| value.as_f64().unwrap();
    assert!((2.97..=3.0).contains(&of(&report["epsilon"])));
    assert!(priced(&report) > of(&report["epsilon"]) * 1.05);
}

// The report names every setting that differs from the default.
#[test]
fn report_names_every_changed_setting() {
    let text = |report: &Value, key: &str| report["method"][key].as_str().unwrap().to_owned();
    let automatic = report(&["--clipping", "automatic", "--auto-clip-gamma", "0.25"]);
    assert!(text(&automatic, "clipping").ends_with("gamma = 0.25"));
    let bounded = report(&["--method", "quantile", "--clip-bounds", "0.5,2"]);
    assert!(text(&bounded, "threshold").ends_with("kept within 0.5 to 2"));
    let noise = bounded["mechanism"]["count_noise_multiplier"].as_f64().unwrap();
    assert!((noise - 6.4).abs() < 1e-3, "{noise}");
    let both = report(&["--method", "adp", "--clip-rule", "percentile"]);
    assert!(text(&both, "sensitivity").contains("(alpha_t * 1.000000)^2 + 1/5.000000^2, alpha_t the noise schedule"));
    assert!(text(&both, "noise_schedule").contains("noise_multiplier is the least"));
    let mixed = report(&["--method", "dp-pmlf", "--filter", "none"]);
    assert!(text(&mixed, "filter").ends_with("mixed before the clip"));
    assert_eq!(report(&["--optimizer", "adamw"])["training"]["optimizer"]["name"], "adamw");
    assert_eq!(report(&["--optimizer", "adam"])["training"]["optimizer"]["name"], "adam");
    let ahead = |gamma| report(&["--method", "disk", "--kappa", "0.5", "--gamma", gamma])["method"].clone();
    assert_eq!((&ahead("1")["gradients_per_sample"], &ahead("0.5")["gradients_per_sample"]), (&1.into(), &2.into()));
}

#[test]
fn the_answer_says_what_the_method_did() {
    let answer = |extra: &[&str]| {
        let (_folder, out) = folder();
        let output = train(MLP, DIGITS, &out, &[extra, &["--seed", "7"]].concat()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!answer(&[]).contains("method "));
    for (extra, words) in [
        (&["--method", "adp"][..], ["method    adp: noise times", "clip 1 in the first step"]),
        (&["--clipping", "per-layer"], ["method    dp-sgd: clipping per layer", "sigma "]),
        (&["--method", "dc-sgd-e"], ["method    dc-sgd-e: clip least expected error", "clip      1 at first"]),
        (&["--method", "doppler"], ["method    doppler: filter IIR", "bias-corrected"]),
    ] {
        let text = answer(extra);
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

// A warm-up takes at least one step. If it is longer than the run, it gives a warning.
#[test]
fn warmup_is_one_step_or_more() {
    let digest = |warmup| report(&["--warmup", warmup])["params_digest"].clone();
    assert_eq!(digest("0.001"), digest("0"));
    let long = report(&["--warmup", "3"]);
    assert!(long["warnings"].to_string().contains("--warmup 3: longer than the run"));
}

// The error for an invalid run file names file and key in one line.
#[test]
fn run_file_error_names_file_and_key() {
    let (folder, out) = folder();
    for (line, words) in [
        ("lr = \"fast\"", ["`lr = \"fast\"`", "give a number"]),
        ("lr-schedule = \"bogus\"", ["`lr-schedule = \"bogus\"`", "cosine"]),
        ("batch_size = 3", ["unknown key `batch_size`", "batch-size"]),
        ("method = \"dpsgd\"", ["`method = \"dpsgd\"`", "use one of dp-sgd, "]),
        ("optimizer = \"lamb\"", ["`optimizer = \"lamb\"`", "use one of sgd, "]),
        ("sampler = \"uniform\"", ["`sampler = \"uniform\"`", "use one of poisson, shuffled"]),
        ("batch-size = 1.5", ["`batch-size = 1.5`", "give a whole number"]),
        ("batch-size = -1", ["`batch-size = -1`", "in its range"]),
        ("clip = 1e39", ["`clip = 1000", "beyond the largest 32-bit number"]),
        ("clip = \"0.1\"", ["`clip = \"0.1\"`", "give a number"]),
        ("raw-bytes = 1", ["`raw-bytes = 1`", "give true or false"]),
        ("kappa = \"x\"", ["`kappa = \"x\"`", "give a number"]),
        ("betas = [0.9]", ["`betas = [0.9]`", "give two"]),
        ("model = 3", ["`model = 3`", "give a text"]),
        ("resume = \"x\"", ["unknown key `resume`", "train --help-all"]),
    ] {
        let file = folder.path().join("run.toml");
        std::fs::write(&file, line).unwrap();
        let mut command = super::damper();
        command.arg("train").arg(&file).arg("--out").arg(&out);
        refused(command, &out, &[&["run.toml: "], &words[..]].concat());
    }
}

#[test]
fn methods_compose() {
    for flags in [
        &["--method", "disk", "--optimizer", "adamw", "--clip-rule", "expected-error"][..],
        &["--method", "doppler", "--filter", "p6", "--noise-schedule", "matched:0.25", "--lr-schedule", "cosine:0.1"],
        &["--method", "dp-pmlf", "--filter", "-0.6;0.5,-0.1", "--optimizer", "adam-bc", "--clip-rule", "quantile"],
        &["--method", "adp", "--optimizer", "nesterov", "--clipping", "automatic", "--warmup", "0.1"],
        &["--method", "dc-sgd-e", "--solver", "exact", "--optimizer", "rmsprop", "--noise", "continuous"],
        &["--adagrad-norm", "1,1e-5", "--subtract-noise", "--optimizer", "adagrad", "--lr-schedule", "step:0.1,0.5"],
        &["--method", "disk", "--gain-recursion", "1,0.1,0.05", "--optimizer", "momentum"],
    ] {
        assert_eq!(report(flags)["steps"], 5, "{flags:?}");
    }
}

// A flag that breaks a proof or has no effect is an error with its reason.
#[test]
fn unproven_or_idle_flag_is_error() {
    let (_folder, out) = folder();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--kappa", "0.5"], &["--kappa", "dp-sgd", "--method disk"]),
        (&["--method", "doppler", "--beta", "0.5"], &["--beta", "--method dp-pmlf"]),
        (&["--method", "disk", "--filter", "momentum"], &["--filter", "--method disk", "look-ahead"]),
        (&["--method", "disk", "--kappa", "0"], &["--kappa", "0.001"]),
        (&["--method", "disk", "--gamma", "0"], &["--gamma", "0.01"]),
        (&["--method", "disk", "--gamma", "inf"], &["--gamma", "finite"]),
        (&["--method", "disk", "--gain-recursion", "-1,0,0"], &["--gain-recursion", "not negative"]),
        (&["--method", "dp-pmlf", "--iterates", "17"], &["--iterates", "from 1 to 16"]),
        (&["--method", "doppler", "--filter", "-1.1;0.1"], &["--filter -1.1;0.1", "stable"]),
        (&["--method", "doppler", "--filter", "no-such"], &["--filter no-such"]),
        (&["--filter", "-0.9,0.1"], &["--filter -0.9,0.1", "A1,A2;B0,B1"]),
        (&["--method", "dc-sgd-e", "--clip-rule", "fixed"], &["--clip-rule fixed", "dc-sgd-e", "--method dp-sgd"]),
        (
            &["--method", "dc-sgd-p", "--clip", "5", "--clip-bounds", "0.1,1"],
            &["--clip 5", "--clip-bounds 0.1,1", "within"],
        ),
        (&["--method", "quantile", "--clip", "1e-9"], &["--clip 1e-9", "--clip-bounds 1e-8,1e8"]),
        (&["--method", "quantile", "--clip-bounds", "-1,1"], &["--clip-bounds", "2^-104"]),
        (&["--method", "dc-sgd-e", "--histogram-range", "1e9"], &["--histogram-range 1e9", "1e-8 to 1e8"]),
        (&["--method", "dc-sgd-p", "--histogram-range", "-1"], &["--histogram-range: half the histogram range"]),
        (&["--method", "quantile", "--count-noise-multiplier", "0.2"], &["--count-noise-multiplier", "0.25"]),
        (&["--method", "dc-sgd-p", "--clipping", "automatic"], &["--clipping automatic", "--clip-rule percentile"]),
        (&["--method", "quantile", "--clipping", "per-layer"], &["--clipping per-layer", "whole gradient"]),
        (&["--percentile", "0.5"], &["--percentile", "--clip-rule fixed"]),
        (&["--auto-clip-gamma", "0.1"], &["--auto-clip-gamma", "--clipping automatic"]),
        (
            &["--method", "adp", "--adagrad-norm", "1,1e-5"],
            &["--noise-schedule matched", "--adagrad-norm", "released gradients"],
        ),
        (&["--method", "inner-outer"], &["inner-outer", "--optimizer momentum"]),
        (&["--method", "inner-outer", "--optimizer", "adam"], &["inner-outer", "use --optimizer momentum"]),
        (
            &["--method", "dc-sgd-p", "--epsilon", "0.5", "--delta", "1e-5", "--count-noise-multiplier", "0.5"],
            &["--count-noise-multiplier"],
        ),
        (&["--method", "dc-sgd-p", "--count-noise-multiplier", "0.1"], &["--count-noise-multiplier", "0.25"]),
        (&["--noise-schedule", "polynomial:-1,0.5"], &["--noise-schedule"]),
        (&["--lr-schedule", "step:1,2"], &["--lr-schedule step:1,2: FACTOR"]),
        (&["--lr-schedule", "step:0,0.5"], &["--lr-schedule step:0,0.5: EPOCHS"]),
        (&["--lr-schedule", "cosine:2"], &["--lr-schedule cosine:2: FLOOR"]),
        (&["--lr-schedule", "root-linear:-1"], &["--lr-schedule root-linear:-1: FLOOR"]),
        (&["--lr-schedule", "polynomial:0,1"], &["--lr-schedule polynomial:0,1: A "]),
        (&["--lr-schedule", "polynomial:1,-1"], &["--lr-schedule polynomial:1,-1: C "]),
        (&["--epochs", "1e15"], &["--epochs", "give fewer"]),
        (&["--optimizer", "adam", "--betas", "-0.5,0.9"], &["--betas", "from 0 to below 1"]),
        (&["--adagrad-norm", "-1,1"], &["--adagrad-norm", "not negative"]),
        (&["--warmup", "-1"], &["--warmup"]),
        (&["--adaptive-fir", "2"], &["--adaptive-fir", "--method doppler"]),
        (&["--method", "doppler", "--adaptive-fir", "2,0.5,0"], &["--adaptive-fir", "floor"]),
        (&["--no-bias-correction"], &["--no-bias-correction", "--method doppler"]),
        (&["--method", "doppler", "--filter", "none", "--no-bias-correction"], &["--no-bias-correction"]),
        (&["--method", "disk", "--no-bias-correction"], &["--no-bias-correction"]),
        (&["--method", "quantile", "--count-non-finite"], &["--count-non-finite", "--clip-rule percentile"]),
        (&["--adam-denominator", "floored"], &["--adam-denominator", "--optimizer adam"]),
        (&["--optimizer", "adam-bc", "--adam-denominator", "floored"], &["--adam-denominator", "adam-bc"]),
        (&["--adagrad-norm", "1,1e-5", "--norm-weight", "0.5,4"], &["--norm-weight", "at least 1"]),
        (&["--noise-schedule", "clt", "--adagrad-norm", "1,1e-5"], &["--noise-schedule clt", "--adagrad-norm"]),
        (&["--optimizer", "adam", "--alpha", "0.9"], &["--alpha", "--optimizer rmsprop"]),
    ];
    for (extra, words) in cases {
        refused(train(MLP, DIGITS, &out, extra), &out, words);
    }
}

// The error for an unknown method lists the known methods.
#[test]
fn unknown_method_error_lists_known() {
    let (_folder, out) = folder();
    let output = train(MLP, DIGITS, &out, &["--method", "no-such-method"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(super::stderr(&output).contains("dc-sgd-e") && !out.exists());
}
