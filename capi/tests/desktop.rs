//! The library from C on this machine. Every method ends with Rust's digest, misuse returns an error, and the README's
//! program runs. C is compiled with AddressSanitizer and UndefinedBehaviorSanitizer.

use damper_core::accounting::renyi::RenyiCurve;
use damper_core::accounting::{Rate, RenyiFilter, SampledGaussian};
use damper_firmware_program::methods::{METHODS, MethodCase, NAMES};
use std::fs;
use std::process::Command;

#[path = "tools/c.rs"]
mod c;

/// Compiles C sources with sanitizers, links them with the library, runs them and returns their output.
fn run_c(name: &str, sources: &[&str]) -> Option<String> {
    let image = c::image(name, sources, c::library(), &c::SANITIZERS)?;
    let symbols = c::run(Command::new("nm").arg("--demangle").arg(&image));
    assert!(!symbols.contains("core::panicking") && symbols.contains("damper_step_open"), "a panic in {name}");
    Some(c::run(&mut Command::new(&image)))
}

// Every method ends in C with the parameter digest of Rust.
#[test]
fn c_digests_match_rust() {
    let Some(said) = run_c("methods", &["tests/c/methods.c", "../firmware-examples/c/digits.S"]) else { return };
    let digests: Vec<(&str, &str)> = said.lines().filter_map(|line| line.rsplit_once(' ')).collect();
    for (&MethodCase { digest, .. }, name) in METHODS.iter().zip(NAMES) {
        let of_c = digests.iter().find(|(of, _)| *of == name).map(|(_, digest)| *digest);
        assert_eq!(of_c, Some(format!("{digest:016x}").as_str()), "{name}");
    }
    // The methods, and a filter chosen by name.
    assert_eq!(digests.len(), METHODS.len() + 1);
}

// Every function of the header appears in a test of misuse or of training.
#[test]
fn c_tests_cover_every_function() {
    let read = |path: &str| fs::read_to_string(c::folder().join(path)).expect("a source");
    let header = read("include/damper.h");
    let tests = [
        "tests/c/misuse.c",
        "tests/c/key.c",
        "tests/c/charges.c",
        "tests/c/resume.c",
        "tests/c/journal.c",
        "tests/c/methods.c",
        "tests/c/check.h",
        "tests/c/header.c",
        "tests/c/arithmetic.c",
        "../firmware-examples/c/methods.h",
    ]
    .map(read)
    .concat();
    let names: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with(' ') && line.contains('('))
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("damper_"))
        .collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(tests.contains(&format!("{name}(")), "{name} is in no test");
    }
}

#[test]
fn the_self_test_finds_other_modes() {
    let Some(said) = run_c("arithmetic", &["tests/c/arithmetic.c"]) else { return };
    if said != "modes found\n" {
        damper_testing::skip("x86", "other modes of arithmetic: the test sets those of x86 alone");
    }
}

#[test]
fn misuse_is_answered_and_changes_nothing() {
    let Some(said) = run_c("misuse", &["tests/c/misuse.c"]) else { return };
    assert_eq!(said, "");
}

#[test]
fn dead_generators_give_no_key() {
    let Some(said) = run_c("key", &["tests/c/key.c"]) else { return };
    assert_eq!(said, "");
}

#[test]
fn charges_and_costs_are_the_cores() {
    let Some(said) = run_c("charges", &["tests/c/charges.c"]) else { return };
    let event = SampledGaussian::new(Rate::of(1, 100).unwrap(), 1.0).unwrap();
    let mut curve = RenyiCurve::EMPTY;
    curve.add(&event, 1000);
    let epsilon: f64 = said.trim().strip_prefix("epsilon ").and_then(|text| text.parse().ok()).unwrap();
    assert_eq!(epsilon.to_bits(), curve.epsilon(1e-5).unwrap().epsilon.to_bits());
}

/// The steps that the filter admits are those that the core admits: the cheapest of the tried steps.
#[test]
fn shards_and_states_keep_bits() {
    let Some(said) = run_c("resume", &["tests/c/resume.c"]) else { return };
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0] == lines[1], "{said}");
    let (steps, spent) = lines[0].strip_prefix("filter ").and_then(|line| line.split_once(" steps, spent ")).unwrap();
    let filter = RenyiFilter::resume(8, 3.0, 1e-5, steps.parse().unwrap(), spent.parse().unwrap()).unwrap();
    let event = |multiplier| SampledGaussian::new(Rate::of(1, 50).unwrap(), multiplier).unwrap();
    assert!(filter.spent() <= filter.budget() && !filter.fits_budget(&event(1.0)));
}

#[test]
fn a_journal_survives_power_cuts() {
    let Some(said) = run_c("journal", &["tests/c/journal.c"]) else { return };
    assert_eq!(said, "no charge forgotten\n");
}

#[test]
fn the_program_of_the_page_runs() {
    let Some(said) = run_c("page", &[&c::page()]) else { return };
    let page = fs::read_to_string(c::folder().join("README.md")).expect("the page");
    let expected = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("what it says");
    assert_eq!(said, expected);
}
