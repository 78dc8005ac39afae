//! The number of rows without a finite gradient, released before the first step (`release_non_finite`).

use super::digits::{StopAfter, source};
use super::{MODEL, bits, copy, resumed};
use damper::accounting::{Accountant, Recorded, Sampler};
use damper::cluster::Threads;
use damper::data::{Dataset, Numbers};
use damper::grad::Readout;
use damper::runtime::Choice;
use damper::train::{
    self, Budget, Checkpoint, Group, Invocation, Method, NoiseKind, NonFiniteCount, NormalizePrivate, Outcome,
    Progress, ReleaseNonFinite, Run, RunEvent, TrainConfig, TrainError,
};
use std::fs;
use std::num::NonZeroUsize;
use std::time::Duration;

const LEDGER: &str = "ledger-non-finite.json";
/// Rows without a finite gradient: with infinities of either sign, and with NaN.
const BAD: [usize; 7] = [0, 3, 15, 16, 700, 1435, 1436];

fn config(budget: Budget, noise_multiplier: Option<f64>) -> TrainConfig {
    TrainConfig {
        backend: Choice::Tract,
        seed: Some(3),
        workers: NonZeroUsize::new(2),
        release_non_finite: Some(ReleaseNonFinite { noise_multiplier }),
        ..TrainConfig::new(budget, 1e-5, 64, 0.2, Method::dp_sgd(1.0, 0.3))
    }
}

/// Returns the digits with `bad` rows without a finite gradient, and a null row that would have none.
fn data_with(bad: &[usize]) -> impl FnOnce(Dataset) -> Result<Dataset, TrainError> {
    move |mut data: Dataset| {
        for (row, value) in
            bad.iter().chain(&[100]).zip([f32::NEG_INFINITY, f32::INFINITY, f32::NAN].into_iter().cycle())
        {
            let mut sample = data.train.sample(*row);
            if let Numbers::F32(values) = &mut sample.features[0] {
                values.fill(value);
            }
            data.train.replace(*row, &sample);
        }
        data.train.set_null(100, true);
        Ok(data)
    }
}

fn prepared(config: TrainConfig, bad: &[usize]) -> Run {
    train::prepare_on(&source(MODEL), config, data_with(bad)).unwrap()
}

fn trained(run: &Run) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    train::run(run, folder.path(), &mut ()).unwrap()
}

fn released(outcome: &Outcome) -> f64 {
    f64::from(outcome.non_finite.unwrap().released.unwrap())
}

// With little noise the count is exact, with every way of reading rows. The steps have the bits of a run without a
// release.
#[test]
fn count_is_of_rows_without_gradient() {
    type Change = fn(&mut TrainConfig);
    let ways: [Change; 5] = [
        |_| (),
        |config| (config.workers, config.physical_batch) = (NonZeroUsize::new(3), NonZeroUsize::new(7)),
        |config| config.noise = NoiseKind::Continuous,
        |config| (config.noise, config.readout) = (NoiseKind::Continuous, Readout::ClippedSum),
        |config| config.sampler = Sampler::Shuffled,
    ];
    for (way, change) in ways.into_iter().enumerate() {
        let mut config = config(Budget::NoiseMultiplier(1.0), Some(0.02));
        change(&mut config);
        for (bad, known) in [(&BAD[..], 7), (&BAD[1..], 6), (&[], 0)] {
            let run = prepared(config.clone(), bad);
            let outcome = trained(&run);
            let count = outcome.non_finite.unwrap();
            assert_eq!((count.whole(), count.rows), (Some(known), 1437), "{way}");
            assert!(released(&outcome).fract() != 0.0 && (released(&outcome) - known as f64).abs() < 0.2, "{way}");
            let mut plain = run.clone();
            plain.config.release_non_finite = None;
            let plain = trained(&plain);
            assert_eq!((bits(&plain), plain.non_finite), (bits(&outcome), None), "{way}");
        }
    }
}

// With one key, one row moves the released number by at most one, also with normalised features.
#[test]
fn one_row_moves_the_count_by_one() {
    let normalize = NormalizePrivate { lows: vec![0.0], highs: vec![1.0], noise_multiplier: Some(5.0) };
    for normalize_private in [None, Some(normalize)] {
        let config = TrainConfig { normalize_private, ..config(Budget::NoiseMultiplier(1.0), Some(8.0)) };
        let of = |bad: &[usize]| released(&trained(&prepared(config.clone(), bad)));
        let (all, less, none) = (of(&BAD), of(&BAD[1..]), of(&[]));
        assert!((all - less - 1.0).abs() < 1e-4 && (all - none - 7.0).abs() < 1e-4, "{all} {less} {none}");
    }
}

