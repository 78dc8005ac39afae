//! What a run says about itself: `report.json`, `metrics.csv`, and a few lines for people.
//!
//! # Privacy
//!
//! A report holds public constants, the released parameters' digest, figures on the held-out samples, and the time it took. No key, no
//! exact count of what happened to training samples, no hash of data. ε covers the training samples in it, except that `seconds`
//! depends on the samples drawn. It covers the held-out samples with `--test-metrics private` alone.

mod audit;
pub mod compare;
mod curves;
mod evidence;
mod folder;
mod guideline;
mod html;
mod method;
mod metrics;
pub mod page;
mod plot;
mod statement;
mod text;
mod unfinished;

pub use audit::{Audit, Figure};
pub use curves::{AtDelta, AtSteps, Curves};
pub use evidence::{Evidence, EvidenceError, Released, recorded};
pub use folder::{OutputFolder, create_ledger_folder};
pub use guideline::Item;
pub use html::html;
pub use method::{GaLoreReport, MethodReport, NormStepReport, OptimizerReport};
pub use statement::{Difference, Statement};
pub use unfinished::{Unfinished, is_finished, paid, planned};

use damper_accounting::{Accountant, Sampler, Truncation};
use damper_core::accounting::Rate;
use damper_data::Labels;
use damper_grad::{DeriveOptions, Loss, Reduction};
use damper_onnx::pb::ModelProto;
use damper_onnx::{TrainedError, set_run, write_trained};
use damper_train::files;
use damper_train::{
    CLIPPED_BY_BACKEND, EXACT, Evaluation, Independence, Noise, Outcome, Run, TestMetrics, ThresholdRule,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Written after the ε of a simulation.
pub const SIMULATION: &str = "  SIMULATION: the seed is known, nothing of it is private";

/// Of a sample's gradient, by the test before the run.
const TESTED: &str = "tested for this model on this machine before the run, on made-up samples only: the same bits in another row of \
                      the batch and next to other samples";
const REFUTED: &str = "NOT so: before the run, on made-up samples, its bits changed with its row or with the other samples of the \
                       batch; --physical-batch 1 gives each sample a batch of its own";
const NOT_TESTED: &str = "not shown: the backend sums clipped gradients, and there is no sample's gradient to compare";

/// The report of a run. The fixed keys come first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TrainReport {
    /// ε of the whole run, rounded up.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// σ over the clip as it ran, all releases of a draw together; under a noise schedule that of the draw with the least
    /// noise.
    pub noise_multiplier: f64,
    /// The rate, as the nearest float to the exact fraction of [`Privacy::sampling_rate_exact`].
    pub sampling_rate: f64,
    /// Steps, each of which released one gradient: draws, or batches.
    pub steps: u32,
    /// `pld` or `rdp`.
    pub accountant: Accountant,
    /// Share of right answers on the held-out samples; none without such samples, or where the loss has no classes.
    pub test_accuracy: Option<f64>,
    /// Mean loss on the held-out samples: of a class, a token or, with other losses, a sample.
    pub test_loss: Option<f64>,
    /// `e` to that power, where a sample has several labels: what a language model is measured by.
    pub test_perplexity: Option<f64>,
    /// Whole seconds of training, evaluation included, rounded up. How long a step takes depends on the samples drawn, so ε does
    /// not cover this figure.
    pub seconds: f64,
    /// `tract`, `ort` or `cuda`: what really ran.
    pub backend: Cow<'static, str>,
    /// SHA-256 of the trained parameters: f32, little-endian, in the gradient graph's order.
    pub params_digest: String,
    /// `private`, or `simulation` where the user gave the seed.
    pub run: Cow<'static, str>,
    /// What the figures claim and assume.
    pub privacy: Privacy,
    /// What was added to the gradients.
    pub mechanism: MechanismReport,
    /// What was done to gradients.
    pub method: MethodReport,
    /// How it was trained.
    pub training: Training,
    /// The samples that `test_accuracy` and `test_loss` are of.
    pub held_out: Option<HeldOut>,
    /// What ran it.
    pub versions: Versions,
    /// The recording of the run, where it was recorded.
    pub recording: Option<RecordingReport>,
    /// What the user was warned about.
    pub warnings: Vec<String>,
}

