//! `damper train`: from a model, a data set and a budget to a folder with a private model and its report.

use super::augment::augment;
use super::charge::Charge;
use super::data::{DataArgs, NormalizeArgs, TestMetricsArg, TestMetricsArgs};
use super::epsilon::accountant;
use super::events::Events;
use super::factorize::objective;
use super::finish::{Target, finished, stopped};
use super::flags::with_flags;
use super::machine::MachineArgs;
use super::method::MethodArgs;
use super::model::{ModelArgs, bytes_text, memory};
use super::optimizer::OptimizerArgs;
use super::ranks::{follow, keep_shard, on_ranks};
use super::resume;
use super::signals::Signals;
use super::watch::RunWatcher;
use super::{Failure, FailureKind, number32, warn, warn_of_data};
use clap::{Args, ValueEnum};
use damper_accounting::factor::Objective;
use damper_accounting::{Accountant, Sampler};
use damper_core::average::Averaging;
use damper_data::Augment;
use damper_grad::Readout;
use damper_report::{OutputFolder, is_finished};
use damper_runtime::Choice;
use damper_train::files::{self, Access};
use damper_train::{
    self as train, Budget, Checkpoint, Group, Invocation, Noise, NoiseCorrelation, Record, Run, RunPlan, Source,
    TestMetrics, TrainConfig, agree,
};
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;
use std::time::Duration;

/// The bound on a held-out sample's loss where none is given. A share of e^-10 for the right class has this loss.
const LOSS_BOUND: f32 = 10.0;

/// δ where a multiplier was given and no δ.
const DELTA: f64 = 1e-5;

const AFTER_HELP: &str = "\
Example, handwritten digits in seconds:
  damper train onnx-models/digits-cnn.onnx --data idx:onnx-models/digits \\
    --epsilon 3 --delta 1e-5 --batch-size 128 --epochs 40 \\
    --optimizer momentum --lr 1 --clip 0.1 --out run

The same from a file of flags without their dashes, with another budget:
  damper train run.toml --epsilon 1
where run.toml is
  model = \"onnx-models/digits-cnn.onnx\"
  data = \"idx:onnx-models/digits\"
  epsilon = 3.0
  delta = 1e-5
  batch-size = 128
  epochs = 40
  optimizer = \"momentum\"
  lr = 1.0
  clip = 0.1
  out = \"run\"
Its paths are relative to run.toml; what is read may also lie in the working
directory.

A baseline without privacy, marked so in all it writes, with a learning rate of
its own (of run.toml, epsilon, delta and clip do not count then):
  damper train run.toml --not-private --lr 0.1 --out baseline

The folder --out then holds model.onnx, report.html, report.json, statement.json,
events.json and metrics.csv. Epsilon covers the training samples in them, and the
held-out samples with --test-metrics private only; it does not cover `seconds`.
The private folder checkpoint/ is as secret as the data.

A run that Ctrl-C, a kill, a full disk or a power cut has stopped goes on with
  damper train --resume run
and ends with the same bits. Its state is in checkpoint/ with the key of its noise,
until the run is finished. Ctrl-C once ends the run after its step and writes the
model so far, twice ends it at once. From the first paid step on the ledger in
checkpoint/ counts against the data: damper epsilon DIR gives its epsilon.";

