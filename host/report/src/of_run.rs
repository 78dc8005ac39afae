//! Builds the report of a run, field by field.

use super::digest::digest;
use super::early_stop::EarlyStop;
use super::loss::{label_weights_text, loss_name, reduction_name};
use super::method::{GaLoreReport, LoraReport, MethodReport, NormStepReport};
use super::non_finite::NonFiniteReport;
use super::notes;
use super::train_report::{
    CorrelationReport, DataReport, HeldOut, HeldOutNoise, MechanismReport, NOT_TESTED, NormalizeReport, Privacy,
    REFUTED, RecordingReport, TESTED, TrainReport, Training, Versions,
};
use damper_accounting::{Correlated, Plan, Recorded, Sampler, Truncation};
use damper_budget::EXACT;
use damper_core::accounting::Rate;
use damper_data::{DataNames, Normalize, TableNames};
use damper_grad::Loss;
use damper_train::{CLIPPED_BY_BACKEND, Evaluation, Independence, Named, Noise, Outcome, Run, TestMetrics};
use std::borrow::Cow;

impl TrainReport {
    /// The report of `run`, which gave `outcome`.
    pub fn new(run: &Run, outcome: &Outcome) -> Self {
        let last: Option<&Evaluation> = outcome.evaluations.last();
        let simulation = run.config.seed.is_some();
        Self {
            epsilon: run.price.epsilon,
            delta: run.config.delta,
            noise_multiplier: run.price.plan.as_ref().map_or(0.0, Plan::smallest_multiplier),
            sampling_rate: run.priced_rate().as_f64(),
            steps: outcome.steps,
            accountant: run.config.accountant,
            test_accuracy: last.and_then(|at| at.accuracy),
            test_loss: last.map(|at| at.loss),
            test_perplexity: perplexity(run, outcome),
            seconds: outcome.seconds.ceil(),
            backend: outcome.backend.into(),
            params_digest: params_digest(run, &outcome.params),
            run: run.kind().to_string().into(),
            privacy: privacy(run, simulation),
            mechanism: mechanism(run),
            method: MethodReport::new(run, outcome),
            training: training(run, outcome),
            data: data(run),
            held_out: held_out(run, outcome),
            normalize: normalize(run, outcome),
            non_finite: outcome.non_finite.as_ref().and_then(|count| NonFiniteReport::new(run, count)),
            early_stop: EarlyStop::new(run, outcome, outcome.best.as_ref().map(|best| params_digest(run, best))),
            versions: Versions::new(
                outcome,
                match outcome.independence {
                    Independence::Tested => TESTED,
                    Independence::Refuted => REFUTED,
                    Independence::NotTested => NOT_TESTED,
                },
            ),
            recording: outcome.is_recorded.then(|| RecordingReport {
                params: format!("{:016x}", damper_core::numerics::digest::Digest::of(&outcome.params).value()),
                secrecy: "not covered by epsilon, and as secret as the data: it holds the gradient of every sample drawn and \
                          the key of the noise"
                    .into(),
            }),
            command: vec![],
            warnings: warnings(run, outcome),
        }
    }
}

/// What is public of the data's files; none if there is nothing.
fn data(run: &Run) -> Option<DataReport> {
    let DataNames { table, classes } = run.data.names.clone();
    let found = DataReport {
        columns: table.iter().flat_map(TableNames::features).cloned().collect(),
        label: table.and_then(|table| table.label),
        classes: classes.unwrap_or_default(),
        notes: run.data.notes.clone(),
    };
    (found != DataReport::default()).then_some(found)
}

/// The trained model's values, by name.
fn released<'a>(run: &Run, outcome: &'a Outcome) -> Named<'a> {
    run.released(&outcome.params).unwrap_or_default()
}

/// The digest of what the trained model holds: of all parameters together.
pub(super) fn params_digest(run: &Run, params: &[f32]) -> String {
    match &run.model.adapted {
        None => digest(params),
        Some(_) => digest(
            &run.released(params)
                .unwrap_or_default()
                .iter()
                .flat_map(|(_, values)| values.iter().copied())
                .collect::<Vec<_>>(),
        ),
    }
}

impl Versions {
    /// Versions and processor of `outcome`, and what is known about the independence of samples.
    pub(super) fn new(outcome: &Outcome, sample_independence: &'static str) -> Self {
        Self {
            damper: env!("CARGO_PKG_VERSION").into(),
            bits_contract: damper_core::numerics::CONTRACT,
            backend: outcome.backend_version.clone(),
            operators: outcome.operators.name().into(),
            ways: outcome.ways.iter().map(|(layer, way)| format!("{layer}: {}", way.name())).collect(),
            sample_independence: sample_independence.into(),
            platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        }
    }
}