/// What may be said of a recording.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecordingReport {
    /// The parameters' digest as `damper replay` and every board that plays the recording say it.
    pub params: String,
    /// How secret it is.
    pub secrecy: Cow<'static, str>,
}

/// What the figures claim and assume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Privacy {
    /// Whose presence ε hides.
    pub neighbours: Cow<'static, str>,
    /// What one sample is; none in a record of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Cow<'static, str>>,
    /// N, public: the number declared, or else the one counted.
    pub samples: u64,
    /// The number declared, where it was. The one counted is then in no output.
    pub declared_samples: Option<u64>,
    /// `poisson` or `shuffled`.
    #[serde(default)]
    pub sampler: Sampler,
    /// How batches are drawn.
    pub sampling: Cow<'static, str>,
    /// What was priced: one event a draw, or one an epoch of shuffled batches.
    #[serde(default)]
    pub events: u64,
    /// At which size draws were cut, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// The rate, exactly: `k/2^53`.
    pub sampling_rate_exact: String,
    /// How δ compares with N.
    pub delta_note: String,
    /// How ε was computed.
    pub accountant_note: Cow<'static, str>,
    /// The Rényi order that gave ε; none where privacy loss distributions did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<f64>,
    /// `exact` or `float`.
    pub path: Cow<'static, str>,
    /// What that means.
    pub path_note: Cow<'static, str>,
    /// What was fixed before the data was used, and what followed from releases.
    pub fixed_beforehand: String,
    /// What ε does not protect because it is taken to be public.
    pub taken_as_public: Cow<'static, str>,
    /// Other runs are not counted.
    pub composition: Cow<'static, str>,
    /// What ε covers.
    pub covered: Cow<'static, str>,
    /// What it does not, and what was not released.
    pub not_covered: Cow<'static, str>,
    /// Which iterate `model.onnx` is.
    pub released_model: Cow<'static, str>,
}

impl Privacy {
    /// Whether the figures are of what ran, bit for bit.
    fn is_exact(&self) -> bool {
        self.path == EXACT
    }

    /// N for the rate.
    fn public_samples(&self) -> u64 {
        self.declared_samples.unwrap_or(self.samples)
    }
}

/// What was added to the gradients.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MechanismReport {
    /// `discrete-gaussian` or `continuous-gaussian`.
    pub name: Cow<'static, str>,
    /// σ in grid units, on the exact path.
    pub sigma_grid: Option<u32>,
    /// The clip is `2^grid_bits` grid units, on the exact path.
    pub grid_bits: Option<u32>,
    /// The threshold C on a sample's gradient, in the Euclidean norm over all trained parameters; the first step's, where
    /// it is learned.
    pub clip: f32,
    /// σ over the clip of the gradient's noise, before a noise schedule scales it.
    pub gradient_multiplier: f64,
    /// σ of the noise on each released count, where counts are released.
    pub count_noise_multiplier: Option<f64>,
    /// The constant that the noisy sum is divided by; where the number of samples was declared, no expected number of samples.
    pub expected_batch: u32,
    /// Where the noise and the draws came from.
    pub generator: Cow<'static, str>,
    /// The seed of a simulation; that of a private run is never told.
    pub seed: Option<u64>,
}

/// How it was trained.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Training {
    /// As `--method` takes it.
    pub method: String,
    /// The optimizer and its settings.
    pub optimizer: OptimizerReport,
    /// Step sizes from the norms of released gradients.
    pub adagrad_norm: Option<NormStepReport>,
    /// A low-rank projection of the matrices.
    pub galore: Option<GaLoreReport>,
    /// The learning rate.
    pub lr: f64,
    /// Passes over the data that were asked for.
    pub epochs: f64,
    /// The loss.
    pub loss: String,
    /// `mean` or `sum` over a sample's tokens or elements; none where the model computes its loss.
    pub reduction: Option<Cow<'static, str>>,
    /// The model output that feeds it.
    pub output: String,
    /// The public seed of the initial parameters, where the model file leaves them out.
    pub init_seed: Option<u64>,
    /// Number of trained numbers.
    pub parameters: usize,
    /// The trained tensors, in the order of [`TrainReport::params_digest`].
    #[serde(default)]
    pub tensors: Vec<String>,
    /// Rows of the one physical batch shape.
    pub physical_batch: usize,
    /// Threads.
    pub workers: usize,
}