/// Trains a model with differential privacy.
#[derive(Args, Debug)]
#[command(allow_negative_numbers = true, after_help = AFTER_HELP)]
pub(super) struct TrainArgs {
    /// The model, exported as .onnx; or a file of flags, run.toml, which flags given here override
    #[arg(value_name = "MODEL.onnx|RUN.toml", required_unless_present = "model_file")]
    model: Option<PathBuf>,
    /// The model of a run file.
    #[arg(long, hide = true)]
    model_file: Option<PathBuf>,
    /// Keeps a copy of the model in the private folder, from which a resumed run reads it: for programs whose file is temporary.
    #[arg(long, hide = true)]
    copy_model: bool,
    /// Folder for the outputs; made, and must not be there or be empty
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Goes on with the run in DIR that Ctrl-C, a kill or an error stopped, with its own settings; --quiet, --json, --workers and
    /// --checkpoint-every may be given as well
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Seconds between two writes of the state to go on from, into the private folder DIR/checkpoint; 0: after each step
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    checkpoint_every: f64,
    /// Keeps no state to go on from, and so no key on the disk: a run that stops cannot be resumed
    #[arg(long, conflicts_with = "resume")]
    no_checkpoint: bool,
    /// If MPI has started several processes, each holds its shard of the training samples alone, after it has read them; samples beyond
    /// --data-memory are in a file of the temporary folder
    #[arg(long)]
    shard_data: bool,
    /// The settings as they were given.
    #[arg(skip)]
    pub(super) invocation: Option<Invocation>,
    /// Measures, before the first step, which way of computing each kind of layer is the fastest here: damper's kernels or onnxruntime's. Kept for
    /// the network, the processor and the program in DIR [default: the user's folder of caches]. Another way has other bits
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    tune: Option<Option<PathBuf>>,
    /// Prints the report as one JSON object on standard output, and nothing else there
    #[arg(long)]
    pub(super) json: bool,
    /// No progress on standard error (errors and warnings still come)
    #[arg(long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    test_metrics: TestMetricsArgs,
    #[command(flatten)]
    normalize: NormalizeArgs,
    #[command(flatten)]
    privacy: PrivacyArgs,
    #[command(flatten)]
    training: TrainingArgs,
    #[command(flatten)]
    method: MethodArgs,
    #[command(flatten)]
    optimizer: OptimizerArgs,
    #[command(flatten)]
    options: ModelArgs,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    progress: ProgressArgs,
    #[command(flatten)]
    recording: RecordingArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Privacy")]
struct PrivacyArgs {
    /// The budget: the noise is chosen so that epsilon of the whole run is at most this
    #[arg(
        long,
        value_name = "E",
        required_unless_present_any = ["noise_multiplier", "equation_6", "not_private"],
        conflicts_with = "noise_multiplier"
    )]
    epsilon: Option<f64>,
    /// Standard deviation of the noise in units of the clip, instead of --epsilon
    #[arg(long, value_name = "S")]
    noise_multiplier: Option<f64>,
    /// Noise by equation 6 of ADP for its own epsilon (a sixteenth of its theorem's), instead of --epsilon; what is claimed is
    /// the accountant's epsilon of that noise
    #[arg(long, value_name = "E", conflicts_with_all = ["epsilon", "noise_multiplier"])]
    equation_6: Option<f64>,
    /// Trains the same without privacy, as a baseline: no clipping, no noise, no epsilon, and every output says so. The draws are
    /// Poisson and the optimizer is the same; the learning rate that suits is another one
    #[arg(
        long,
        conflicts_with_all = [
            "epsilon", "noise_multiplier", "equation_6", "delta", "accountant", "allow_large_delta", "clip", "noise", "readout",
            "grid_bits", "truncate",
        ]
    )]
    not_private: bool,
    /// Delta; well below 1 / number of samples [default with --noise-multiplier: 1e-5]
    #[arg(long, value_name = "D", required_unless_present_any = ["noise_multiplier", "not_private"])]
    delta: Option<f64>,
    /// Which bound: tight by privacy loss distributions (`pld`), or Rényi divergences (`rdp`)
    #[arg(long, value_name = "NAME", default_value = "pld", value_parser = accountant)]
    accountant: Accountant,
    /// Lets through a delta of 1 / number of samples and more
    #[arg(long)]
    allow_large_delta: bool,
    /// Largest Euclidean norm of one sample's gradient, over all trained parameters; where the method learns it, the first
    #[arg(long, value_name = "C", default_value_t = 1.0, value_parser = number32)]
    clip: f32,
    /// A number of samples to declare instead of the one counted, which then stays out of every output: the rate becomes batch
    /// size / N0, and the batch size is a divisor, not the expected number of samples
    #[arg(long, value_name = "N0")]
    dataset_size: Option<u64>,
    /// How the samples of a step are chosen: `poisson`, each by a coin of its own; `shuffled`, batches of a fixed size, where
    /// sampling gains nothing and an epoch is priced as one event at a rate of 1; `min-separation`, the same batches each epoch; or
    /// `cyclic-poisson`, by coins from one of --groups groups after the other, where a group's samples come at every G-th step
    #[arg(long, value_name = "NAME", default_value = "poisson")]
    sampler: SamplerArg,
    /// Groups of --sampler cyclic-poisson [default with --noise-correlation banded:B: B]
    #[arg(long, value_name = "G")]
    groups: Option<NonZeroU32>,
    /// Noise of successive steps that partly cancels in their sum: `lambda:P/Q`, one step back; `blt:D`, D buffers a parameter; both with
    /// --sampler min-separation. `banded:B`, B bands, with it or with cyclic-poisson. The run is priced as a whole
    #[arg(long, value_name = "none|lambda:P/Q|blt:D|banded:B", default_value = "none", value_parser = correlation)]
    noise_correlation: NoiseCorrelation,
    /// What --noise-correlation blt and banded make small: the noise of the sum over all steps (`max`), or of the sums up to each step
    /// (`mean`) [default: mean]
    #[arg(long, value_name = "max|mean", value_parser = objective)]
    noise_objective: Option<Objective>,
    /// Cuts Poisson draws of more than M samples to M, and pays for it out of delta. Memory does not need it: a draw of any size
    /// is split over physical batches
    #[arg(long, value_name = "M")]
    truncate: Option<u64>,
    /// `discrete`: integers on a grid, exact; `continuous`: floats, not exact, for comparison
    #[arg(long, value_name = "KIND", default_value = "discrete")]
    noise: NoiseArg,
    /// What is clipped: `per-sample`: each sample's gradient, by damper; `clipped-sum`: a chunk's, by the backend in its
    /// floats, not exact and with --noise continuous only, for large models
    #[arg(long, value_name = "NAME", default_value = "per-sample")]
    readout: Readout,
    /// The clip is 2^BITS grid units
    #[arg(long, value_name = "BITS", default_value_t = 20)]
    grid_bits: u32,
    /// Charges the whole plan against the budget of a data set, a file that `damper budget` makes, before data is read. A run
    /// that would exceed the limit is refused
    #[arg(long, value_name = "FILE", requires = "samples")]
    budget: Option<PathBuf>,
    /// With --budget: number of training samples, from which the plan follows before data is read; must be that of the data
    #[arg(long, value_name = "N", requires = "budget")]
    samples: Option<u64>,
    /// Makes the run a simulation that can be repeated: its noise is known, so nothing of it is private
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Training")]
struct TrainingArgs {
    /// The constant that the noisy sum is divided by; without --dataset-size also the expected number of samples in a draw
    #[arg(long, value_name = "B")]
    batch_size: u32,
    /// Passes over the data: there are epochs * samples / batch size steps
    #[arg(long, value_name = "N")]
    epochs: f64,
    /// Takes the mean gradient over K random views of each picture and clips that: cropPIXELS moves a picture and mirrors what was lost,
    /// shiftPIXELS repeats the edge, flip mirrors half of the views. Costs K times the computing, and no privacy
    #[arg(long, value_name = "K:crop4,flip", value_parser = augment)]
    augment: Option<Augment>,
    /// Evaluates and writes a mean of the parameters after each step instead of the last ones, and costs no privacy. START: over the
    /// steps behind the first START of all, from 0 to below 1; with `,lr` each step weighs as much as its learning rate. ema:DECAY: an
    /// exponential moving average, as ema:0.99. poly:POWER: weights that grow with the power of the step, as poly:8
    #[arg(long, value_name = "START[,lr]|ema:DECAY|poly:POWER", allow_hyphen_values = true, value_parser = averaging)]
    average: Option<Averaging>,
    /// Evaluates on the held-out samples every so many epochs, beside the end
    #[arg(long, value_name = "EPOCHS")]
    eval_every: Option<f64>,
    /// Ends the run after N evaluations in a row that are no better than the best before; needs --eval-every. Epsilon stays that of all
    /// planned steps
    #[arg(long, value_name = "N")]
    stop_early: Option<NonZeroU32>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Progress")]
struct ProgressArgs {
    /// Adds a line of JSON to FILE for each thing that happens: steps with epsilon so far, evaluations, warnings, states, the end; see
    /// docs/events.md. (events.json in the output folder is something else: the events that epsilon follows from)
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Writes held-out accuracy and loss, and epsilon so far, for TensorBoard
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Recording")]
struct RecordingArgs {
    /// Records the run in FILE, which must not be there, to be played anywhere by `damper replay`. As secret as the data: it
    /// holds the gradient of every sample drawn and the key of the noise. Readable by its owner alone; until it is whole it has another name
    /// in the same folder, .damper-FILE.part, from which a resumed run goes on
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Refuses a recording that is expected to be larger
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "record", value_parser = memory)]
    record_limit: u64,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum SamplerArg {
    Poisson,
    Shuffled,
    CyclicPoisson,
    MinSeparation,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum NoiseArg {
    Discrete,
    Continuous,
}

fn correlation(text: &str) -> Result<NoiseCorrelation, String> {
    text.parse().map_err(str::to_owned)
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|seconds| (0.0..1e9).contains(seconds)).ok_or_else(|| "give seconds, from 0".into())
}

fn averaging(text: &str) -> Result<Averaging, String> {
    let number = |text: &str, what| text.trim().parse().map_err(|_| format!("give {what}"));
    let built = if let Some(decay) = text.strip_prefix("ema:") {
        Averaging::exponential(number(decay, "ema:DECAY, a number above 0 and below 1")?)
    } else if let Some(power) = text.strip_prefix("poly:") {
        Averaging::polynomial(number(power, "poly:POWER, a number from 0 to 1000")?)
    } else {
        let (start, weight) = text.split_once(',').map_or((text, None), |(start, weight)| (start, Some(weight.trim())));
        let built = Averaging::new(number(start, "START, a number from 0 to below 1, or ema:DECAY, or poly:POWER")?);
        match weight {
            None => built,
            Some("lr") => built.map(Averaging::by_learning_rate),
            Some(_) => return Err("give START or START,lr".into()),
        }
    };
    built.map_err(|error| error.to_string())
}

impl TrainArgs {
    pub(super) fn source(&self, model: PathBuf) -> Source {
        let data = &self.data;
        Source {
            model,
            init_seed: self.options.init_seed,
            graph: self.options.graph_options(),
            lora: self.options.lora(),
            derive: self.options.derive_options(),
            data: data.data.clone(),
            data_options: data.options(),
        }
    }

