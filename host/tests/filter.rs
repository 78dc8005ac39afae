//! Filters of released gradients: the published properties of the published filters, and `damper filter` through the
//! program.

use damper::design::{Analysis, Coefficients};
use damper_core::filter::SETS;
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_damper")).arg("filter").args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&text(&run(&[args, &["--json"]].concat()))).unwrap()
}

/// Checks for an error of one line that has all of `words`, and for the exit code.
#[track_caller]
fn refused(args: &[&str], code: i32, words: &[&str]) {
    let output = run(args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(output.stdout.is_empty());
    assert!(message.contains("Usage") || message.lines().count() == 1, "{message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

fn analysis(name: &str) -> Analysis {
    Coefficients::named(name).unwrap().analysis(Some(name.into()), String::new()).unwrap()
}

/// Checks equality to the written number of digits.
#[track_caller]
fn digits(what: &str, found: f64, written: &str) {
    let decimals = written.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let expected: f64 = written.parse().unwrap();
    let half = 0.5 * 10f64.powi(-i32::try_from(decimals).unwrap());
    assert!((found - expected).abs() <= 1.02 * half, "{what}: {found} {written}");
}

/// Name, Σκ², 1/Σκ², mean delay, |H(π)|, −3 dB, max |H|, min κ, max c_t, κ_0..κ_3.
type Row = (&'static str, [&'static str; 8], [&'static str; 4]);

const TABLE: &[Row] = &[
    ("sgd", ["1", "1", "0", "1", "", "1", "0", "1"], ["1", "0", "0", "0"]),
    ("momentum", [".05263", "19.0", "9", ".0526", ".034", "1", "0", "1"], [".1", ".09", ".081", ".0729"]),
    ("d1v1", [".09091", "11.0", "5", "0", ".063", "1", "0", "1"], [".0909", ".1653", ".1352", ".1106"]),
    ("d1v2", [".12727", "7.86", "4", ".200", ".066", "1", "0", "1"], [".2727", ".1322", ".1082", ".0885"]),
    ("d2", [".09828", "10.2", "5", "0", ".089", "1", "-.0047", "1.036"], [".0172", ".0618", ".1040", ".1245"]),
    ("f1", [".05066", "19.7", "9.25", ".026", ".033", "1", "0", "1"], [".075", ".0925", ".0832", ".0749"]),
    ("f2", [".05066", "19.7", "9.75", ".026", ".033", "1", "0", "1"], [".025", ".0975", ".0878", ".079"]),
    ("f3", [".1000", "10.0", "4.5", "0", ".070", "1", "0", "1"], [".1", ".18", ".144", ".1152"]),
    ("f4", [".2000", "5.0", "2", "0", ".156", "1", "0", "1"], [".2", ".32", ".192", ".1152"]),
    ("f5", [".04875", "20.5", "10", "0", ".033", "1", "0", "1"], [".025", ".0725", ".0903", ".0812"]),
    ("f6", [".16667", "6.0", "2.5", "0", ".105", "1.529", "-.0459", "1.310"], [".025", ".07", ".1048", ".1291"]),
    ("p0", ["1", "1", "0", "1", "", "1", "0", "1"], ["1", "0", "0", "0"]),
    ("p1", [".2500", "4.00", "1.5", ".25", ".166", "1", "0", "1"], [".4", ".24", ".144", ".0864"]),
    ("p2", [".2000", "5.00", "2.0", "0", ".156", "1", "0", "1"], [".2", ".32", ".192", ".1152"]),
    ("p3", [".3125", "3.20", "1.25", ".375", ".183", "1", "0", "1"], [".5", ".2", ".12", ".072"]),
    ("p4", [".05263", "19.0", "9.0", ".0526", ".034", "1", "0", "1"], [".1", ".09", ".081", ".0729"]),
    ("p5", [".0500", "20.0", "9.5", "0", ".033", "1", "0", "1"], [".05", ".095", ".0855", ".077"]),
    ("p6", [".06053", "16.5", "8.5", ".105", ".034", "1", "0", "1"], [".15", ".085", ".0765", ".0689"]),
    ("p7", [".04167", "24.0", "11.5", "0", ".027", "1", "0", "1"], [".05", ".085", ".0695", ".0656"]),
];

#[test]
fn the_properties_are_those_of_the_tables() {
    assert!(TABLE.iter().map(|(name, ..)| *name).eq(SETS.iter().map(|set| set.name)));
    for (name, [gain, reduction, delay, nyquist, cutoff, max_gain, min_kappa, max_c], kappa) in TABLE {
        let found = analysis(name);
        digits(name, found.noise_gain, gain);
        digits(name, found.noise_reduction, reduction);
        assert!((found.mean_delay - delay.parse::<f64>().unwrap()).abs() < 1e-5, "{name} {}", found.mean_delay);
        digits(name, found.nyquist_gain, nyquist);
        match found.cutoff_3db {
            Some(found) => digits(name, found, cutoff),
            None => assert_eq!(*cutoff, "", "{name}"),
        }
        digits(name, found.max_gain, max_gain);
        digits(name, found.min_impulse_response, min_kappa);
        assert!(*min_kappa != "0" || found.min_impulse_response >= 0.0, "{name}");
        digits(name, found.max_step_response, max_c);
        assert!(*max_c != "1" || found.max_step_response < 1.0 + 1e-9, "{name}");
        for (found, written) in found.impulse_response.iter().zip(kappa) {
            digits(name, *found, written);
        }
        assert!((found.dc_gain - 1.0).abs() < 5e-6, "{name}");
    }
}

// The variance of filtered noise has the known value at each step.
#[test]
fn noise_variance_has_known_values() {
    let of = |name: &str, step: usize| {
        analysis(name).noise_std.iter().find(|at| at.step == step).map(|at| at.std.powi(2)).unwrap()
    };
    for (step, variance) in [(0, "1"), (1, ".5014"), (2, ".3358"), (5, ".1720"), (10, ".1008"), (50, ".0531")] {
        digits("momentum", of("momentum", step), variance);
    }
    digits("f6", of("f6", 10), ".1011");
    digits("f6", of("f6", 50), ".1655");
}

#[test]
fn the_flags_give_the_same_filter_back() {
    for set in SETS {
        let flags = Coefficients::named(set.name).unwrap().flags();
        let list = |flag: &str| flags.split(' ').find_map(|part| part.strip_prefix(flag)).unwrap_or_default();
        let back = Coefficients::parse(list("--a="), list("--b=")).unwrap();
        assert_eq!(back.to_core(), Coefficients::named(set.name).unwrap().to_core(), "{flags}");
    }
}

// A name, its coefficients and their quotients give the same filter.
#[test]
fn name_and_coefficients_are_one_filter() {
    let named = json(&["d1v2"]);
    assert_eq!((named["name"].as_str(), named["order"].as_u64()), (Some("d1v2"), Some(1)));
    for args in [
        &["--a=-9/11", "--b=3/11,-1/11"][..],
        &["--a", "-0.8181818", "--b", "0.27272728, -0.09090909"],
        &["--b", "3/11,-1/11", "--a", "-9/11,0"],
    ] {
        let given = json(args);
        for key in ["noise_gain", "b", "poles", "impulse_response", "noise_std", "max_stable_lr_curvature"] {
            assert_eq!(named[key], given[key], "{args:?} {key}");
        }
    }
    // A filter without feedback, a filter that starts with a minus, and names in any case.
    assert_eq!(json(&["--b", "0.5,0.25,0.25"])["mean_delay"], 0.75);
    assert_eq!(json(&["IDENTITY"])["name"], "sgd");
}

#[test]
fn the_text_says_what_the_json_says() {
    let said = text(&run(&["d2"]));
    for part in [
        "--a=-1.5862069,0.6551724 --b=0.01724138,0.03448276,0.01724138",
        "modulus 0.8094",
        "stable",
        "0.09828",
        "5.000 steps",
        "0.08935",
        "0.3509",
        "-0.004717",
        "1.036",
    ] {
        assert!(said.contains(part), "`{part}` is not in:\n{said}");
    }
    assert!(said.lines().all(|line| line.trim_end() == line), "{said}");
}

#[test]
fn the_list_has_every_published_filter() {
    let listed = json(&["--list"]);
    let names: Vec<_> = listed["filters"].as_array().unwrap().iter().map(|filter| filter["name"].clone()).collect();
    assert_eq!(names, SETS.iter().map(|set| set.name).collect::<Vec<_>>());
    let said = text(&run(&["--list"]));
    assert_eq!(said.lines().take_while(|line| !line.is_empty()).count(), SETS.len() + 1, "{said}");
    assert!(said.contains("\nnoise gain  variance"), "{said}");
}

#[test]
fn a_design_has_its_cutoff_and_runs() {
    let found = json(&["--design", "butterworth", "--order", "2", "--cutoff", "0.1"]);
    assert!((found["cutoff_3db"].as_f64().unwrap() - 0.1).abs() < 1e-5);
    assert_eq!((found["stable"].as_bool(), found["order"].as_u64()), (Some(true), Some(2)));
    let found = json(&["--design", "chebyshev", "--order", "3", "--cutoff", "0.2", "--ripple", "1"]);
    assert!((found["max_gain"].as_f64().unwrap() - 1.0).abs() < 1e-3);
    assert!(text(&run(&["--help"])).contains("--cutoff"));
}

// The error for a filter that cannot run shows its poles.
#[test]
fn invalid_filter_error_shows_poles() {
    refused(&["--a=-1.1", "--b=0.1"], 2, &["--a=-1.1", "unit circle", "1.1000 (modulus 1.1000)"]);
    refused(&["--a=0.5,1.2", "--b=1"], 2, &["-0.2500 +/- 1.0665i (modulus 1.0954)", "unit circle"]);
    refused(&["--a=-1", "--b=1"], 2, &["modulus 1.0000", "move every pole"]);
    refused(&["--b=0.1,-0.3,0.4"], 2, &["step response", "above 0", "poles: none"]);
    refused(&["--a=-0.9", "--b=0,1"], 2, &["b_0"]);
    refused(&["--a=x", "--b=1"], 1, &["'x'", "-9/11"]);
    refused(&["--a=-0.9", "--b=1/0"], 1, &["'1/0'"]);
    refused(&["--a=1e300", "--b=1"], 1, &["'1e300'"]);
    refused(&["--b", &["0.1"; 20].join(",")], 2, &["order 19", "16"]);
    refused(&["momentun"], 1, &["momentun", "--list"]);
    refused(&["--design", "butterworth", "--order", "2", "--cutoff", "2"], 2, &["--cutoff 2"]);
    refused(&["--design", "butterworth", "--order", "2", "--cutoff", "0.1", "--ripple", "1"], 2, &["--ripple"]);
    refused(&["--design", "butterworth", "--order", "8", "--cutoff", "0.01"], 1, &["f32", "--order", "--cutoff"]);
    for wrong in [&[][..], &["--a=-0.9"], &["momentum", "--list"], &["--design", "butterworth"], &["--order", "2"]] {
        refused(wrong, 2, &["Usage"]);
    }
}