/// The samples that the metrics are of.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldOut {
    /// Their number.
    pub samples: usize,
    /// What accuracy and loss are averaged over: `samples`, or their `labels` where a sample has several (tokens).
    pub counted: Cow<'static, str>,
    /// Whether ε protects them.
    pub public: Cow<'static, str>,
    /// `exact`, `private` or `none`, as `--test-metrics` takes it.
    #[serde(default = "exact")]
    pub metrics: Cow<'static, str>,
    /// The noise of private metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<HeldOutNoise>,
}

/// What a record of an earlier version has.
fn exact() -> Cow<'static, str> {
    "exact".into()
}

/// The noise of private metrics.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HeldOutNoise {
    /// σ on the number of right answers, and on the sum of losses over `loss_bound`: in samples.
    pub noise_multiplier: f64,
    /// σ over the sensitivity of one evaluation, its sums together.
    pub joint_noise_multiplier: f64,
    /// A sample's loss counts as so much at most, above and below zero.
    pub loss_bound: f32,
    /// Evaluations charged.
    pub evaluations: u32,
    /// ε of all of them at the run's δ.
    pub epsilon: f64,
}

/// What ran it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Versions {
    /// damper's version.
    pub damper: Cow<'static, str>,
    /// The number of the contract on bits.
    pub bits_contract: u32,
    /// The backend's version, as it reports it.
    pub backend: String,
    /// Whether a sample's gradient was shown not to depend on its row, chunk and neighbours.
    pub sample_independence: Cow<'static, str>,
    /// Processor and system.
    pub platform: String,
}

impl TrainReport {
    /// The report of `run`, which gave `outcome`.
    pub fn new(run: &Run, outcome: &Outcome) -> Self {
        let last: Option<&Evaluation> = outcome.evaluations.last();
        let simulation = run.config.seed.is_some();
        Self {
            epsilon: run.epsilon,
            delta: run.config.delta,
            noise_multiplier: run.plan.smallest_multiplier(),
            sampling_rate: run.priced_rate().as_f64(),
            steps: outcome.steps,
            accountant: run.config.accountant,
            test_accuracy: last.and_then(|at| at.accuracy),
            test_loss: last.map(|at| at.loss),
            test_perplexity: last.filter(|_| per_token(run) && run.private_metrics.is_none()).map(|at| at.loss.exp()).filter(|value| value.is_finite()),
            seconds: outcome.seconds.ceil(),
            backend: outcome.backend.into(),
            params_digest: digest(&outcome.params),
            run: run.kind().to_string().into(),
            privacy: privacy(run, simulation),
            mechanism: mechanism(run),
            method: MethodReport::new(run, outcome),
            training: training(run, outcome),
            held_out: held_out(run),
            versions: Versions {
                damper: env!("CARGO_PKG_VERSION").into(),
                bits_contract: damper_core::numerics::CONTRACT,
                backend: outcome.backend_version.clone(),
                sample_independence: match outcome.independence {
                    Independence::Tested => TESTED,
                    Independence::Refuted => REFUTED,
                    Independence::NotTested => NOT_TESTED,
                }
                .into(),
                platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            },
            recording: run.config.record.as_ref().map(|_| RecordingReport {
                params: format!("{:016x}", damper_core::numerics::digest::Digest::of(&outcome.params).value()),
                secrecy: "not covered by epsilon, and as secret as the data: it holds the gradient of every sample drawn and \
                          the key of the noise"
                    .into(),
            }),
            warnings: run.warnings.clone(),
        }
    }

    /// As `report.json` holds it, with a last newline.
    pub fn to_json(&self) -> String {
        files::json(self).expect("a report has string keys and finite numbers")
    }
}

fn held_out(run: &Run) -> Option<HeldOut> {
    let split = run.data.test.as_ref()?;
    let metrics = run.config.test_metrics;
    let of_data = if run.held_out_of_training_file { "they come out of the training file; " } else { "" };
    let secrecy = match metrics {
        TestMetrics::Exact => "not protected by epsilon: accuracy and loss are exact functions of these samples",
        TestMetrics::Private { .. } => {
            "protected by epsilon as training samples are: accuracy and loss have noise, and their releases are charged"
        }
        TestMetrics::None => "not used: nothing was computed from these samples",
    };
    let noise = run.private_metrics.as_ref().and_then(|metrics| {
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
    })
}