    /// The seed of the rows that are held out.
    pub(super) fn split_seed(&self) -> u64 {
        self.data.split_seed
    }

    pub(super) fn config(&self) -> Result<TrainConfig, Failure> {
        let privacy = &self.privacy;
        let budget = match (privacy.epsilon, privacy.noise_multiplier, privacy.equation_6) {
            _ if privacy.not_private => Budget::NotPrivate,
            (Some(epsilon), None, None) => Budget::Epsilon(epsilon),
            (None, Some(multiplier), None) => Budget::NoiseMultiplier(multiplier),
            (None, None, Some(epsilon)) => Budget::Equation6(epsilon),
            _ => return Err(Failure::new("give one of --epsilon and --noise-multiplier")),
        };
        Ok(TrainConfig {
            budget,
            delta: privacy.delta.unwrap_or(DELTA),
            accountant: privacy.accountant,
            allow_large_delta: privacy.allow_large_delta,
            batch_size: self.training.batch_size,
            epochs: self.training.epochs,
            dataset_size: privacy.dataset_size,
            sampler: match privacy.sampler {
                SamplerArg::Poisson => Sampler::Poisson,
                SamplerArg::Shuffled => Sampler::Shuffled,
                SamplerArg::CyclicPoisson => Sampler::CyclicPoisson,
                SamplerArg::MinSeparation => Sampler::MinSeparation,
            },
            groups: privacy.groups,
            noise_correlation: privacy.noise_correlation,
            noise_objective: privacy.noise_objective,
            truncate: privacy.truncate,
            method: self.method.choice(&self.optimizer.schedule, privacy.clip, self.training.batch_size)?,
            optimizer: self.optimizer.choice(&self.method)?,
            noise: match privacy.noise {
                NoiseArg::Discrete => Noise::Discrete,
                NoiseArg::Continuous => Noise::Continuous,
            },
            readout: privacy.readout,
            grid_bits: privacy.grid_bits,
            backend: self.machine.backend()?,
            seed: privacy.seed,
            physical_batch: self.machine.physical_batch,
            memory: self.machine.memory,
            workers: self.machine.workers,
            tune: self
                .tune
                .as_ref()
                .map(|folder| tune_folder(folder.as_deref(), self.machine.backend()?))
                .transpose()?,
            augment: self.training.augment,
            average: self.training.average,
            evaluate_every: self.training.eval_every,
            stop_early: self.training.stop_early,
            test_metrics: match (self.test_metrics.test_metrics, self.test_metrics.test_loss_bound) {
                (TestMetricsArg::Private, bound) => TestMetrics::Private { loss_bound: bound.unwrap_or(LOSS_BOUND) },
                (_, Some(_)) => {
                    return Err(Failure::new("--test-loss-bound: is for --test-metrics private; leave it out"));
                }
                (TestMetricsArg::Exact, None) => TestMetrics::Exact,
                (TestMetricsArg::None, None) => TestMetrics::None,
            },
            normalize_private: self.normalize.choice(),
            record: self.record(),
        })
    }

