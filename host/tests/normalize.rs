//! Releases before the steps: normalisation of features by released means and deviations, and the number of rows
//! without a finite gradient. Tests the released values, their privacy cost, and that no row is released twice.

#[path = "normalize/count.rs"]
mod count;
#[path = "support/digits.rs"]
mod digits;
#[path = "support/models.rs"]
#[expect(dead_code, reason = "one backend is enough")]
mod models;

use damper::accounting::{Accountant, Event, Recorded, RunParts, Sampler};
use damper::data::{DataOptions, Normalize};
use damper::runtime::Choice;
use damper::train::{
    self, Budget, Checkpoint, InputFiles, Invocation, Method, NoiseCorrelation, NormalizePrivate, Outcome, Progress,
    Run, TrainConfig,
};
use damper_core::numerics::digest::Digest;
use digits::{StopAfter, source};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

const MODEL: &str = "digits-linear.onnx";

fn config(budget: Budget, noise_multiplier: Option<f64>) -> TrainConfig {
    TrainConfig {
        backend: Choice::Tract,
        seed: Some(3),
        workers: NonZeroUsize::new(2),
        normalize_private: Some(NormalizePrivate { lows: vec![0.0], highs: vec![1.0], noise_multiplier }),
        ..TrainConfig::new(budget, 1e-5, 64, 0.5, Method::dp_sgd(1.0, 0.3))
    }
}

fn trained(source: &InputFiles, config: TrainConfig) -> (Run, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let run = train::prepare(source, config).unwrap();
    let outcome = train::run(&run, folder.path(), &mut ()).unwrap();
    (run, outcome)
}

fn bits(outcome: &Outcome) -> u64 {
    Digest::of(&outcome.params).value()
}

#[test]
fn little_noise_gives_mean_and_deviation() {
    let (run, outcome) = trained(&source(MODEL), config(Budget::NoiseMultiplier(1.0), Some(0.01)));
    let Normalize { means, stds } = outcome.normalize.unwrap();
    let (values, rows) = (run.data.train.features()[0].floats(), run.data.train.len() as f64);
    assert_eq!((means.len(), stds.len()), (64, 64));
    for (column, (found, found_std)) in means.iter().zip(&stds).enumerate() {
        let column = || values.iter().skip(column).step_by(64).map(|x| f64::from(*x));
        let mean = column().sum::<f64>() / rows;
        let std = (column().map(|x| (x - mean).powi(2)).sum::<f64>() / rows).sqrt();
        assert!((*found - mean).abs() < 2e-4, "{found} {mean}");
        // A column without variance gets the variance of the noise.
        let least = 0.5 * (0.01 * (1.25 * 64.0f64).sqrt() / rows).sqrt();
        assert!((*found_std - std.max(least)).abs() < 5e-3 && *found_std > 0.999 * least, "{found_std} {std}");
    }
}

// Released means of known rows: the standard deviation of their noise is the accounted value, within five of its own
// deviations.
#[test]
fn noise_on_means_has_the_priced_deviation() {
    let multiplier = 3.0;
    let config = config(Budget::NoiseMultiplier(1.0), Some(multiplier));
    let run = train::prepare(&source(MODEL), TrainConfig { epochs: 0.01, ..config }).unwrap();
    let (values, rows) = (run.data.train.features()[0].floats(), run.data.train.len() as f64);
    let mean = |column: usize| values.iter().skip(column).step_by(64).map(|x| f64::from(*x)).sum::<f64>() / rows;
    // In half the range of a column, as the bound on a row.
    let priced = 0.5 * multiplier * (1.25f64 * 64.0).sqrt() / rows;
    let (mut squares, mut draws) = (0.0, 0.0);
    for seed in 0..60 {
        let mut run = run.clone();
        run.config.seed = Some(seed);
        let folder = tempfile::tempdir().unwrap();
        let found = train::run(&run, folder.path(), &mut ()).unwrap().normalize.unwrap();
        // Means at a bound are clamped there.
        for column in (0..64).filter(|column| (0.1..0.9).contains(&mean(*column))) {
            squares += ((found.means[column] - mean(column)) / priced).powi(2);
            draws += 1.0;
        }
    }
    let deviation = (squares / draws).sqrt();
    assert!(draws > 1500.0 && (deviation - 1.0).abs() < 5.0 * (0.5 / draws).sqrt(), "{deviation} of {draws} draws");
}

// The steps have the bits of a run with the same constants as public constants. This holds for rows in memory and in a
// file.
#[test]
fn run_has_bits_of_public_constants() {
    let config = config(Budget::NoiseMultiplier(1.0), None);
    let (run, whole) = trained(&source(MODEL), config.clone());
    assert!(whole.normalize.as_ref().is_some_and(|constants| constants.means.iter().any(|mean| *mean > 0.1)));
    let stored = DataOptions { data_memory: Some(0), ..DataOptions::default() };
    let (_, of_file) = trained(&InputFiles { data_options: stored, ..source(MODEL) }, config.clone());
    assert_eq!((bits(&of_file), &of_file.normalize), (bits(&whole), &whole.normalize));
    let public = DataOptions { normalize: whole.normalize.clone(), ..DataOptions::default() };
    let plain = TrainConfig { normalize_private: None, ..config };
    let (other, of_public) = trained(&InputFiles { data_options: public, ..source(MODEL) }, plain);
    let losses = |outcome: &Outcome| outcome.evaluations.iter().map(|at| at.loss.to_bits()).collect::<Vec<_>>();
    assert_eq!((bits(&of_public), losses(&of_public)), (bits(&whole), losses(&whole)));
    assert!(
        run.price.epsilon > other.price.epsilon && run.price.epsilon < 1.1 * other.price.epsilon,
        "{} {}",
        run.price.epsilon,
        other.price.epsilon
    );
}

