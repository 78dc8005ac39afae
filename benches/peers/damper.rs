//! The trainer as a candidate of `run.py`: `damper-peer MODEL.onnx DATA.npz BATCH discrete|continuous|clipped-sum
//! [BACKEND ROWS]`.
//!
//! ROWS is the number of rows in the physical batch. Words `KEY=VALUE` among the arguments set the physical batch
//! (`rows=ROWS`), the trained parameters (`only=PATTERN`, `train=PATTERN`, `lora=RANK:PATTERN,...`) and the loss
//! (`loss=causal-lm`). `cache=yes` computes the frozen part once, before the first step. `warm=no` leaves out the steps
//! before the first turn: a turn's first step does not count anyway.
//!
//! It is [`damper::train::run`] itself, with `OMP_NUM_THREADS` workers, on a data set of exactly one batch, so that
//! every step draws all of it. Like `candidate.py` it takes numbers of steps from standard input. It answers with CPU
//! seconds and wall seconds a step and the peak of its resident memory in KiB.

use cpu_time::ProcessTime;
use damper::data::DataOptions;
use damper::edit::LoraOptions;
use damper::edit::lora::Lora;
use damper::grad::{DeriveOptions, Loss, Readout};
use damper::graph::GraphOptions;
use damper::runtime::Choice;
use damper::train::{
    Budget, ByName, InputFiles, Method, NoiseKind, OptimizerRule, Progress, RunEvent, TrainConfig, prepare, run,
};
use std::error::Error;
use std::io::BufRead;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (settings, arguments): (Vec<_>, Vec<_>) = arguments.into_iter().partition(|argument| argument.contains('='));
    let [model, data, batch, noise, on @ ..] = &arguments[..] else {
        return Err("damper-peer MODEL.onnx DATA.npz BATCH discrete|continuous|clipped-sum [BACKEND ROWS]".into());
    };
    let (backend, physical_batch) = match on {
        [backend, rows] => (backend.parse()?, Some(rows.parse()?)),
        _ => (Choice::Ort, None),
    };
    let (noise, readout) = match &**noise {
        "discrete" => (NoiseKind::Discrete, Readout::PerSample),
        "continuous" => (NoiseKind::Continuous, Readout::PerSample),
        _ => (NoiseKind::Continuous, Readout::ClippedSum),
    };
    let workers = std::env::var("OMP_NUM_THREADS")?.parse()?;
    let mut source = InputFiles {
        model: model.into(),
        of_file: Default::default(),
        graph: GraphOptions::default(),
        lora: None,
        derive: DeriveOptions::new(Loss::SoftmaxCrossEntropy),
        data: format!("npz:{data}"),
        data_options: DataOptions::default(),
    };
    let config = config(batch.parse()?);
    let mut config = TrainConfig { noise, readout, backend, physical_batch, workers: Some(workers), ..config };
    let mut is_warmed = true;
    for setting in &settings {
        match setting.split_once('=').unwrap_or_default() {
            ("rows", rows) => config.physical_batch = Some(rows.parse()?),
            ("warm", "no") => is_warmed = false,
            ("cache", "yes") => config.cache_frozen = Some(1 << 30),
            (key, value) => set(&mut source, key, value)?,
        }
    }
    let mut prepared = prepare(&source, config)?;
    let folder = tempfile::tempdir()?;
    let mut train = |steps: u32| {
        prepared.price.terms.steps = steps;
        let mut clock = Clock::default();
        run(&prepared, folder.path(), &mut clock).map(|_| clock)
    };
    if is_warmed {
        train(2)?;
    }
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let clock = train(line?.trim().parse()?)?;
        let [cpu, wall] = clock.seconds_a_step().ok_or("give more steps: the trainer reports every 0.1 s")?;
        println!("{cpu} {wall} {}", peak()?);
    }
    Ok(())
}

/// Changes how the model is read, by a `KEY=VALUE` word.
fn set(source: &mut InputFiles, key: &str, value: &str) -> Result<(), Box<dyn Error>> {
    match key {
        "only" => source.graph.only.push(value.into()),
        "train" => source.graph.train.push(value.into()),
        "loss" if value == "causal-lm" => source.derive.loss = Loss::CausalLm,
        "lora" => {
            let (rank, targets) = value.split_once(':').ok_or("lora=RANK:PATTERN,...")?;
            let targets = targets.split(',').map(String::from).collect();
            source.lora =
                Some(Lora { options: LoraOptions { rank: rank.parse()?, alpha: None, targets }, keep: false });
        }
        _ => return Err(format!("{key}={value}: unknown").into()),
    }
    Ok(())
}

fn config(batch_size: u32) -> TrainConfig {
    TrainConfig {
        optimizer: OptimizerRule::of_name("momentum").unwrap().into(),
        seed: Some(1),
        ..TrainConfig::new(Budget::NoiseMultiplier(1.0), 1e-5, batch_size, 1e4, Method::dp_sgd(1.0, 0.01))
    }
}

/// CPU and wall seconds between the trainer's first report and its last. Loading a session is not part of a step.
#[derive(Default)]
struct Clock {
    first: Option<(u32, [f64; 2])>,
    last: Option<(u32, [f64; 2])>,
}

impl Clock {
    fn seconds_a_step(&self) -> Option<[f64; 2]> {
        let ((first, from), (last, to)) = (self.first?, self.last?);
        (last > first).then(|| std::array::from_fn(|i| (to[i] - from[i]) / f64::from(last - first)))
    }
}

impl Progress for Clock {
    fn on_event(&mut self, event: RunEvent<'_>) {
        let RunEvent::Stepped { at, .. } = event else { return };
        let now = (at.step, [ProcessTime::now().as_duration().as_secs_f64(), at.seconds]);
        self.first.get_or_insert(now);
        self.last = Some(now);
    }
}

/// Returns the peak resident memory of this process in KiB.
fn peak() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("/proc/self/status has no VmHWM")?;
    Ok(line.split_whitespace().next().unwrap_or_default().into())
}