    /// The model's file.
    pub(super) fn model(&self) -> Result<&PathBuf, Failure> {
        let model = self.model_file.as_ref().or(self.model.as_ref());
        let model = model.ok_or_else(|| Failure::new("give a MODEL.onnx"))?;
        if model.extension().is_some_and(|extension| extension == "toml") {
            return Err(Failure::in_file(model, "names no model; add a line: model = \"FILE.onnx\""));
        }
        Ok(model)
    }

    /// The run of these flags, with flags in its warnings.
    pub(super) fn prepare(&self, model: &Path, config: TrainConfig) -> Result<Run, Failure> {
        let run = train::prepare(&self.source(model.to_path_buf()), config);
        let mut run = run.map_err(|error| Failure::in_model(model, error))?;
        for warning in run.warnings.iter_mut().chain(&mut run.warnings_of_data) {
            *warning = with_flags(warning);
        }
        Ok(run)
    }

    /// Trains as another rank than 0.
    fn follow(&self, group: &dyn Group) -> Result<ExitCode, Failure> {
        let model = self.model()?;
        follow(model, group, || keep_shard(self.prepare(model, self.config()?)?, self.shard_data, group))
    }

    /// Returns true if events are written, for programs or for TensorBoard.
    pub(super) fn is_observed(&self) -> bool {
        self.progress.events.is_some() || self.progress.tensorboard.is_some()
    }

