//! No command releases anything without noise.

use super::{DIGITS, MLP, assert_refused, damper, folder, refused, run, stderr, train};
use std::fs;

/// Multipliers without noise, and values that are not valid noise.
const NONE: [&str; 7] = ["0", "-0.0", "-1", "nan", "inf", "1e-320", "1e-40"];
/// Budgets that bound nothing, or that no noise meets.
const UNBOUNDED: [&str; 5] = ["inf", "1e999", "nan", "0", "-1"];

#[test]
fn train_refuses_to_run_without_noise() {
    let (_folder, out) = folder();
    for kind in ["discrete", "continuous"] {
        for value in NONE {
            let extra = ["--noise", kind, "--noise-multiplier", value];
            // The error names the flag, or the grid on which the noise is below one unit.
            refused(train(MLP, DIGITS, &out, &extra), &out, &["--"]);
        }
        for value in UNBOUNDED {
            let extra = ["--noise", kind, "--delta", "1e-5", "--epsilon", value];
            refused(train(MLP, DIGITS, &out, &extra), &out, &["--epsilon"]);
        }
    }
    for method in ["dc-sgd-p", "dc-sgd-e", "quantile"] {
        for value in NONE {
            let extra = ["--method", method, "--count-noise-multiplier", value];
            refused(train(MLP, DIGITS, &out, &extra), &out, &["--count-noise-multiplier"]);
        }
    }
    for schedule in ["polynomial:inf,0.5", "polynomial:nan,0.5", "polynomial:1,-1", "matched:-1", "matched:nan"] {
        let output = train(MLP, DIGITS, &out, &["--noise-schedule", schedule]).output().unwrap();
        assert!(!output.status.success() && stderr(&output).contains("--noise-schedule"), "{}", stderr(&output));
        assert!(!out.exists());
    }
}

#[test]
fn compare_refuses_to_run_without_noise() {
    let (folder, out) = folder();
    let file = folder.path().join("compare.toml");
    let budgets = |name: &str, values: &[&str]| -> Vec<String> {
        values.iter().map(|value| format!("{name} = [{value}]\n")).collect()
    };
    let multipliers = budgets("noise-multiplier", &["0.0", "-0.0", "-1.0", "nan", "inf", "1e-320", "1e-40"]);
    let epsilons = budgets("epsilon", &["inf", "nan", "0.0", "-1.0"]);
    for budget in multipliers.into_iter().chain(epsilons) {
        let text = format!(
            "{budget}seeds = [1]\nmodel = \"{MLP}\"\ndata = \"{DIGITS}\"\ndelta = 1e-5\nbatch-size = 64\nepochs = 0.2\n\
             backend = \"tract\"\nworkers = 1\n[method.dp-sgd]\nlr = 0.5\n"
        );
        fs::write(&file, text).unwrap();
        let output = damper().arg("compare").arg(&file).arg("--out").arg(&out).arg("--quiet").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{budget}{}", stderr(&output));
        assert!(output.stdout.is_empty() && !out.exists(), "{budget}");
    }
}

#[test]
fn calibrate_and_epsilon_reject_zero_noise() {
    let of_run = ["--sampling-rate", "0.01", "--delta", "1e-5"];
    for value in UNBOUNDED {
        assert_refused(
            &run(&[&["calibrate", "--steps", "100", "--epsilon", value][..], &of_run].concat()),
            &["--epsilon"],
        );
    }
    for value in ["0", "-0.0", "-1", "nan", "inf", "1e-320"] {
        let flags = ["--noise-multiplier", value];
        let words = ["--noise-multiplier"];
        assert_refused(&run(&[&["epsilon", "--steps", "100"][..], &flags, &of_run].concat()), &words);
        assert_refused(&run(&[&["calibrate", "--epsilon", "3"][..], &flags, &of_run].concat()), &words);
    }
}