/// Whether a sample has several class labels.
fn per_token(run: &Run) -> bool {
    let labels = run.data.test.as_ref().map(|split| split.labels());
    matches!(labels, Some(Labels::Classes { shape, .. }) if !shape.is_empty())
}

/// SHA-256 of released parameters, in hexadecimal.
pub fn digest(params: &[f32]) -> String {
    let mut hash = Sha256::new();
    for chunk in params.chunks(1024) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
        hash.update(&bytes);
    }
    hex(&hash.finalize())
}

/// In hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn privacy(run: &Run, simulation: bool) -> Privacy {
    let samples = run.config.dataset_size.unwrap_or(run.data.train.len() as u64);
    let one_over = 1.0 / samples as f64;
    Privacy {
        neighbours: match run.config.dataset_size {
            None => "one sample replaced by a null sample that contributes nothing; the number of samples is public",
            Some(_) => "one sample replaced by a null sample that contributes nothing; the number of samples is declared",
        }
        .into(),
        sample: Some(run.data.sample.into()),
        samples,
        declared_samples: run.config.dataset_size,
        sampler: run.config.sampler,
        sampling: sampling(run),
        events: run.plan.steps(),
        truncation: run.truncation,
        sampling_rate_exact: format!("{}/{}", run.priced_rate().numerator(), Rate::DENOMINATOR),
        delta_note: format!(
            "delta is {:.3} of 1/N = {one_over:.3e}; N^-1.1 = {:.3e} is the advised maximum",
            run.config.delta / one_over,
            (samples as f64).powf(-1.1)
        ),
        accountant_note: match run.config.accountant {
            Accountant::Pld if run.order.is_some() => {
                "Rényi divergences of the Poisson-subsampled Gaussian, converted to (epsilon, delta), every rounding upward: over so \
                 many steps a smaller bound than that of privacy loss distributions; the discrete Gaussian is bounded by the continuous \
                 one at a multiplier 4e-6 smaller"
            }
            Accountant::Rdp => {
                "Rényi divergences of the Poisson-subsampled Gaussian, converted to (epsilon, delta), every rounding upward"
            }
            Accountant::Pld => {
                "privacy loss distributions of the Poisson-subsampled Gaussian, both directions, composed by a Fourier \
                 transform, every rounding and its own error upward; the discrete Gaussian is bounded by the continuous one \
                 at a multiplier 4e-6 smaller"
            }
        }
        .into(),
        order: run.order,
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
            match run.config.method.threshold.rule {
                ThresholdRule::Fixed => "so was the clip",
                _ => "the clip of each step follows from counts released before it",
            },
            match (run.config.optimizer.norm_step, run.config.optimizer.galore) {
                (Some(_), _) => "; step sizes follow from norms of released gradients",
                (None, Some(_)) => "; the directions of steps follow from released gradients",
                (None, None) => "",
            }
        ),
        taken_as_public: "the number of samples as given here, the classes, scaling, shapes and tokenizer of the data, and the model \
                          file with its initial parameters or their seed"
            .into(),
        composition: "this run alone: every further run on the same data, hyperparameter searches included, adds to epsilon".into(),
        covered: if simulation {
            "nothing: the seed was given, so the noise can be recomputed; epsilon is what a private run would have"
        } else {
            match (run.config.test_metrics, &run.data.test) {
                (TestMetrics::Private { .. }, Some(_)) => {
                    "the training samples and the held-out samples, in model.onnx, events.json, metrics.csv and this report without \
                     `seconds`"
                }
                _ => "the training samples, in model.onnx, events.json, metrics.csv and this report without `seconds`",
            }
        }
        .into(),
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
    if run.data.test.is_some() && run.config.test_metrics == TestMetrics::Exact {
        all.insert(0, "the held-out samples: test_accuracy, test_loss, test_perplexity and metrics.csv are exact functions of them");
    }
    format!(
        "{}. No gradient, norm, batch size, draw, count of dropped rows or training loss was released",
        all.join("; ")
    )
    .into()
}