    /// Returns true if --budget is given.
    pub(super) fn has_budget(&self) -> bool {
        self.privacy.budget.is_some()
    }

    /// Charges the run of these flags against --budget, if it is given. If `tuning`, that part of the samples is held out.
    pub(super) fn charge(&self, command: &str, tuning: Option<f64>) -> Result<Charge, Failure> {
        let PrivacyArgs { budget, samples, not_private, .. } = &self.privacy;
        if let (Some(budget), true) = (budget, not_private) {
            return Err(Failure::new(format!(
                "--budget {}: a run that is not private cannot be charged: after it no limit of this budget would hold; leave out \
                 --not-private, or leave out --budget if the data are public",
                budget.display()
            )));
        }
        match (budget, samples) {
            (Some(budget), Some(samples)) => Charge::begin(
                budget,
                &self.source(self.model()?.clone()),
                *samples,
                tuning,
                self.config()?,
                command,
                &self.out,
            ),
            (Some(_), None) => Err(Failure::new("--budget: needs --samples N, the number of training samples")),
            (None, _) => Ok(Charge::none()),
        }
    }

    /// Number of training samples that --budget is charged for, if it is given.
    pub(super) fn samples(&self) -> Option<u64> {
        self.privacy.samples
    }

    /// Charges `plan` against --budget, if it is given.
    pub(super) fn charge_plan(&self, command: &str, plan: &RunPlan) -> Result<Charge, Failure> {
        let PrivacyArgs { budget, samples, .. } = &self.privacy;
        if budget.is_some() && samples.is_none() {
            return Err(Failure::new("--budget: needs --samples N, the number of training samples"));
        }
        Charge::of_plan(budget.as_deref(), plan, command, &self.out)
    }

    /// Charges the rest of the run in `out`, whose charge has this number, against --budget.
    fn charge_again(&self, number: Option<u64>) -> Result<Charge, Failure> {
        match (&self.privacy.budget, number) {
            (Some(budget), Some(number)) => Charge::again(budget, number),
            _ => Ok(Charge::none()),
        }
    }

    /// The recording that is asked for.
    fn record(&self) -> Option<Record> {
        let RecordingArgs { record, record_limit } = &self.recording;
        record.clone().map(|file| Record { file, limit: *record_limit, resumed: self.resume.is_some() })
    }

