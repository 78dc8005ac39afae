//! Builds the report of a run, field by field.

use super::early_stop::EarlyStop;
use super::fields::{
    CorrelationReport, DataReport, Execution, HeldOutNoise, HeldOutRecord, MechanismReport, NOT_TESTED,
    NormalizeReport, REFUTED, RecordingReport, TESTED, TestFigures, TrainReport, Training, Versions,
};
use super::loss::{label_weights_text, loss_name, reduction_name};
use super::method::{GaLoreReport, LoraReport, MethodReport, NormStepReport};
use super::non_finite::NonFiniteReport;
use super::privacy::privacy;
use crate::digest::digest;
use damper_accounting::{CorrelatedNoise, Event, Plan};
use damper_data::{DataNames, Normalize, TableNames};
use damper_grad::Loss;
use damper_train::{Evaluation, Independence, Named, NoiseKind, Outcome, Run, TestMetrics};

impl TrainReport {
    /// Returns the report of `run`, which produced `outcome`.
    pub fn new(run: &Run, outcome: &Outcome) -> Self {
        Self {
            epsilon: run.price.epsilon,
            delta: run.config.delta,
            noise_multiplier: run.price.plan.as_ref().map_or(0.0, Plan::smallest_multiplier),
            sampling_rate: run.priced_rate().as_f64(),
            steps: outcome.steps,
            accountant: run.config.accountant,
            test: TestFigures::new(run, outcome),
            execution: Execution::new(run, outcome),
            run: run.kind().to_string().into(),
            origin: None,
            privacy: privacy(run),
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

/// Returns the public facts about the data's files, if there are any.
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

/// Returns the trained model's values, by name.
fn released<'a>(run: &Run, outcome: &'a Outcome) -> Named<'a> {
    run.released(&outcome.params).unwrap_or_default()
}

/// Returns the digest of all parameters of the trained model.
fn params_digest(run: &Run, params: &[f32]) -> String {
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

impl TestFigures {
    /// Returns the figures of the last evaluation.
    pub(super) fn new(run: &Run, outcome: &Outcome) -> Self {
        let last: Option<&Evaluation> = outcome.evaluations.last();
        Self {
            accuracy: last.and_then(|at| at.accuracy),
            loss: last.map(|at| at.loss),
            perplexity: perplexity(run, outcome),
            r_squared: last.and_then(|at| damper_train::r_squared(run, at.loss)),
        }
    }
}

impl Execution {
    pub(super) fn new(run: &Run, outcome: &Outcome) -> Self {
        Self {
            seconds: outcome.seconds.ceil(),
            backend: outcome.backend.into(),
            host_nodes: outcome.host_nodes.as_ref().map(|nodes| nodes.iter().map(ToString::to_string).collect()),
            params_digest: params_digest(run, &outcome.params),
        }
    }
}

impl Versions {
    /// Returns versions and processor of `outcome`, and the result on the independence of samples.
    pub(super) fn new(outcome: &Outcome, sample_independence: &'static str) -> Self {
        Self {
            damper: env!("CARGO_PKG_VERSION").into(),
            bits_contract: damper_core::numerics::CONTRACT,
            backend: outcome.backend_version.clone(),
            operators: outcome.operators.name().into(),
            sample_independence: sample_independence.into(),
            platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        }
    }
}

/// Returns the exponential of the last loss, if a sample has several labels and the loss has no noise.
fn perplexity(run: &Run, outcome: &Outcome) -> Option<f64> {
    let last = outcome.evaluations.last().filter(|_| per_token(run) && run.price.private_metrics.is_none());
    last.map(|at| at.loss.exp()).filter(|value| value.is_finite())
}

pub(super) fn held_out(run: &Run, outcome: &Outcome) -> Option<HeldOutRecord> {
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
    Some(HeldOutRecord {
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
            (TestMetrics::Exact, Loss::SoftmaxCrossEntropy | Loss::CausalLm | Loss::BceWithLogits) => {
                Some("not computed: too many classes, or the output does not have the samples in front".into())
            }
            (TestMetrics::Exact, _) => Some("none: the loss has no classes".into()),
        },
    })
}

fn normalize(run: &Run, outcome: &Outcome) -> Option<NormalizeReport> {
    let (normalize, constants) = (run.config.normalize_private.as_ref()?, outcome.normalize.as_ref()?);
    let noise_multiplier = outcome.recorded.parts().normalize?;
    let alone = Event::gaussian(noise_multiplier).ok()?;
    Some(NormalizeReport {
        constants: constants.to_string(),
        bounds: Normalize { means: normalize.lows.clone(), stds: normalize.highs.clone() }.to_string(),
        noise_multiplier,
        noise: normalize.noise(constants.means.len(), run.config.dataset_size.unwrap_or(run.data.train.len() as u64)),
        epsilon: alone.epsilon(run.config.accountant, run.config.delta).ok()?.epsilon,
    })
}

/// Returns true if a sample has several class labels.
fn per_token(run: &Run) -> bool {
    run.data.test.as_ref().is_some_and(|split| split.labels().are_several_classes())
}

fn mechanism(run: &Run) -> MechanismReport {
    let exact = run.config.noise == NoiseKind::Discrete;
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
            noise_correlation: CorrelatedNoise::from(correlated).to_string(),
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

/// Returns the warnings, and the steps lost to interruptions.
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
    let difference = outcome.difference.as_ref().map(|difference| {
        format!("in a test before the run a sample's gradient did not depend on that sample alone: {difference}")
    });
    run.warnings.public.iter().cloned().chain(lost).chain(early).chain(difference).collect()
}