// Over many keys the released number varies around the count with the accounted deviation. Both are within five of
// their own deviations.
#[test]
fn noise_on_the_count_is_the_priced_one() {
    let multiplier = 3.0;
    let config = config(Budget::NoiseMultiplier(1.0), Some(multiplier));
    let run = prepared(TrainConfig { epochs: 0.01, ..config }, &BAD);
    let found: Vec<f64> = (0..150)
        .map(|seed| {
            let mut run = run.clone();
            run.config.seed = Some(seed);
            (released(&trained(&run)) - BAD.len() as f64) / multiplier
        })
        .collect();
    let draws = found.len() as f64;
    let mean = found.iter().sum::<f64>() / draws;
    let deviation = (found.iter().map(|z| z * z).sum::<f64>() / draws).sqrt();
    assert!(mean.abs() < 5.0 / draws.sqrt(), "{mean}");
    assert!((deviation - 1.0).abs() < 5.0 * (0.5 / draws).sqrt(), "{deviation}");
}

/// Returns the share of a normal below `x`, by Simpson's rule.
fn below(x: f64) -> f64 {
    const PARTS: usize = 20_000;
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let (low, width) = (-14.0, (x + 14.0) / PARTS as f64);
    let weight = |at: usize| if at == 0 || at == PARTS { 1.0 } else { 2.0 + 2.0 * (at % 2) as f64 };
    (0..=PARTS).map(|at| weight(at) * density(low + at as f64 * width)).sum::<f64>() * width / 3.0
}

/// Returns δ of Gaussian releases with these multipliers, by the formula of Balle and Wang (2018, theorem 8) for the
/// summed inverse variances.
fn delta_of_gaussians(multipliers: &[f64], epsilon: f64) -> f64 {
    let mu = multipliers.iter().map(|z| 1.0 / (z * z)).sum::<f64>().sqrt();
    below(mu / 2.0 - epsilon / mu) - epsilon.exp() * below(-mu / 2.0 - epsilon / mu)
}

// Both releases and the steps cost at most the target together. At a sampling rate of 1 the cost is that of the
// Gaussian formula.
#[test]
fn price_composes_both_releases_and_steps() {
    let normalize = NormalizePrivate { lows: vec![0.0], highs: vec![1.0], noise_multiplier: None };
    for accountant in [Accountant::Pld, Accountant::Rdp] {
        for sampler in [Sampler::Shuffled, Sampler::Poisson] {
            for normalize_private in [None, Some(normalize.clone())] {
                let config = TrainConfig {
                    accountant,
                    sampler,
                    epochs: 3.0,
                    normalize_private,
                    ..config(Budget::Epsilon(3.0), None)
                };
                let plain = TrainConfig { release_non_finite: None, ..config.clone() };
                let plain = train::prepare(&source(MODEL), plain).unwrap();
                let run = train::prepare(&source(MODEL), config).unwrap();
                let recorded = trained(&run).recorded;
                let of = |recorded: &Recorded| recorded.epsilon(accountant, 1e-5).unwrap().epsilon;
                assert!(run.price.epsilon <= 3.0 && run.price.epsilon > 2.97, "{sampler:?} {}", run.price.epsilon);
                assert_eq!(of(&recorded), run.price.epsilon, "{sampler:?}");
                let more = run.price.terms.multiplier / plain.price.terms.multiplier;
                assert!(more > 1.0003 && more < 1.006, "{sampler:?} {more}");
                // A run with the same noise as a setting costs as much. Its releases are chosen by the cost of its
                // steps.
                let given = Budget::NoiseMultiplier(run.price.terms.multiplier);
                let given =
                    train::prepare(&source(MODEL), TrainConfig { budget: given, ..run.config.clone() }).unwrap();
                assert!(
                    (given.price.epsilon / run.price.epsilon - 1.0).abs() < 1e-6,
                    "{} {}",
                    given.price.epsilon,
                    run.price.epsilon
                );
                if (accountant, sampler) == (Accountant::Pld, Sampler::Shuffled) {
                    let parts = recorded.parts();
                    let draws = parts
                        .draws
                        .iter()
                        .flat_map(|(event, times)| vec![event.rate_and_multiplier().unwrap().1; *times as usize]);
                    let all: Vec<f64> = draws.chain(parts.normalize).chain(parts.non_finite).collect();
                    assert_eq!(all.len(), 3 + parts.statistics().count());
                    let (at, above) = (delta_of_gaussians(&all, run.price.epsilon), delta_of_gaussians(&all, 2.97));
                    assert!(at <= 1e-5 && above > 1e-5, "{at:e} {above:e}");
                }
            }
        }
    }
}

fn begun(run: &Run) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let invocation = Invocation::default();
    drop(Checkpoint::begin(folder.path(), run, invocation, Duration::from_secs(60)).unwrap());
    folder
}

