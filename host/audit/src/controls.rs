//! Mechanisms that are broken on purpose, for tests only, and the audit that catches each of them.
//!
//! | broken | caught by |
//! | --- | --- |
//! | clips the sum instead of the samples | replay: the sum moves by more than the clip |
//! | divides a gradient by the number of samples that came | replay: other samples' gradients move |
//! | draws twice for one charge | replay: events and draws |
//! | takes the noise of another step again | distinctness of blocks |
//! | correlated noise: half of it, or Poisson draws | mechanism |
//! | no noise, or an eighth of it, at a claim of ε = 1 | canaries |

use super::canary::{Canaries, CanaryOptions, canary};
use super::mechanism::{MechanismOptions, mechanism as audit_mechanism};
use super::neighbours::{Chosen, Replay, Verdict};
use super::sum_probe::{Account, Driven, Order};
use damper_accounting::Sampler;
use damper_core::accounting::Rate;
use damper_core::error::CallError;
use damper_core::grid::Grid;
use damper_core::noise::{CHUNK, DiscreteGaussian};
use damper_core::optimizer::{Begin, Optimizer};
use damper_core::private::{Released, SumWord};
use damper_core::threshold::CountNoise;
use damper_data::{Chunk, DataOptions, Split};
use damper_grad::{DeriveOptions, Loss};
use damper_onnx::graph::GraphOptions;
use damper_runtime::{BackendError, Choice, open};
use damper_train::inside::generator::RunGenerator;
use damper_train::inside::step_loop::{self, Draw, StepLoop};
use damper_train::inside::worker::{Accumulate, GradientObserver, GradsAt, Opened, PerSampleGradients, Sessions};
use damper_train::{
    Budget, InputFiles, Method, NormalizePrivate, ReleaseNonFinite, Run, TestMetrics, TrainConfig, prepare,
};
use std::collections::HashSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;

/// Returns a run on the digits with `model` from `onnx-models`.
fn run(model: &str, budget: Budget, epochs: f64) -> Run {
    run_with(model, budget, epochs, |_| {})
}

fn run_with(model: &str, budget: Budget, epochs: f64, change: impl FnOnce(&mut TrainConfig)) -> Run {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../onnx-models");
    let source = InputFiles {
        model: models.join(model),
        of_file: Default::default(),
        lora: None,
        graph: GraphOptions::default(),
        derive: DeriveOptions::new(Loss::SoftmaxCrossEntropy),
        data: format!("idx:{}", models.join("digits").display()),
        data_options: DataOptions::default(),
    };
    let mut config = TrainConfig {
        backend: Choice::Tract,
        workers: NonZeroUsize::new(2),
        ..TrainConfig::new(budget, 1e-5, 128, epochs, Method::dp_sgd(1.0, 0.3))
    };
    change(&mut config);
    prepare(&source, config).unwrap()
}

type Exact = DiscreteGaussian<i64>;

fn mechanism(run: &Run) -> Exact {
    DiscreteGaussian::new(Grid::new(run.config.grid_bits).unwrap(), run.price.terms.sigma_grid.unwrap()).unwrap()
}

fn workers(run: &Run) -> PerSampleGradients<SumWord<i64>> {
    let backend = open(run.config.backend).unwrap();
    let (grad, split, rows) = (&run.model.grad, &run.data.train, run.model.physical_batch);
    PerSampleGradients::new(&Sessions { backend: backend.as_ref(), grad, split, rows, threads: 2, normalize: None })
        .unwrap()
}

/// Fault of a trainer: it changes the gradients of a step's samples before the core sees them.
type Break = fn(Vec<(u32, Vec<f32>)>) -> Vec<(u32, Vec<f32>)>;

/// Workers with a fault in their gradients.
struct Broken<'a> {
    run: &'a Run,
    honest: PerSampleGradients<SumWord<i64>>,
    how: Break,
}

/// Collects every gradient.
#[derive(Default)]
struct Collect(Vec<(u32, Vec<f32>)>);

