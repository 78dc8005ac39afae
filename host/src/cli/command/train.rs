//! `damper train`: trains a private model from a model, a data set and a budget, and writes a folder with its report.

use crate::cli::args::flags::with_flags;
use crate::cli::args::given;
use crate::cli::args::model::bytes_text;
use crate::cli::args::train::{PrivacyArgs, ProgressArgs, TrainArgs};
use crate::cli::session::charge::Charge;
use crate::cli::session::event_log::EventLog;
use crate::cli::session::finish::{Target, finished, stopped};
use crate::cli::session::in_memory::is_in_memory;
use crate::cli::session::network::{Built, INITIAL};
use crate::cli::session::ranks::{follow, on_ranks};
use crate::cli::session::resume;
use crate::cli::session::row_warnings::RowWarnings;
use crate::cli::session::run_folder::RunFolder;
use crate::cli::session::signals::Signals;
use crate::cli::session::watch::RunWatcher;
use crate::cli::{Failure, FailureKind, say, say_default, say_of_data, warn};
use damper_budget::RunPlan;
use damper_data::ENGLISH_FILE;
use damper_report::{OutputFolder, RunOrigin, is_finished};
use damper_train::files::{self, Access};
use damper_train::{
    self as train, Checkpoint, Group, InputFiles, RecordRequest, Run, RunInputs, TrainConfig, TrainError, UsedDefault,
    agree,
};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// File of the built-in tokenizer among the outputs, for whoever uses the model.
const TOKENIZER: &str = "tokenizer.json";

impl TrainArgs {
    pub(in crate::cli) fn source(&self, model: PathBuf) -> InputFiles {
        let data = &self.data;
        InputFiles {
            model,
            of_file: self.options.of_file(),
            graph: self.options.graph_options(),
            lora: self.options.lora(),
            derive: self.options.derive_options(),
            data: data.source().to_owned(),
            data_options: data.options(),
        }
    }

    /// As [`source`](Self::source), with the names that the data of a resumed run must have.
    fn source_of_run(&self, model: PathBuf) -> Result<InputFiles, Failure> {
        let mut source = self.source(model);
        if let Some(out) = &self.resume {
            source.data_options.names = Some(Checkpoint::names(&out.join("checkpoint"))?);
        }
        Ok(source)
    }

    /// Returns the seed of the held-out rows.
    pub(in crate::cli) fn split_seed(&self) -> u64 {
        self.data.split_seed()
    }

    /// Returns the model's file.
    pub(in crate::cli) fn model(&self) -> Result<&PathBuf, Failure> {
        self.model.as_ref().ok_or_else(|| Failure::new("give a MODEL.onnx"))
    }

    /// Returns the run of these flags, with flags in its warnings.
    pub(in crate::cli) fn prepare(&self, model: &Path, config: TrainConfig) -> Result<Run, Failure> {
        let source = self.source_of_run(model.to_path_buf())?;
        let run = train::prepare(&source, config).map_err(|error| Failure::in_model(model, error))?;
        Ok(with_flags_in_warnings(run))
    }

    /// As [`prepare`](Self::prepare), with only the rank's shard of the data. Fills the settings that are open.
    fn prepare_on(&mut self, model: &Path, group: &dyn Group) -> Result<Run, Failure> {
        let mut source = self.source_of_run(model.to_path_buf())?;
        if !self.shard_data || group.size() == 1 {
            return self.prepared(model, source);
        }
        let memory = source.data_options.data_memory.unwrap_or(u64::MAX);
        let cache = source.data_options.cache.clone().unwrap_or_else(std::env::temp_dir);
        source.data_options = source.data_options.of_shard();
        let mut run = self.prepared(model, source)?;
        run.keep_shard(group.rank(), group.size(), memory)?;
        if is_in_memory(&cache) {
            run.warnings.public.push(with_flags(&format!(
                "`shard_data`: all rows are in files of {} while they are read, and files there take memory; name a folder on a disk by `cache`",
                cache.display()
            )));
        }
        Ok(run)
    }

    /// Reads the inputs, fills the settings that are open by their sizes, and prepares the run.
    fn prepared(&mut self, model: &Path, source: InputFiles) -> Result<Run, Failure> {
        let in_model = |error| Failure::in_model(model, error);
        let inputs = RunInputs::read(&source, &self.config()?).map_err(in_model)?;
        self.fill(inputs.samples(), Some(&inputs));
        let run = inputs.prepare(self.config()?).map_err(in_model)?;
        Ok(with_flags_in_warnings(run))
    }

