//! Plays every file of the corpus through its target, without a fuzzer. No file may panic or take long. When
//! `cargo fuzz` finds a defect, its input is added to the corpus, and this test prevents a regression.

use damper_fuzz_targets::{CORE, Target};
#[cfg(feature = "host")]
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Far above the time of any file, because machines are busy.
const LONGEST: Duration = Duration::from_secs(600);

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus")
}

fn play<'a>(targets: impl IntoIterator<Item = &'a (&'static str, Target)>) {
    for (name, target) in targets {
        let folder = corpus().join(name);
        let mut files: Vec<PathBuf> =
            fs::read_dir(&folder).expect("a folder a target").map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        if cfg!(miri) {
            // Miri is a thousand times slower.
            files = files.into_iter().step_by(16).collect();
        }
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in &files {
            let bytes = fs::read(file).expect("a file");
            let start = Instant::now();
            println!("{name}: {}", file.file_name().expect("a name").display());
            target(&bytes);
            assert!(start.elapsed() < LONGEST, "{name}: {}: {:?}", file.display(), start.elapsed());
        }
    }
}

fn is_c((name, _): &&(&'static str, Target)) -> bool {
    ["capi", "state"].contains(name)
}

// Core, journal and accountants survive the fuzzing corpus.
#[test]
fn core_journal_and_accounting_survive() {
    play(CORE.iter().filter(|target| !is_c(target)));
}

// Apart from the others, because Miri plays it too.
#[test]
fn c_interface_survives_the_corpus() {
    assert_eq!(CORE.iter().filter(is_c).count(), 2);
    play(CORE.iter().filter(is_c));
}

#[cfg(feature = "host")]
#[test]
fn the_host_survives_the_corpus() {
    play(damper_fuzz_targets::HOST);
}

// A target that is not played, a program without a function, or an empty corpus fails the test.
#[cfg(feature = "host")]
#[test]
fn every_target_has_a_program_and_a_corpus() {
    let names = |folder: PathBuf| -> BTreeSet<String> {
        let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
        fs::read_dir(folder).expect("a folder").map(|entry| stem(entry.expect("an entry").path())).collect()
    };
    let targets: BTreeSet<String> =
        CORE.iter().chain(damper_fuzz_targets::HOST).map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(corpus()), targets);
    assert_eq!(names(corpus().join("../fuzz_targets")), targets);
}