// The release and the steps cost at most the target together. The cost is that of composing each event separately.
#[test]
fn price_composes_release_and_steps() {
    for accountant in [Accountant::Pld, Accountant::Rdp] {
        for (noise, sampler) in [
            ("none", Sampler::Poisson),
            ("none", Sampler::Shuffled),
            ("blt:2", Sampler::MinSeparation),
            ("banded:3", Sampler::CyclicPoisson),
        ] {
            let noise_correlation: NoiseCorrelation = noise.parse().unwrap();
            let config = TrainConfig {
                accountant,
                sampler,
                noise_correlation,
                epochs: 2.0,
                ..config(Budget::Epsilon(3.0), None)
            };
            let plain = TrainConfig { normalize_private: None, ..config.clone() };
            let plain = train::prepare(&source(MODEL), plain).unwrap();
            let (run, outcome) = trained(&source(MODEL), config);
            let epsilon = |recorded: &Recorded| recorded.epsilon(accountant, 1e-5).unwrap().epsilon;
            assert!(run.price.epsilon <= 3.0 && run.price.epsilon > 2.97, "{noise} {sampler:?} {}", run.price.epsilon);
            assert_eq!(epsilon(&outcome.recorded), run.price.epsilon, "{noise} {sampler:?}");
            let parts = outcome.recorded.parts();
            let release = Event::gaussian(parts.normalize.unwrap()).unwrap();
            let draws = [&[(release, 1)], parts.draws].concat();
            let listed = RunParts { normalize: None, correlation: None, draws: &draws, ..parts };
            let listed = outcome.recorded.with(&listed);
            assert!((epsilon(&listed) / run.price.epsilon - 1.0).abs() < 1e-3, "{noise} {sampler:?}");
            let more = run.price.terms.multiplier / plain.price.terms.multiplier;
            assert!(more > 1.005 && more < 1.08, "{noise} {sampler:?} {more}");
        }
    }
}

fn resumed(folder: &Path, run: &Run, progress: &mut dyn Progress) -> Result<Outcome, train::TrainError> {
    train::run_resumable(run, &mut Checkpoint::resume(folder, run, Duration::from_secs(60)).unwrap(), progress)
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.file_name() != "lock") {
        fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

// A charge that is not on the disk releases nothing. After a crash after the charge, the same release is computed
// again. After the release is stored, no other is made.
#[test]
fn release_is_charged_first_and_made_once() {
    const CHARGE: &str = "ledger-normalize.json";
    let config = TrainConfig { seed: None, ..config(Budget::Epsilon(3.0), None) };
    let run = train::prepare(&source(MODEL), config).unwrap();
    let begun = tempfile::tempdir().unwrap();
    let invocation = Invocation::default();
    drop(Checkpoint::begin(begun.path(), &run, invocation, Duration::from_secs(60)).unwrap());
    let (first, uncharged, crashed) = (copy(begun.path()), copy(begun.path()), copy(begun.path()));
    let whole = resumed(first.path(), &run, &mut ()).unwrap();
    let charge = fs::read_to_string(first.path().join(CHARGE)).unwrap();
    assert!(charge.contains("\"paid\":1") && whole.normalize.is_some(), "{charge}");

    fs::create_dir(uncharged.path().join(CHARGE)).unwrap();
    assert!(resumed(uncharged.path(), &run, &mut ()).unwrap_err().to_string().contains(CHARGE));
    let state = |folder: &Path| ["state-a", "state-b"].map(|name| fs::read(folder.join(name)).unwrap_or_default());
    let has_constants =
        |folder: &Path| state(folder).iter().any(|bytes| bytes.windows(11).any(|part| part == b"\"normalize\""));
    assert!(!has_constants(uncharged.path()) && !uncharged.path().join("ledger.json").exists());

    fs::write(crashed.path().join(CHARGE), charge).unwrap();
    let stopped = resumed(crashed.path(), &run, &mut StopAfter(3)).unwrap();
    assert!(stopped.stopped && stopped.normalize == whole.normalize && has_constants(crashed.path()));
    fs::remove_file(crashed.path().join(CHARGE)).unwrap();
    let ended = resumed(crashed.path(), &run, &mut ()).unwrap();
    assert_eq!((bits(&ended), &ended.normalize, &ended.recorded), (bits(&whole), &whole.normalize, &whole.recorded));
    assert!(!crashed.path().join(CHARGE).exists());
}