fn sampling(run: &Run) -> Cow<'static, str> {
    match (run.config.sampler, run.truncation) {
        (Sampler::Poisson, None) => "Poisson: each sample is in each draw independently with exactly the sampling rate".into(),
        (Sampler::Poisson, Some(Truncation { most, .. })) => format!(
            "Poisson: each sample is in each draw independently with exactly the sampling rate; draws of more than {most} samples \
             were cut to {most}, which is paid for out of delta"
        )
        .into(),
        (Sampler::Shuffled, _) => "shuffled: batches of a fixed size out of a new order of all samples each epoch; an epoch is one \
                                   event at a rate of 1, for nothing is claimed of the order"
            .into(),
    }
}

fn mechanism(run: &Run) -> MechanismReport {
    let exact = run.config.noise == Noise::Discrete;
    MechanismReport {
        name: if exact { "discrete-gaussian" } else { "continuous-gaussian" }.into(),
        sigma_grid: run.sigma_grid,
        grid_bits: exact.then_some(run.config.grid_bits),
        clip: run.config.method.threshold.clip,
        gradient_multiplier: run.multiplier,
        count_noise_multiplier: run.count_noise.map(|noise| noise.multiplier()),
        expected_batch: run.config.batch_size,
        generator: match run.config.seed {
            None => "ChaCha20, 256-bit key from the operating system",
            Some(_) => "ChaCha20, key from the seed given: a simulation",
        }
        .into(),
        seed: run.config.seed,
    }
}

/// `model.onnx`: the model of `run` with the trained parameters `params`, flat, in the gradient graph's order, and `damper.run` in
/// its metadata: `private` or `simulation`.
///
/// # Errors
///
/// `params` are not of this run.
pub fn trained_model(run: &Run, params: &[f32]) -> Result<ModelProto, TrainedError> {
    let mut at = 0;
    let parts = run.grad.parameters.iter().map(|spec| {
        let from = at;
        at += spec.elements(1);
        (spec.name.as_str(), params.get(from..at).unwrap_or_default())
    });
    let mut model = write_trained(&run.model, &parts.collect::<Vec<_>>())?;
    set_run(&mut model, &run.kind().to_string());
    Ok(model)
}

fn training(run: &Run, outcome: &Outcome) -> Training {
    Training {
        method: run.config.method.name.clone(),
        optimizer: run.config.optimizer.rule.into(),
        adagrad_norm: NormStepReport::new(run.config.optimizer),
        galore: GaLoreReport::new(run),
        lr: run.config.method.learning_rate.lr,
        epochs: run.config.epochs,
        loss: loss_name(&run.derive.loss),
        reduction: reduction_name(&run.derive).map(Into::into),
        output: run.derive.output.clone().unwrap_or_default(),
        init_seed: run.init_seed,
        parameters: run.grad.trained_len(),
        tensors: run.grad.parameters.iter().map(|spec| spec.name.clone()).collect(),
        physical_batch: run.physical_batch.get(),
        workers: outcome.workers,
    }
}

/// A loss as `--loss` takes it.
pub fn loss_name(loss: &Loss) -> String {
    match loss {
        Loss::SoftmaxCrossEntropy => "softmax-cross-entropy".into(),
        Loss::Mse => "mse".into(),
        Loss::BceWithLogits => "bce-with-logits".into(),
        Loss::Output(name) => format!("output:{name}"),
    }
}

/// A reduction as `--reduction` takes it, where the loss has one.
pub fn reduction_name(options: &DeriveOptions) -> Option<&'static str> {
    match (&options.loss, options.reduction) {
        (Loss::Output(_), _) => None,
        (_, Reduction::Mean) => Some("mean"),
        (_, Reduction::Sum) => Some("sum"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha256_of_the_little_endian_bytes_in_order() {
        // printf '\0\0\200\077\0\0\0\300' | sha256sum
        assert_eq!(digest(&[1.0, -2.0]), "ee4ac73c2bd27756ab82780f27c73a7bc4d3f0bb6acb37e008bc27eccd7e588b");
        let long: Vec<f32> = (0..3000).map(|i| i as f32).collect();
        let bytes: Vec<u8> = long.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(digest(&long), hex(&Sha256::digest(&bytes)));
    }
}