impl GradientObserver for Collect {
    fn sample(&mut self, sample: u32, mixed: &[f32]) {
        self.0.push((sample, mixed.to_vec()));
    }
}

impl Accumulate<Exact> for Broken<'_> {
    fn accumulate<O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, Exact, O, OS>,
        split: &Split,
        chunks: &[Chunk<'_>],
        at: GradsAt<'_>,
        mut grad_observer: Option<&mut dyn GradientObserver>,
    ) -> Result<(), BackendError> {
        // Correct gradients come from a second step, which is dropped.
        let layers = step_loop::layers(self.run);
        let (step, mut state) = step_loop::step(self.run, mechanism(self.run), (), &layers, |o, s| (o, s)).unwrap();
        let mut beside = Account::new(1).open(&step, &mut state).unwrap();
        let mut collect = Collect::default();
        self.honest.accumulate(&mut beside, split, chunks, at, Some(&mut collect))?;
        drop(beside);
        for (sample, mixed) in (self.how)(collect.0) {
            if let Some(grad_observer) = &mut grad_observer {
                grad_observer.sample(sample, &mixed);
            }
            opened.add_combined(&[&mixed]).unwrap();
        }
        Ok(())
    }

    fn count(&self) -> usize {
        Accumulate::<Exact>::count(&self.honest)
    }
}

fn replay(run: &Run, workers: impl Accumulate<Exact>, steps: u32) -> Vec<Verdict> {
    let chosen = Chosen::new(run, steps, Some(1)).unwrap();
    Replay { run, steps, chosen, told: &mut |_| {} }.go(mechanism(run), workers).unwrap()
}

fn digits() -> Run {
    run("digits-linear.onnx", Budget::NoiseMultiplier(1.0), 1.0)
}

// Correct workers pass every check, and so does the harness for faulty workers.
#[test]
fn honest_workers_and_harness_pass() {
    let run = digits();
    for verdicts in [replay(&run, workers(&run), 3), replay(&run, broken(&run, |honest| honest), 3)] {
        assert_eq!(verdicts.len(), 12);
        assert!(verdicts.iter().all(|verdict| verdict.violation.is_none() && verdict.drawn > 0), "{verdicts:?}");
    }
}

fn broken(run: &Run, how: Break) -> Broken<'_> {
    Broken { run, honest: workers(run), how }
}

/// Passes the sum of the raw gradients to the core as one gradient, so the core clips the sum.
fn clip_after_the_sum(samples: Vec<(u32, Vec<f32>)>) -> Vec<(u32, Vec<f32>)> {
    let mut sum = vec![0.0; samples.first().map_or(0, |(_, gradient)| gradient.len())];
    for (_, gradient) in samples.iter().filter(|(_, gradient)| gradient.iter().all(|x| x.is_finite())) {
        sum.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x);
    }
    if sum.is_empty() { vec![] } else { vec![(u32::MAX, sum)] }
}

/// Scales a gradient as if the loss were a mean over the realised batch.
fn over_the_batch_that_came(mut samples: Vec<(u32, Vec<f32>)>) -> Vec<(u32, Vec<f32>)> {
    let came = samples.iter().filter(|(_, gradient)| gradient.iter().all(|x| x.is_finite())).count() as f32;
    samples.iter_mut().for_each(|(_, gradient)| gradient[640] *= 128.0 / came);
    samples
}

/// Hides the gradients from the observer, so that only the sum is checked.
struct Unseen<G>(G);