/// `e` to the power of the last loss, if a sample has several labels and the loss has no noise.
pub(super) fn perplexity(run: &Run, outcome: &Outcome) -> Option<f64> {
    let last = outcome.evaluations.last().filter(|_| per_token(run) && run.price.private_metrics.is_none());
    last.map(|at| at.loss.exp()).filter(|value| value.is_finite())
}

pub(super) fn held_out(run: &Run, outcome: &Outcome) -> Option<HeldOut> {
    let split = run.data.test.as_ref()?;
    let metrics = run.config.test_metrics;
    let of_data = match (run.held_out.of_training_file, run.held_out.are_stratified) {
        (true, false) => "they come out of the training file; ",
        (true, true) => "they come out of the training file, the same fraction of each class; ",
        (false, _) => "",
    };
    let secrecy = match metrics {
        TestMetrics::Exact => {
            "not protected by epsilon: accuracy, loss and figures by class are exact functions of these samples"
        }
        TestMetrics::Private { .. } => {
            "protected by epsilon as training samples are: accuracy and loss have noise, and their releases are charged"
        }
        TestMetrics::None => "not used: nothing was computed from these samples",
    };
    let noise = run.price.private_metrics.as_ref().and_then(|metrics| {
        Some(HeldOutNoise {
            noise_multiplier: metrics.noise.multiplier(),
            joint_noise_multiplier: metrics.event()?.multiplier(),
            loss_bound: metrics.loss_bound,
            evaluations: metrics.releases,
            epsilon: metrics.plan.epsilon(run.config.accountant, run.config.delta).ok()?.epsilon,
        })
    });
    Some(HeldOut {
        samples: split.len(),
        counted: if per_token(run) && noise.is_none() { "labels" } else { "samples" }.into(),
        public: format!("{of_data}{secrecy}").into(),
        metrics: metrics.name().into(),
        noise,
        by_class: outcome.class_metrics.clone(),
        last_iterate: outcome.last_iterate,
        by_class_missing: match (metrics, &run.model.derive.loss) {
            _ if outcome.class_metrics.is_some() => None,
            (TestMetrics::Private { .. }, _) => {
                Some("not released: private metrics are accuracy and loss alone".into())
            }
            (TestMetrics::None, _) => Some("not computed".into()),
            (TestMetrics::Exact, Loss::SoftmaxCrossEntropy | Loss::BceWithLogits) => {
                Some("not computed: too many classes, or the output does not have the samples in front".into())
            }
            (TestMetrics::Exact, _) => Some("none: the loss has no classes".into()),
        },
    })
}

fn normalize(run: &Run, outcome: &Outcome) -> Option<NormalizeReport> {
    let (normalize, constants) = (run.config.normalize_private.as_ref()?, outcome.normalize.as_ref()?);
    let release = outcome.recorded.normalize?;
    let alone = Recorded { events: vec![release], ..Recorded::new(run.config.accountant, run.config.delta, &[]) };
    Some(NormalizeReport {
        constants: constants.to_string(),
        bounds: Normalize { means: normalize.lows.clone(), stds: normalize.highs.clone() }.to_string(),
        noise_multiplier: release.noise_multiplier,
        noise: normalize.noise(constants.means.len(), run.config.dataset_size.unwrap_or(run.data.train.len() as u64)),
        epsilon: alone.epsilon(run.config.accountant, run.config.delta).ok()?.epsilon,
    })
}

/// Returns true if a sample has several class labels.
fn per_token(run: &Run) -> bool {
    run.data.test.as_ref().is_some_and(|split| split.labels().are_several_classes())
}

