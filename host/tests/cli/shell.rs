//! Completions and manual pages.

use super::{assert_refused, damper, folder, run, stderr};
use std::fs;

const SUBCOMMANDS: [&str; 8] = ["train", "compare", "inspect", "epsilon", "calibrate", "budget", "report", "audit"];

// Completions list every subcommand and flag.
#[test]
fn lists_every_subcommand_and_flag() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert!(output.status.success(), "{}", stderr(&output));
        let script = String::from_utf8(output.stdout).unwrap();
        for word in SUBCOMMANDS.iter().chain(&["noise-multiplier", "resume"]) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let output = run(&["completions", "tcl"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn man_writes_a_page_of_each_subcommand() {
    let (guard, missing) = folder();
    let output = damper().arg("man").arg(guard.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for name in SUBCOMMANDS
        .iter()
        .map(|name| format!("damper-{name}.1"))
        .chain(["damper.1".into(), "damper-audit-canary.1".into()])
    {
        let page = fs::read_to_string(guard.path().join(&name)).unwrap();
        assert!(page.contains(".SH") && page.len() > 300, "{name}: {page}");
    }
    assert_refused(&damper().arg("man").arg(&missing).output().unwrap(), &["run", "make its folder first"]);
}
