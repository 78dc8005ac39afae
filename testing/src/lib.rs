//! Helpers for the tests of damper's crates. No release depends on them.

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Output};

/// Environment variable with the needs that must not be skipped, separated by commas: `DAMPER_REQUIRE=ort,qemu`.
pub const REQUIRE: &str = "DAMPER_REQUIRE";

/// Distributions of a private search's number of candidates, whose privacy cost and random draws are tested.
pub const COUNTS: [&str; 8] = [
    "geometric:0.1",
    "geometric:0.5",
    "logarithmic:0.05",
    "negative-binomial:-0.5,0.02",
    "negative-binomial:0.5,0.2",
    "poisson:1",
    "poisson:2.5",
    "poisson:10",
];

/// Prints that a test, or a part of one, does not run because `need` is missing.
///
/// # Panics
///
/// `DAMPER_REQUIRE` names `need`.
pub fn skip(need: &str, why: impl Display) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(!is_named(need, &required), "{REQUIRE} has {need}, but: {why}");
    println!("skipped: {why}");
}

/// Returns true if this user may mount a small disk at `folder`, in its own namespace.
#[must_use]
pub fn may_mount(folder: &Path) -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["-Urm", "mount", "-t", "tmpfs", "tmpfs"]).arg(folder);
    probe.output().is_ok_and(|output| output.status.success())
}

/// Returns the name of a test function for `--exact`: its path without the crate.
///
/// # Panics
///
/// `test` is not a function of a module.
#[must_use]
pub fn test_name<T>(test: T) -> &'static str {
    let path = std::any::type_name_of_val(&test);
    path.split_once("::").unwrap_or_else(|| panic!("{path} is no path of a function")).1
}

/// Asserts that a test program ran exactly one test, and that it passed. A name that matches no test is also a success
/// for the program.
///
/// # Panics
///
/// The program failed, or ran another number of tests.
pub fn assert_one_passed(output: &Output) {
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn is_named(need: &str, required: &str) -> bool {
    required.split(',').any(|name| name.trim() == need)
}

/// Random numbers from a seed, by SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random integer below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// A random number in [0, 1).
    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// A random number in [0, 1).
    pub fn unit_f64(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A random number in [-1, 1).
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_needs_are_required() {
        assert!(is_named("ort", "ort") && is_named("qemu", "ort, qemu"));
        assert!(!is_named("ort", "") && !is_named("ort", "ort-cuda,qemu"));
    }

    #[test]
    fn test_name_is_path_without_crate() {
        assert_eq!(test_name(test_name_is_path_without_crate), "tests::test_name_is_path_without_crate");
    }

    #[test]
    #[should_panic(expected = "0 passed")]
    fn unknown_test_name_is_no_pass() {
        let mut program = Command::new(std::env::current_exe().unwrap());
        assert_one_passed(&program.args(["--exact", "tests::no_such_test"]).output().unwrap());
    }

    #[test]
    fn splitmix_gives_the_published_numbers() {
        let mut random = Random(1_234_567);
        assert_eq!(random.bits(), 6_457_827_717_110_365_317);
        assert_eq!(random.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_lie_in_their_ranges() {
        let mut random = Random(7);
        for _ in 0..1000 {
            assert!(random.below(3) < 3);
            assert!((0.0..1.0).contains(&random.unit()) && (0.0..1.0).contains(&random.unit_f64()));
            assert!((-1.0..1.0).contains(&random.signed()));
        }
    }
}