    /// Refuses a recording among the outputs that ε covers.
    fn refuse_covered_recording(&self) -> Result<(), Failure> {
        match &self.recording.record {
            Some(file) if absolute(file)?.parent() == Some(&*absolute(&self.out)?) => Err(Failure::new(format!(
                "--record {}: lies among the outputs that epsilon covers; name {}, or another folder",
                file.display(),
                self.out.join("checkpoint").join(file.file_name().unwrap_or_default()).display()
            ))),
            _ => Ok(()),
        }
    }
}

pub(super) fn run(args: &TrainArgs) -> Result<ExitCode, Failure> {
    on_ranks(args.json, |group| if group.rank() == 0 { lead(args, group) } else { args.follow(group) })
}

/// Trains as the only process, or as the one of several that writes.
fn lead(args: &TrainArgs, group: &dyn Group) -> Result<ExitCode, Failure> {
    args.refuse_covered_recording()?;
    let invocation = args.invocation.clone().ok_or_else(|| Failure::new("the command line is not known"))?;
    let charge = match &args.resume {
        None => args.charge("train", None),
        Some(out) => Checkpoint::invocation(&out.join("checkpoint"))
            .map_err(Failure::from)
            .and_then(|invocation| args.charge_again(invocation.charge)),
    };
    let charge = agree(group, charge)?;
    let invocation = Invocation { charge: charge.number(), ..invocation };
    let mut folder = None;
    let result = prepared(args, invocation, &charge, group, &mut folder);
    if !matches!(result, Ok(ExitCode::SUCCESS)) {
        charge.narrow(folder.as_ref().map(|_| &*args.out));
    }
    result.map_err(|failure| match folder {
        // The folder of a finished run says itself what is wrong.
        Some(folder) if folder.has_uncharged_steps() && !is_finished(&args.out).unwrap_or(false) => {
            let next = if args.no_checkpoint || failure.kind == FailureKind::Diverged {
                format!("remove {}", args.out.display())
            } else {
                format!("go on with {}", resume::command(&args.out))
            };
            let message = format!("{}; the run, which is not private, is unfinished: {next}", failure.message);
            Failure { message, kind: FailureKind::Other }
        }
        Some(folder) if folder.may_hold_ledger() && !is_finished(&args.out).unwrap_or(false) => {
            let out = args.out.display();
            let next = if args.no_checkpoint || failure.kind == FailureKind::Diverged {
                format!("keep {out}")
            } else {
                format!("go on with {}", resume::command(&args.out))
            };
            let message = format!(
                "{}; the run is unfinished and its paid steps count: see damper epsilon {out}, and {next}{}",
                failure.message,
                recording_left(args)
            );
            Failure { message, kind: FailureKind::Other }
        }
        _ => failure,
    })
}

/// The folder of measured ways: the given one, or the user's.
fn tune_folder(given: Option<&Path>, backend: Choice) -> Result<PathBuf, Failure> {
    if backend != Choice::Ort {
        let problem =
            "--tune: only onnxruntime with damper's operators has several ways; add --backend ort, or leave it out";
        return Err(Failure::new(problem));
    }
    if let Some(given) = given {
        return Ok(given.into());
    }
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = own.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    Ok(folder
        .ok_or_else(|| Failure::new("--tune: the user has no folder of caches; give one: --tune=DIR"))?
        .join("damper"))
}

/// Names the part of a recording that an unfinished run leaves.
fn recording_left(args: &TrainArgs) -> String {
    let part = args.recording.record.as_deref().map(train::recording_part).filter(|part| part.exists());
    part.map_or(String::new(), |part| {
        format!("; {} has gradients and the key: it is as secret as the data", part.display())
    })
}

/// Prepares the run and trains, once it is charged.
fn prepared(
    args: &TrainArgs,
    invocation: Invocation,
    charge: &Charge,
    group: &dyn Group,
    folder: &mut Option<OutputFolder>,
) -> Result<ExitCode, Failure> {
    let (run, checkpoint) = agree(group, begun(args, invocation, charge, group, folder))?;
    let folder = folder.as_ref().expect("the run has its folder");
    train(args, args.model()?, &run, checkpoint, group, folder)
}

/// The run, its folder, and its state if it keeps one.
fn begun(
    args: &TrainArgs,
    invocation: Invocation,
    charge: &Charge,
    group: &dyn Group,
    folder: &mut Option<OutputFolder>,
) -> Result<(Run, Option<Checkpoint>), Failure> {
    let model = args.model()?;
    let run = keep_shard(args.prepare(model, args.config()?)?, args.shard_data, group)?;
    charge.check(&run)?;
    let folder = folder.insert(match &args.resume {
        None => OutputFolder::create(&args.out)?,
        Some(out) => OutputFolder::resume(out),
    });
    let mut invocation = invocation;
    if args.copy_model && args.resume.is_none() {
        let kept = folder.checkpoint().join("module.onnx");
        files::write(&kept, &fs::read(model)?, Access::Private)?;
        let kept = format!("--model-file={}", absolute(&kept)?.display());
        invocation.args.iter_mut().filter(|arg| arg.starts_with("--model-file=")).for_each(|arg| arg.clone_from(&kept));
    }
    let every = Duration::from_secs_f64(args.checkpoint_every);
    let private = folder.checkpoint();
    let checkpoint = match (&args.resume, args.no_checkpoint) {
        (Some(_), _) => Some(Checkpoint::resume(&private, &run, every)?),
        (None, true) => None,
        (None, false) => Some(Checkpoint::begin(&private, &run, invocation, every)?),
    };
    Ok((run, checkpoint))
}

/// Trains and writes the outputs.
fn train(
    args: &TrainArgs,
    model: &Path,
    run: &Run,
    mut checkpoint: Option<Checkpoint>,
    group: &dyn Group,
    folder: &OutputFolder,
) -> Result<ExitCode, Failure> {
    let in_model = |error| Failure::in_model(model, error);
    let private = folder.checkpoint();
    let ProgressArgs { events, tensorboard } = &args.progress;
    let mut events = Events::open(events.as_deref(), tensorboard.as_deref())?;
    events.begin(
        &run.kind().to_string(),
        run.terms.steps,
        Some(run.config.delta).filter(|_| !run.config.is_not_private()),
    );
    run.warnings.iter().for_each(|warning| warn(warning));
    run.warnings_of_data.iter().for_each(|warning| warn_of_data(warning));
    // Not those of the data, which depend on its rows.
    run.warnings.iter().for_each(|warning| events.warning(warning));
    if let Some(Record { file, .. }) = run.config.record.as_ref().filter(|_| !args.quiet) {
        let size = bytes_text(train::recording_bytes(run));
        let _ = writeln!(io::stderr(), "recording in {}, about {size}, as secret as the data", file.display());
    }
    let signals = Signals::listen()?;
    let mut watcher = RunWatcher::new(run, folder, args.quiet, &mut events, &signals);
    if run.config.is_not_private() {
        folder.set_uncharged();
    }
    let target = Target { out: &args.out, json: args.json, no_checkpoint: args.no_checkpoint };
    let outcome = train::run_on(run, group, Some(&private), checkpoint.as_mut(), &mut watcher);
    let is_over = outcome.is_ok();
    let failed = watcher.finish();
    let ended = match (outcome.map_err(in_model), failed) {
        (Err(failure), _) | (Ok(_), Some(failure)) => Err(failure),
        (Ok(outcome), None) if outcome.stopped => stopped(&target, run, &outcome, folder, &mut events, signals.code()),
        (Ok(outcome), None) => finished(&target, run, &outcome, folder, &mut events),
    };
    // An error of the run itself is one of all ranks.
    let ended = if is_over { agree(group, ended) } else { ended };
    if let Err(failure) = &ended {
        events.error(&failure.message);
    } else if matches!(ended, Ok(ExitCode::SUCCESS)) {
        drop(checkpoint);
        Checkpoint::remove(&private)?;
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser;
    use damper_train::Method;

    // Without flags, the configuration is that of the library.
    #[test]
    fn default_flags_match_library_config() {
        let line = "damper train m.onnx --data csv:d --out o --noise-multiplier 1 --batch-size 8 --epochs 2 --lr 0.5";
        let crate::cli::Command::Train(args) = Cli::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("another command")
        };
        let usual = TrainConfig::new(Budget::NoiseMultiplier(1.0), DELTA, 8, 2.0, Method::dp_sgd(1.0, 0.5));
        assert_eq!(format!("{:?}", args.config().unwrap()), format!("{usual:?}"));
    }
}