fn privacy(run: &Run, simulation: bool) -> Privacy {
    let samples = run.config.dataset_size.unwrap_or(run.data.train.len() as u64);
    let one_over = 1.0 / samples as f64;
    Privacy {
        neighbours: match run.config.dataset_size {
            None if run.held_out.are_stratified => {
                "one sample replaced by a null sample that contributes nothing; the number of samples and the class of each are public"
            }
            None => "one sample replaced by a null sample that contributes nothing; the number of samples is public",
            Some(_) => "one sample replaced by a null sample that contributes nothing; the number of samples is declared",
        }
        .into(),
        sample: Some(run.data.sample.into()),
        samples,
        declared_samples: run.config.dataset_size,
        sampler: run.config.sampler,
        sampling: sampling(run),
        events: run.price.plan.as_ref().map_or(0, Plan::steps),
        truncation: run.price.terms.truncation,
        sampling_rate_exact: format!("{}/{}", run.priced_rate().numerator(), Rate::DENOMINATOR),
        delta_note: format!(
            "delta is {:.3} of 1/N = {one_over:.3e}; N^-1.1 = {:.3e} is the advised maximum",
            run.config.delta / one_over,
            (samples as f64).powf(-1.1)
        ),
        accountant_note: notes::accountant(
            run.config.accountant,
            run.price.order.is_some(),
            run.config.sampler,
            run.price.terms.correlated.is_some(),
            run.config.noise == Noise::Discrete,
        )
        .into(),
        order: run.price.order,
        path: run.path().into(),
        path_note: match run.path() {
            EXACT => {
                "gradients are clipped onto an integer grid, the bound is checked in integers, sums and noise are integers"
            }
            CLIPPED_BY_BACKEND => {
                "NOT exact: that a sample adds at most the clip holds in the backend's floats and was not checked; sums and \
                 noise are floats, and epsilon is that of the ideal continuous Gaussian mechanism"
            }
            _ => "NOT exact: sums and noise are floats, and epsilon is that of the ideal continuous Gaussian mechanism",
        }
        .into(),
        fixed_beforehand: format!(
            "batch size, rate, steps, noise of every step and learning-rate schedule were fixed before the first step; {}{}",
            if run.config.method.threshold.is_fixed() {
                "so was the clip"
            } else {
                "the clip of each step follows from counts released before it"
            },
            match (run.config.optimizer.norm_step, run.config.optimizer.galore) {
                (Some(_), _) => "; step sizes follow from norms of released gradients",
                (None, Some(_)) => "; the directions of steps follow from released gradients",
                (None, None) => "",
            }
        ),
        taken_as_public: format!(
            "the number of samples as given here, the classes, {}, shapes and tokenizer of the data, and the model file with its initial \
             parameters or their seed",
            if run.config.normalize_private.is_some() { "bounds of the features" } else { "scaling" }
        )
        .into(),
        composition: "this run alone: every further run on the same data, hyperparameter searches included, adds to epsilon".into(),
        covered: if simulation {
            "nothing: the seed was given, so the noise can be recomputed; epsilon is what a private run would have".into()
        } else {
            let held_out = match (run.config.test_metrics, &run.data.test) {
                (TestMetrics::Private { .. }, Some(_)) => " and the held-out samples",
                _ => "",
            };
            let normalize = match run.config.normalize_private {
                None => "",
                Some(_) => "the released means and deviations of the features, ",
            };
            let best = if run.config.stop_early.is_some() { ", model-best.onnx" } else { "" };
            let count = match run.config.release_non_finite {
                None => "",
                Some(_) => "the released number of samples without a finite gradient, ",
            };
            format!("the training samples{held_out}, in {normalize}{count}model.onnx{best}, events.json, metrics.csv and this report without `seconds`").into()
        },
        not_covered: not_covered(run),
        released_model: match run.config.average {
            None => "the last iterate".into(),
            Some(averaging) => format!("{averaging} of released parameters; held-out figures are of the same mean").into(),
        },
    }
}

fn not_covered(run: &Run) -> Cow<'static, str> {
    let mut all = vec![
        "`seconds` in whole seconds, for a step's time depends on the samples drawn",
        if run.config.record.is_some() {
            "the folder checkpoint/ and the recording, which are as secret as the data"
        } else {
            "the folder checkpoint/, which is as secret as the data"
        },
    ];
    let is_exact = run.data.test.is_some() && run.config.test_metrics == TestMetrics::Exact;
    if is_exact && run.config.stop_early.is_some() {
        all.insert(0, "where the run ended and which step model-best.onnx is of, which follow from those figures");
    }
    if is_exact {
        all.insert(0, "the held-out samples: test_accuracy, test_loss, test_perplexity, the figures by class and metrics.csv are exact functions of them");
    }
    format!(
        "{}. No gradient, norm, {}, count of dropped rows or training loss was released",
        all.join("; "),
        if run.config.sampler.has_coins() { "draw, number of samples in a draw" } else { "order of the samples" }
    )
    .into()
}