impl<G: Accumulate<Exact>> Accumulate<Exact> for Unseen<G> {
    fn accumulate<O: Optimizer<OS>, OS>(
        &mut self,
        opened: &mut Opened<'_, '_, Exact, O, OS>,
        split: &Split,
        chunks: &[Chunk<'_>],
        at: GradsAt<'_>,
        _: Option<&mut dyn GradientObserver>,
    ) -> Result<(), BackendError> {
        self.0.accumulate(opened, split, chunks, at, None)
    }

    fn count(&self) -> usize {
        self.0.count()
    }
}

// Replay detects clipping after the sum, and names step, sample and coordinate.
#[test]
fn replay_locates_clipping_after_sum() {
    let run = digits();
    let verdicts = replay(&run, Unseen(broken(&run, clip_after_the_sum)), 3);
    let caught: Vec<_> = verdicts.iter().filter_map(|verdict| verdict.violation.as_ref()).collect();
    assert!(!caught.is_empty(), "{verdicts:?}");
    for violation in caught {
        println!("{violation}");
        let names = ["weight", "bias"];
        // Either the sum moves by more than the clip, or it changes when samples only move to other rows.
        let moved = ["the clipped sum moved by ", "samples in other rows, chunks and workers: the sum moved by "];
        assert!(moved.iter().any(|moved| violation.what.starts_with(moved)), "{violation}");
        assert!(violation.coordinate.is_some() && violation.step < 3, "{violation}");
        let parameter = violation.parameter.as_deref().unwrap();
        assert!(names.iter().any(|name| parameter.contains(name)), "{violation}");
        assert!(violation.to_string().contains(&format!("sample {}, {parameter}[", violation.sample)), "{violation}");
    }
}

// The bits of other samples reveal a division by the realised batch.
#[test]
fn replay_detects_realised_divisor() {
    let run = digits();
    let verdicts = replay(&run, broken(&run, over_the_batch_that_came), 3);
    let of = |name: &str| verdicts.iter().find(|verdict| verdict.case == name).unwrap();
    for name in ["one sample added, a duplicate", "one sample removed", "one sample replaced by one of NaNs"] {
        let violation = of(name).violation.as_ref().unwrap();
        assert!(violation.what.starts_with("another sample's gradient moved"), "{violation}");
        // The last ten coordinates are the bias.
        assert_eq!(violation.coordinate, Some(0), "{violation}");
        assert_ne!(violation.sample, of(name).sample);
    }
    // The realised batch has the same size here, so the fault is invisible.
    assert_eq!(of("one sample replaced by a duplicate").violation, None);
}

/// Charges and draws of steps. The second step draws twice.
#[test]
fn detects_batch_without_charge() {
    let run = digits();
    let layers = step_loop::layers(&run);
    let (step, state) = step_loop::step(&run, mechanism(&run), (), &layers, |o, s| (o, s)).unwrap();
    let (mut account, generator) = (Account::new(3), RunGenerator::simulation(1));
    let mut driven = Driven {
        run: &run,
        step: &step,
        state,
        workers: workers(&run),
        params: run.model.params.clone(),
        generator: &generator,
        draw: Draw::new(&run, &generator),
        others: 0,
    };
    let split = &run.data.train;
    for skips in [false, true] {
        driven.sum_probe(split, &mut account, Order::Drawn, None).unwrap();
        if skips {
            let opened = Account::new(3).open(&step, &mut driven.state).unwrap();
            driven.draw.throw(&opened, split, 0);
            account.draws += 1;
        }
        let caught = account.settled();
        assert_eq!(caught.is_err(), skips, "{caught:?}");
        assert!(!skips || caught.unwrap_err() == "3 draws were made and 2 paid");
    }
}

/// Collects everything that is released.
#[derive(Clone)]
struct Keep;

impl Optimizer<Vec<f32>> for Keep {
    type Step = ();

    fn check(&self, _: &Vec<f32>, _: usize) -> Result<(), CallError> {
        Ok(())
    }

    fn begin(&self, _: &mut Vec<f32>, _: Begin) {}