    /// Trains as a rank other than 0.
    fn follow(&mut self, group: &dyn Group) -> Result<ExitCode, Failure> {
        let built = Built::new(self)?;
        built.iter().for_each(|built| built.use_in(self));
        let model = self.model()?.clone();
        follow(&model, group, || self.prepare_on(&model, group))
    }

    /// Returns true if events are written, for programs or for TensorBoard.
    pub(in crate::cli) fn is_observed(&self) -> bool {
        self.progress.events.is_some() || self.progress.tensorboard.is_some()
    }

    /// Returns true if --budget is given.
    pub(in crate::cli) fn has_budget(&self) -> bool {
        self.privacy.budget.is_some()
    }

    /// Charges the run of these flags against --budget, if it is given. If `tuning`, that share of the samples is held
    /// out.
    pub(in crate::cli) fn charge(&self, command: &str, tuning: Option<f64>) -> Result<Charge, Failure> {
        let PrivacyArgs { budget, samples, not_private, .. } = &self.privacy;
        if let (Some(budget), true) = (budget, not_private) {
            return Err(Failure::usage(format!(
                "`budget` {}: a run that is not private cannot be charged: after it no limit of this budget would hold; leave out \
                 `not_private`, or leave out `budget` if the data are public",
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
                self.out(),
            ),
            (Some(_), None) => Err(Failure::usage("`budget`: needs `samples` N, the number of training samples")),
            (None, _) => Ok(Charge::none()),
        }
    }

    /// Returns the number of training samples that --budget is charged for, if it is given.
    pub(in crate::cli) fn samples(&self) -> Option<u64> {
        self.privacy.samples
    }

    /// Charges `plan` against --budget, if it is given.
    pub(in crate::cli) fn charge_plan(&self, command: &str, plan: &RunPlan) -> Result<Charge, Failure> {
        let PrivacyArgs { budget, samples, .. } = &self.privacy;
        if budget.is_some() && samples.is_none() {
            return Err(Failure::usage("`budget`: needs `samples` N, the number of training samples"));
        }
        Charge::of_plan(budget.as_deref(), plan, command, self.out())
    }

    /// Charges the rest of the run in `out`, which has the charge `number`, against --budget.
    fn charge_again(&self, number: Option<u64>) -> Result<Charge, Failure> {
        match (&self.privacy.budget, number) {
            (Some(budget), Some(number)) => Charge::again(budget, number),
            _ => Ok(Charge::none()),
        }
    }

    /// Rejects a recording among the outputs that ε covers.
    fn refuse_covered_recording(&self) -> Result<(), Failure> {
        match &self.recording.record {
            Some(file) if absolute(file)?.parent() == Some(&*absolute(self.out())?) => Err(Failure::usage(format!(
                "`record` {}: lies among the outputs that epsilon covers; name {}, or another folder",
                file.display(),
                self.out().join("checkpoint").join(file.file_name().unwrap_or_default()).display()
            ))),
            _ => Ok(()),
        }
    }
}

/// Writes settings in warnings as flags.
fn with_flags_in_warnings(mut run: Run) -> Run {
    for warning in run.warnings.public.iter_mut().chain(&mut run.warnings.of_data) {
        *warning = with_flags(warning);
    }
    run
}

pub(in crate::cli) fn run(args: &TrainArgs) -> Result<ExitCode, Failure> {
    let mut args = args.clone();
    on_ranks(args.json, args.alone, |group| if group.rank() == 0 { lead(&mut args, group) } else { args.follow(group) })
}

/// Trains as the only process, or as rank 0 of several, which writes the outputs.
fn lead(args: &mut TrainArgs, group: &dyn Group) -> Result<ExitCode, Failure> {
    let made = if args.has_out() || args.resume.is_some() { None } else { Some(RunFolder::next()?) };
    made.iter().for_each(|made| args.set_out(made.path().to_path_buf()));
    args.refuse_covered_recording()?;
    let built = Built::new(args)?;
    built.iter().for_each(|built| built.use_in(args));
    // With a budget, the number of samples is declared before they are read.
    args.samples().into_iter().for_each(|samples| args.fill(samples, None));
    let charge = match &args.resume {
        None => args.charge("train", None),
        Some(out) => Checkpoint::invocation(&out.join("checkpoint"))
            .map_err(Failure::from)
            .and_then(|invocation| args.charge_again(invocation.charge)),
    };
    let charge = agree(group, charge)?;
    let mut folder = None;
    let result = prepared(args, built.as_ref(), &charge, group, &mut folder);
    let result = result.map_err(|failure| built.iter().fold(failure, |failure, built| built.named(failure)));
    let args = &*args;
    if !matches!(result, Ok(ExitCode::SUCCESS)) {
        charge.narrow(folder.as_ref().map(|_| args.out()));
    }
    result.map_err(|failure| match folder {
        // The folder of a finished run already contains the reason.
        Some(folder) if folder.has_uncharged_steps() && !is_finished(args.out()).unwrap_or(false) => {
            let next = if args.no_checkpoint || failure.kind == FailureKind::Diverged {
                format!("remove {}", args.out().display())
            } else {
                format!("go on with {}", resume::command(args.out()))
            };
            let message = format!("{}; the run, which is not private, is unfinished: {next}", failure.message);
            Failure { message, kind: FailureKind::Other }
        }
        Some(folder) if folder.may_hold_ledger() && !is_finished(args.out()).unwrap_or(false) => {
            let out = args.out().display();
            let next = if args.no_checkpoint || failure.kind == FailureKind::Diverged {
                format!("keep {out}")
            } else {
                format!("go on with {}", resume::command(args.out()))
            };
            let message = format!(
                "{}; the run is unfinished and its paid steps count: see damper epsilon {out}, and {next}{}",
                failure.message,
                recording_left(args)
            );
            let kind = match failure.kind {
                kind @ FailureKind::Stopped(_) => kind,
                _ => FailureKind::Other,
            };
            Failure { message, kind }
        }
        _ => failure,
    })
}

/// Names the partial recording of an unfinished run.
fn recording_left(args: &TrainArgs) -> String {
    let part = args.recording.record.as_deref().map(train::recording_part).filter(|part| part.exists());
    part.map_or(String::new(), |part| {
        format!("; {} has gradients and the key: it is as secret as the data", part.display())
    })
}

/// Prepares the charged run, and trains.
fn prepared(
    args: &mut TrainArgs,
    built: Option<&Built>,
    charge: &Charge,
    group: &dyn Group,
    folder: &mut Option<OutputFolder>,
) -> Result<ExitCode, Failure> {
    let file = args.model.as_deref().unwrap_or(Path::new("")).to_string_lossy().into_owned();
    let model = built.map_or(&*file, Built::network);
    let origin = RunOrigin::new(model, args.data.source(), SystemTime::now());
    let (run, checkpoint) = agree(group, begun(args, built, charge, group, folder))?;
    let folder = folder.as_ref().expect("the run has its folder");
    train((args, &origin), args.model()?, &run, checkpoint, group, folder)
}

/// Returns the run, its folder, and its state if it keeps one.
fn begun(
    args: &mut TrainArgs,
    built: Option<&Built>,
    charge: &Charge,
    group: &dyn Group,
    folder: &mut Option<OutputFolder>,
) -> Result<(Run, Option<Checkpoint>), Failure> {
    let model = &args.model()?.clone();
    let run = args.prepare_on(model, group);
    let run = run.inspect_err(|failure| {
        // An error about a default needs its reason.
        let is_at_fault = |used: &&UsedDefault| failure.message.contains(&*with_flags(&format!("`{}`", used.setting)));
        args.defaults.iter().filter(|used| !args.quiet && is_at_fault(used)).for_each(say_default);
    })?;
    charge.check(&run)?;
    let folder = folder.insert(match &args.resume {
        None => OutputFolder::create(args.out())?,
        Some(out) => OutputFolder::resume(out),
    });
    if let Some(built) = built {
        folder.write_model(INITIAL, &built.model)?;
        args.model = Some(args.out().join(INITIAL));
    }
    if args.data.is_english() {
        folder.write(TOKENIZER, ENGLISH_FILE)?;
    }
    let mut settings = args.clone();
    if args.copy_model && args.resume.is_none() {
        let kept = folder.checkpoint().join("module.onnx");
        files::write(&kept, &fs::read(args.model()?)?, Access::Private)?;
        settings.model = Some(absolute(&kept)?);
    }
    if args.resume.is_none() {
        folder.write(given::RECORD, given::record(&settings)?.as_bytes())?;
    }
    let every = Duration::from_secs_f64(args.checkpoint_every());
    let private = folder.checkpoint();
    let checkpoint = match (&args.resume, args.no_checkpoint) {
        (Some(_), _) => Some(Checkpoint::resume(&private, &run, every)?),
        (None, true) => None,
        (None, false) => {
            let invocation = given::invocation(&settings, charge.number())?;
            Some(Checkpoint::begin(&private, &run, invocation, every)?)
        }
    };
    Ok((run, checkpoint))
}

/// Trains and writes the outputs.
fn train(
    (args, origin): (&TrainArgs, &RunOrigin),
    model: &Path,
    run: &Run,
    mut checkpoint: Option<Checkpoint>,
    group: &dyn Group,
    folder: &OutputFolder,
) -> Result<ExitCode, Failure> {
    let in_model = |error| Failure::in_model(model, error);
    let private = folder.checkpoint();
    let ProgressArgs { events, tensorboard } = &args.progress;
    let mut events = EventLog::open(events.as_deref(), tensorboard.as_deref())?;
    events.begin(
        &run.kind().to_string(),
        run.price.terms.steps,
        Some(run.config.delta).filter(|_| !run.config.is_not_private()),
    );
    run.warnings.public.iter().for_each(|warning| warn(warning));
    if !args.quiet {
        args.found.iter().for_each(|line| say(line));
        args.defaults.iter().for_each(say_default);
        run.data.notes.iter().for_each(|note| say_of_data(note));
    }
    let of_rows = RowWarnings::new(args.quiet, args.json);
    run.warnings.of_data.iter().for_each(|warning| of_rows.warn(warning));
    // Without the warnings about the data, which depend on its rows.
    run.warnings.public.iter().for_each(|warning| events.warning(warning));
    if let Some(RecordRequest { file, .. }) = run.config.record.as_ref().filter(|_| !args.quiet) {
        let size = bytes_text(train::recording_bytes(run));
        let _ = writeln!(io::stderr(), "recording in {}, about {size}, as secret as the data", file.display());
    }
    let signals = Signals::listen()?;
    let mut watcher = RunWatcher::new(run, folder, (args.quiet, of_rows), &mut events, &signals);
    if run.config.is_not_private() {
        folder.set_uncharged();
    }
    let target = Target { out: args.out(), json: args.json, no_checkpoint: args.no_checkpoint, origin };
    let outcome = train::run_on(run, group, Some(&private), checkpoint.as_mut(), &mut watcher);
    let is_over = outcome.is_ok();
    let is_stopped = matches!(outcome, Err(TrainError::Stopped));
    let failed = watcher.finish();
    let ended = match (outcome.map_err(in_model), failed) {
        // An error of the observer ends the run.
        (Err(_), Some(failure)) if is_stopped => Err(failure),
        (Err(failure), None) if is_stopped => {
            Err(Failure { kind: FailureKind::Stopped(signals.code().unwrap_or(1)), ..failure })
        }
        (Err(failure), _) | (Ok(_), Some(failure)) => Err(failure),
        (Ok(outcome), None) if outcome.stopped => stopped(&target, run, &outcome, folder, &mut events, signals.code()),
        (Ok(outcome), None) => finished(&target, run, &outcome, folder, &mut events),
    };
    // All ranks share an error of the run itself.
    let ended = if is_over { agree(group, ended) } else { ended };
    match ended {
        Ok(ExitCode::SUCCESS) => {
            drop(checkpoint);
            Checkpoint::remove(&private)?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(code) => Ok(code),
        Err(failure) => {
            events.error(&failure.message);
            if !is_over || !is_finished(args.out()).unwrap_or(false) {
                return Err(failure);
            }
            // All records are written, even if the disk is full at the last file. Nothing is left to resume, so the key
            // is useless.
            drop(checkpoint);
            let out = args.out().display();
            let keys = match Checkpoint::remove(&private) {
                Ok(()) => format!("the run is over and its key is removed; damper report {out} makes the report again"),
                Err(error) => format!("the run is over, and its key is still there ({error}): remove it"),
            };
            Err(Failure { message: format!("{}; {keys}", failure.message), ..failure })
        }
    }
}