fn sampling(run: &Run) -> Cow<'static, str> {
    match (run.config.sampler, run.price.terms.truncation) {
        (Sampler::Poisson, None) => "Poisson: each sample is in each draw independently with exactly the sampling rate".into(),
        (Sampler::Poisson, Some(Truncation { most, .. })) => format!(
            "Poisson: each sample is in each draw independently with exactly the sampling rate; draws of more than {most} samples \
             were cut to {most}, which is paid for out of delta"
        )
        .into(),
        (Sampler::CyclicPoisson, _) => format!(
            "cyclic Poisson: each sample is in one of {} groups, and in each draw from it independently with exactly the sampling rate; a draw \
             of each group is one event",
            run.config.groups()
        )
        .into(),
        (Sampler::MinSeparation, _) if run.price.terms.correlated.is_some() => {
            "minimum separation: the same batches of a fixed size in the same order each epoch; the whole run is one event at a rate of 1".into()
        }
        (Sampler::MinSeparation, _) => {
            "minimum separation: the same batches of a fixed size in the same order each epoch; an epoch is one event at a rate of 1".into()
        }
        (Sampler::Shuffled, _) => "shuffled: batches of a fixed size out of a new order of all samples each epoch; an epoch is one \
                                   event at a rate of 1, for nothing is claimed of the order"
            .into(),
    }
}

fn mechanism(run: &Run) -> MechanismReport {
    let exact = run.config.noise == Noise::Discrete;
    MechanismReport {
        name: if exact { "discrete-gaussian" } else { "continuous-gaussian" }.into(),
        sigma_grid: run.price.terms.sigma_grid,
        grid_bits: exact.then_some(run.config.grid_bits),
        clip: run.config.method.threshold.clip(),
        gradient_multiplier: match &run.price.terms.correlated {
            Some(correlated) => f64::from(correlated.sigma) / f64::from(correlated.grid_bits).exp2(),
            None => run.price.terms.multiplier,
        },
        correlation: run.price.terms.correlated.as_ref().map(|correlated| CorrelationReport {
            noise_correlation: Correlated::from(correlated).to_string(),
            sensitivity: correlated.sensitivity(),
            separation: correlated.participation.separation(),
            participations: correlated.participation.participations(),
            // The run was prepared with it.
            rounding_share: correlated.rounding_share().unwrap_or_default(),
        }),
        count_noise_multiplier: run.price.terms.count_noise.map(|noise| noise.multiplier()),
        expected_batch: run.config.batch_size,
        generator: match run.config.seed {
            None => "ChaCha20, 256-bit key from the operating system",
            Some(_) => "ChaCha20, key from the seed given: a simulation",
        }
        .into(),
        seed: run.config.seed,
    }
}

pub(super) fn training(run: &Run, outcome: &Outcome) -> Training {
    Training {
        method: run.config.method.name.clone(),
        optimizer: run.config.optimizer.rule.into(),
        adagrad_norm: NormStepReport::new(run.config.optimizer),
        galore: GaLoreReport::new(run),
        lr: run.config.method.learning_rate.lr,
        epochs: run.config.epochs,
        loss: loss_name(&run.model.derive.loss),
        reduction: reduction_name(&run.model.derive).map(Into::into),
        augment: run.config.augment.map(|augment| augment.to_string()),
        label_weights: label_weights_text(&run.model.derive.label_weights),
        label_scale: run.data.train.label_scale().map(|(mean, std)| format!("{mean},{std}")),
        output: run.model.derive.output.clone().unwrap_or_default(),
        init_seed: run.model.init_seed,
        parameters: run.model.grad.trained_len(),
        tensors: released(run, outcome).into_iter().map(|(name, _)| name).collect(),
        lora: LoraReport::new(run),
        physical_batch: run.model.physical_batch.get(),
        workers: outcome.workers,
    }
}

/// The warnings given, and the steps lost to interruptions.
fn warnings(run: &Run, outcome: &Outcome) -> Vec<String> {
    let lost = (outcome.lost_steps > 0).then(|| {
        format!(
            "{} of the {} steps have no part in the model: the run was stopped and went on with another program, backend or \
             processor, so it charged them and did not take them again",
            outcome.lost_steps, outcome.steps
        )
    });
    let early = outcome.ended_early.map(|taken| {
        format!(
            "the run ended early, after step {taken}, for its evaluations had stopped to improve; epsilon is that of all {} \
             planned steps{}",
            outcome.steps,
            match run.config.test_metrics {
                TestMetrics::Private { .. } => "",
                TestMetrics::Exact | TestMetrics::None => {
                    ", and does not cover that exact held-out figures ended it"
                }
            }
        )
    });
    run.warnings.public.iter().cloned().chain(lost).chain(early).collect()
}