    fn update(&self, (): (), kept: &mut Vec<f32>, _: usize, _: &mut [f32], _: &Released<'_>, released: &Released<'_>) {
        kept.extend_from_slice(released.grad());
    }
}

/// Returns true if all blocks of noise that `steps` empty steps of a run release are different.
///
/// With `reuses`, a new ledger opens each step. The step then has the number of the first step, and so its noise.
fn blocks_are_distinct(run: &Run, steps: u32, reuses: bool) -> bool {
    let layers = step_loop::layers(run);
    let (step, mut state) = step_loop::step(run, mechanism(run), (), &layers, |_, _| (Keep, vec![])).unwrap();
    let (mut account, generator) = (Account::new(steps), RunGenerator::simulation(4));
    let mut params = run.model.params.clone();
    for _ in 0..steps {
        if reuses {
            account = Account::new(steps);
        }
        account.open(&step, &mut state).unwrap().finish(&mut params, &generator).unwrap();
    }
    let mut seen = HashSet::new();
    state.optimizer.chunks(params.len()).flat_map(|released| released.chunks(CHUNK)).all(|block| {
        let bits: Vec<u32> = block.iter().map(|x| x.to_bits()).collect();
        seen.insert(bits)
    })
}

// The check for distinct blocks detects reused noise.
#[test]
fn detects_reused_noise() {
    let run = run("digits-mlp.onnx", Budget::NoiseMultiplier(1.0), 1.0);
    assert!(run.model.params.len() > 2 * CHUNK);
    assert!(blocks_are_distinct(&run, 12, false));
    assert!(!blocks_are_distinct(&run, 2, true));
}

/// Returns a run with correlated noise.
fn correlated(noise: &str, sampler: Sampler) -> Run {
    run_with("digits-linear.onnx", Budget::NoiseMultiplier(1.0), 4.0, |config| {
        (config.noise_correlation, config.sampler) = (noise.parse().unwrap(), sampler);
    })
}

/// Returns the claims that the audit of the mechanism refutes.
fn refuted(run: &Run) -> Vec<String> {
    let options = MechanismOptions { precision: 0.1, seed: Some(3) };
    let audit = audit_mechanism(run, options, &mut |_| {}).unwrap();
    audit.findings.into_iter().filter(|finding| !finding.holds).map(|finding| finding.what).collect()
}

// The audit does not refute correct correlated noise, in a fixed order and with cyclic draws.
#[test]
fn correct_correlated_noise_is_not_refuted() {
    for (noise, sampler) in [
        ("lambda:3/4", Sampler::MinSeparation),
        ("blt:2", Sampler::MinSeparation),
        ("banded:4", Sampler::MinSeparation),
        ("banded:4", Sampler::CyclicPoisson),
        // More groups than some courses have steps.
        ("banded:11", Sampler::CyclicPoisson),
    ] {
        assert_eq!(refuted(&correlated(noise, sampler)), Vec::<String>::new(), "{noise}");
    }
}

// The audit detects each deviation of a run from the correlated noise that is accounted for.
#[test]
fn detects_broken_correlated_noise() {
    let finds = |run: &Run, what: &str| {
        let refuted = refuted(run);
        assert!(refuted.iter().any(|finding| finding.contains(what)), "{what}: {refuted:?}");
    };
    // Poisson draws may repeat a sample at neighbouring steps.
    let mut run = correlated("blt:2", Sampler::MinSeparation);
    run.config.sampler = Sampler::Poisson;
    run.price.terms.event_rate = run.price.terms.rate;
    finds(&run, "the steps of a sample are as far apart as is priced");
    // Half of the planned noise.
    let mut run = correlated("blt:2", Sampler::MinSeparation);
    run.price.terms.correlated.as_mut().unwrap().sigma /= 2;
    finds(&run, "deviation of the noise, all of it");
    finds(&run, "the event of each step is the one that is planned");
    // Draws of a group at more than the accounted sampling rate.
    let mut run = correlated("banded:4", Sampler::CyclicPoisson);
    run.price.terms.event_rate = Rate::of(1, 2).unwrap();
    finds(&run, "the event of each step is the one that is planned");
}

/// Returns a run with every private release besides its steps.
fn with_releases() -> Run {
    run_with("digits-linear.onnx", Budget::Epsilon(3.0), 2.0, |config| {
        config.test_metrics = TestMetrics::Private { loss_bound: 10.0 };
        config.normalize_private = Some(NormalizePrivate { lows: vec![0.0], highs: vec![1.0], noise_multiplier: None });
        config.release_non_finite = Some(ReleaseNonFinite::default());
    })
}

// Releases besides the steps pass the audit. The audit detects noise that differs from the accounted noise.
#[test]
fn private_releases_are_audited() {
    let run = with_releases();
    let options = MechanismOptions { precision: 0.1, seed: None };
    let audit = audit_mechanism(&run, options, &mut |_| {}).unwrap();
    for finding in &audit.findings {
        assert!(finding.holds, "{finding:?}");
    }
    let of = |name: &str| audit.findings.iter().filter(|finding| finding.what.starts_with(name)).count();
    assert!(of("non-finite: ") >= 7, "{}", of("non-finite: "));
    assert!(of("normalize: ") >= 6 && of("held-out: ") >= 7, "{} {}", of("normalize: "), of("held-out: "));
    let mut weak = run.clone();
    let metrics = weak.price.private_metrics.as_mut().unwrap();
    assert!(metrics.noise.multiplier() > 0.5);
    metrics.noise = CountNoise::new(0.25).unwrap();
    let found = refuted(&weak);
    assert_eq!(found, ["held-out: the event of a release is the one that is planned"]);
}

// The audit covers batches of a fixed size, groups in turn and truncated draws.
#[test]
fn every_sampler_is_audited() {
    for sampler in [Sampler::Shuffled, Sampler::MinSeparation, Sampler::CyclicPoisson] {
        let run = run_with("digits-linear.onnx", Budget::NoiseMultiplier(1.0), 2.0, |config| {
            config.sampler = sampler;
            config.groups = (sampler == Sampler::CyclicPoisson).then(|| NonZeroU32::new(3).unwrap());
        });
        assert_eq!(refuted(&run), Vec::<String>::new(), "{sampler:?}");
    }
    let run = run_with("digits-linear.onnx", Budget::NoiseMultiplier(1.0), 2.0, |config| config.truncate = Some(220));
    assert_eq!(refuted(&run), Vec::<String>::new());
}

fn audited(run: &Run, canaries: Canaries, seed: u64) -> (bool, f64) {
    let options = CanaryOptions { canaries, count: 1000, guesses: None, confidence: 0.999, seed: Some(seed) };
    let (audit, params) = canary(run, options, &mut |_| {}).unwrap();
    assert!(params.len() == run.model.params.len() && params.iter().all(|x| x.is_finite()));
    assert_eq!((audit.guesses, audit.claim.epsilon), (400, run.price.epsilon));
    (audit.refuted, audit.epsilon_lower)
}

/// Returns a run that claims ε = 1, but adds only the share `part` of the required noise.
fn with_less_noise(part: f64) -> Run {
    let mut run = run("digits-mlp.onnx", Budget::Epsilon(1.0), 4.0);
    let sigma = f64::from(run.price.terms.sigma_grid.unwrap()) * part;
    // The smallest σ that the accountant accepts at this grid: almost no noise.
    run.price.terms.sigma_grid = Some((sigma as u32).max(3_239));
    run
}

// At a claim of ε = 1, the audit refutes no noise and an eighth of the noise.
#[test]
fn audit_refutes_missing_or_weak_noise() {
    for canaries in [Canaries::Dirac, Canaries::Random] {
        let (refuted, least) = audited(&with_less_noise(0.0), canaries, 1);
        assert!(refuted && least > 1.5, "{canaries:?} {least}");
        for seed in 1..=2 {
            let (refuted, least) = audited(&with_less_noise(0.125), canaries, seed);
            assert!(refuted && least > 1.1, "{canaries:?} {least}");
        }
    }
}

/// Short form of the record in `benches/record/audit.md`.
#[test]
fn correct_runs_are_not_refuted() {
    for (epsilon, trace) in [(1.0, 0.0), (8.0, 0.5)] {
        let run = run("digits-mlp.onnx", Budget::Epsilon(epsilon), 4.0);
        for (canaries, seed) in [(Canaries::Dirac, 1), (Canaries::Dirac, 2), (Canaries::Random, 3)] {
            let (refuted, least) = audited(&run, canaries, seed);
            assert!(!refuted && least >= trace && least <= epsilon, "{canaries:?} {least} at {epsilon}");
        }
    }
}