/// Listener for releases and warnings.
#[derive(Default)]
struct Heard {
    counts: Vec<NonFiniteCount>,
    warnings: Vec<String>,
}

impl Progress for Heard {
    fn on_event(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Warned(text) => self.warnings.push(text.into()),
            RunEvent::Counted(count) => self.counts.push(count),
            _ => {}
        }
    }
}

// The count is charged first and released once. A charge without a stored value is a lost count: the key makes no
// second count.
#[test]
fn lost_count_is_not_released_again() {
    let config = TrainConfig { seed: None, ..config(Budget::Epsilon(3.0), None) };
    let run = prepared(config, &BAD);
    let begun = begun(&run);
    let (first, crashed, stopped) = (copy(begun.path()), copy(begun.path()), copy(begun.path()));
    let mut heard = Heard::default();
    let whole = resumed(first.path(), &run, &mut heard).unwrap();
    assert_eq!((heard.counts.as_slice(), heard.warnings.len()), (&[whole.non_finite.unwrap()][..], 0));
    let charge = fs::read_to_string(first.path().join(LEDGER)).unwrap();
    assert!(charge.contains("\"paid\":1"), "{charge}");

    // A crash between the charge and the value, then another.
    fs::write(crashed.path().join(LEDGER), &charge).unwrap();
    let mut heard = Heard::default();
    let lost = resumed(crashed.path(), &run, &mut heard).unwrap();
    assert_eq!(lost.non_finite, Some(NonFiniteCount { released: None, ..whole.non_finite.unwrap() }));
    assert!(heard.counts.is_empty() && heard.warnings[0].contains("not released again"), "{:?}", heard.warnings);
    assert_eq!((bits(&lost), &lost.recorded), (bits(&whole), &whole.recorded));
    assert!(lost.recorded.parts().non_finite.is_some());
    // An unreadable charge also counts.
    let damaged = copy(begun.path());
    fs::create_dir(damaged.path().join(LEDGER)).unwrap();
    assert_eq!(resumed(damaged.path(), &run, &mut ()).unwrap().non_finite.unwrap().released, None);

    // A stop during the count charges nothing, and the run can be resumed.
    let error = resumed(stopped.path(), &run, &mut StopAfter(2)).unwrap_err();
    assert!(matches!(error, TrainError::Stopped), "{error}");
    assert!(!stopped.path().join(LEDGER).exists() && !stopped.path().join("ledger.json").exists());
    // Twelve counting steps, then two training steps.
    let ended = resumed(stopped.path(), &run, &mut StopAfter(14)).unwrap();
    assert!(ended.stopped && ended.non_finite == whole.non_finite);
    // The value is stored. It is not computed again, and not lost without its ledger.
    fs::remove_file(stopped.path().join(LEDGER)).unwrap();
    let mut heard = Heard::default();
    let ended = resumed(stopped.path(), &run, &mut heard).unwrap();
    assert_eq!((bits(&ended), ended.non_finite, &ended.recorded), (bits(&whole), whole.non_finite, &whole.recorded));
    assert!(heard.counts.is_empty() && !stopped.path().join(LEDGER).exists());
}

// Ranks, with all rows or their own, release the number of one process. A stop of one rank stops all.
#[test]
fn ranks_release_the_count_of_one_process() {
    let run = prepared(config(Budget::NoiseMultiplier(1.0), Some(4.0)), &BAD);
    let whole = trained(&run);
    for (size, is_sharded, stopper) in [(2, false, None), (3, true, None), (3, false, None), (2, true, Some(1))] {
        let folder = tempfile::tempdir().unwrap();
        let rank = |group: &dyn Group| {
            let mut run = run.clone();
            run.config.workers = NonZeroUsize::new(1 + group.rank() % 2);
            if is_sharded {
                run.keep_shard(group.rank(), group.size(), u64::MAX).unwrap();
            }
            let mut progress = StopAfter(if stopper == Some(group.rank()) { 2 } else { u32::MAX });
            train::run_on(&run, group, (group.rank() == 0).then_some(folder.path()), None, &mut progress)
        };
        let rank = &rank;
        let outcomes: Vec<Result<Outcome, TrainError>> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                Threads::group(size).into_iter().map(|group| scope.spawn(move || rank(&{ group }))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for outcome in outcomes {
            match (outcome, stopper) {
                (Ok(outcome), None) => {
                    assert_eq!((outcome.non_finite, bits(&outcome)), (whole.non_finite, bits(&whole)), "{size}");
                }
                (Err(TrainError::Stopped), Some(_)) => assert!(!folder.path().join(LEDGER).exists()),
                (outcome, _) => panic!("{size}: {:?}", outcome.map(|outcome| outcome.stopped)),
            }
        }
    }
}
