//! Progress without a terminal: its ε is that of `damper epsilon`, line by line.

use super::{DIGITS, MLP, damper, folder, json, stderr, train};
use damper::accounting::upward;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// Returns steps and ε of the lines of a run.
fn lines(log: &str) -> (Vec<(u64, String)>, u64) {
    let mut steps = 0;
    let line = |line: &str| {
        let (step, rest) = line.strip_prefix("step ")?.split_once('/')?;
        let (all, rest) = rest.split_once(' ')?;
        steps = all.parse().unwrap();
        let epsilon = rest.split("epsilon ").nth(1)?.split(' ').next()?;
        Some((step.parse().unwrap(), epsilon.to_owned()))
    };
    (log.lines().filter_map(line).collect(), steps)
}

/// Sets the charged steps of the ledger in `out` to `paid`.
fn set_paid(out: &Path, paid: u64) {
    let path = out.join("checkpoint/ledger.json");
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file["ledger"]["paid"] = json!(paid);
    let digest = Sha256::digest(file["ledger"].to_string());
    file["sha256"] = json!(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    fs::write(path, file.to_string()).unwrap();
}

// The epsilon of each progress line is that of its steps.
#[test]
fn progress_epsilon_matches_steps() {
    let cases: [&[&str]; 8] = [
        &["--epochs", "3"],
        &["--epochs", "1", "--accountant", "rdp"],
        &["--epochs", "1", "--method", "adp"],
        &["--epochs", "1", "--method", "dc-sgd-p"],
        &["--epochs", "1", "--clip-rule", "quantile"],
        &["--epochs", "1", "--truncate", "200"],
        &["--epochs", "2.5", "--sampler", "shuffled"],
        &["--epochs", "2", "--test-metrics", "private", "--eval-every", "0.4"],
    ];
    for extra in cases {
        let (_guard, out) = folder();
        let mut command = damper();
        let quiet = train(MLP, DIGITS, &out, extra);
        command.args(quiet.get_args().filter(|arg| *arg != "--quiet"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{extra:?}: {}", stderr(&output));
        let (told, steps) = lines(&stderr(&output));
        assert_eq!(told.last().map(|(step, _)| *step), Some(steps), "{extra:?}");
        for twentieth in 1..=20 {
            let (from, to) = (steps * (twentieth - 1) / 20, steps * twentieth / 20);
            assert!(
                from == to || told.iter().any(|(step, _)| (from + 1..=to + 1).contains(step)),
                "{extra:?}: {told:?}"
            );
        }
        for name in ["report.json", "events.json"] {
            fs::remove_file(out.join(name)).unwrap();
        }
        for (step, epsilon) in &told {
            set_paid(&out, *step);
            let found = json(&damper().arg("epsilon").arg(&out).arg("--json").output().unwrap());
            let expected = upward(found["epsilon"].as_f64().unwrap()).to_string();
            assert_eq!(*epsilon, expected, "{extra:?} step {step}");
        }
    }
}
