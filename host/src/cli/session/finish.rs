//! The end of a training run: its output files, and the answer that names them.

use crate::cli::args::flags::with_flags;
use crate::cli::command::planning::epsilon::EVENTS;
use crate::cli::command::report::{write_not_private, write_report};
use crate::cli::session::command_line::line;
use crate::cli::session::event_log::EventLog;
use crate::cli::session::resume;
use crate::cli::session::watch::metrics;
use crate::cli::{Failure, answer, answer_json, warn};
use damper_accounting::upward;
use damper_onnx as onnx;
use damper_onnx::pb::ModelProto;
use damper_report::{
    BEST_MODEL, NotPrivateReport, NotPrivateStatement, OutputFolder, RunOrigin, TrainReport, Unfinished, trained_model,
    unfinished_model,
};
use damper_train::{Outcome, RecordRequest, Run, files, guess_warning, recording_part};
use std::path::Path;
use std::process::ExitCode;

/// Location of a run's outputs, and format of its answer.
pub(in crate::cli) struct Target<'a> {
    pub out: &'a Path,
    pub json: bool,
    /// True if the run keeps no state to resume from.
    pub no_checkpoint: bool,
    /// Names of the model and the data, and the day.
    pub origin: &'a RunOrigin,
}

/// Writes the outputs of a run, and prints their location.
pub(in crate::cli) fn finished(
    target: &Target<'_>,
    run: &Run,
    outcome: &Outcome,
    folder: &OutputFolder,
    events: &mut EventLog,
) -> Result<ExitCode, Failure> {
    if run.config.is_not_private() {
        return finished_not_private(target, run, outcome, folder, events);
    }
    let origin = Some(target.origin.clone());
    let report = TrainReport { command: line::command(), origin, ..TrainReport::new(run, outcome) };
    write(run, outcome, folder, &report.to_json())?;
    if let Some(fault) = write_report(target.out, target.out)?.fault() {
        return Err(Failure::in_file(target.out, fault));
    }
    warn_of_guess(run, outcome, events);
    events.end(Some(report.epsilon), Some(report.delta));

    if target.json {
        answer_json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let out = target.out.display();
    let recorded = run.config.record.as_ref().filter(|_| outcome.is_recorded);
    let recording = recorded.map_or(String::new(), |RecordRequest { file, .. }| {
        format!(
            "\nsecret    {} (the recording: not covered by epsilon, holds the samples' gradients and the key)",
            file.display()
        )
    });
    answer(&format!(
        "{}\nmodel     {out}/model.onnx\nreport    {out}/report.html (and report.json, statement.json)\nmetrics   {out}/metrics.csv\nsecret    \
         {out}/checkpoint/ (not covered by epsilon: keep it as secret as the data){recording}",
        with_flags(&report.to_string())
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the outputs of a run that is not private, and prints their location. Each output is marked as not private.
fn finished_not_private(
    target: &Target<'_>,
    run: &Run,
    outcome: &Outcome,
    folder: &OutputFolder,
    events: &mut EventLog,
) -> Result<ExitCode, Failure> {
    let origin = Some(target.origin.clone());
    let report = NotPrivateReport { command: line::command(), origin, ..NotPrivateReport::new(run, outcome) };
    write(run, outcome, folder, &report.to_json())?;
    let statement = NotPrivateStatement::read(target.out)?
        .ok_or_else(|| Failure::in_file(target.out, "its records are missing"))?;
    write_not_private(&statement, target.out)?;
    warn_of_guess(run, outcome, events);
    events.end(None, None);
    if target.json {
        answer_json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let out = target.out.display();
    answer(&format!(
        "{}\nmodel     {out}/model.onnx (not private)\nreport    {out}/report.html (and report.json, statement.json)\n\
         metrics   {out}/metrics.csv\nsecret    {out}, as the data",
        with_flags(&report.to_string())
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Warns of a network that has learned nothing.
fn warn_of_guess(run: &Run, outcome: &Outcome, events: &mut EventLog) {
    if let Some(warning) = guess_warning(run, outcome) {
        let warning = with_flags(&warning);
        warn(&warning);
        events.warning(&warning);
    }
}

/// Writes the outputs of a run that was stopped on request, and prints how to resume it.
pub(in crate::cli) fn stopped(
    target: &Target<'_>,
    run: &Run,
    outcome: &Outcome,
    folder: &OutputFolder,
    events: &mut EventLog,
    code: Option<u8>,
) -> Result<ExitCode, Failure> {
    let model = model(run, outcome, &outcome.params)?;
    folder.write_model("model.onnx", &unfinished_model(model, outcome.steps, run.price.terms.steps))?;
    folder.write("metrics.csv", metrics(run, &outcome.evaluations).as_bytes())?;
    let out = target.out.display();
    if run.config.is_not_private() {
        events.stopped(outcome.steps, None);
        let statement = NotPrivateStatement::read(target.out)?
            .ok_or_else(|| Failure::in_file(target.out, "its plan is missing"))?;
        if target.json {
            answer_json(&statement)?;
        } else {
            answer(&format!(
                "NOT PRIVATE: no gradient was clipped and no noise was added; no epsilon holds\nstopped   after step {} of {}\n\
                 model     {out}/model.onnx (not private, of the steps so far)\nmetrics   {out}/metrics.csv\nsecret    {out}, as the \
                 data\ngo on     {}",
                outcome.steps,
                run.price.terms.steps,
                next(target)
            ))?;
        }
        return Ok(ExitCode::from(code.unwrap_or(1)));
    }
    let statement = Unfinished::read(target.out)?.ok_or_else(|| Failure::in_file(target.out, "its plan is missing"))?;
    events.stopped(outcome.steps, Some(statement.epsilon));
    if target.json {
        answer_json(&statement)?;
    } else {
        let next = next(target);
        let recorded = run.config.record.as_ref().filter(|_| outcome.is_recorded && !target.no_checkpoint);
        let recording = recorded.map_or(String::new(), |RecordRequest { file, .. }| {
            format!("secret    {} (the recording so far)\n", recording_part(file).display())
        });
        answer(&format!(
            "stopped   after step {} of {}\nepsilon   {} at delta {:e} so far\nmodel     {out}/model.onnx (of the steps so far)\n\
             metrics   {out}/metrics.csv\nsecret    {out}/checkpoint/ (not covered by epsilon: keep it as secret as the data)\n\
             {recording}go on     {next}",
            outcome.steps,
            run.price.terms.steps,
            upward(statement.epsilon),
            statement.delta,
        ))?;
    }
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// Returns the next command for a stopped run.
fn next(target: &Target<'_>) -> String {
    if target.no_checkpoint { "it cannot be resumed".into() } else { resume::command(target.out) }
}

/// Returns the model with these parameters, and with the input scaling if the run released it.
fn model(run: &Run, outcome: &Outcome, params: &[f32]) -> Result<ModelProto, Failure> {
    let mut model = trained_model(run, params)?;
    let constants = outcome.normalize.as_ref().map(ToString::to_string);
    onnx::set_normalize(&mut model, constants.as_deref());
    Ok(model)
}

/// Writes the files of a finished run.
fn write(run: &Run, outcome: &Outcome, folder: &OutputFolder, report: &str) -> Result<(), Failure> {
    folder.write_model("model.onnx", &model(run, outcome, &outcome.params)?)?;
    if let Some(best) = &outcome.best {
        folder.write_model(BEST_MODEL, &model(run, outcome, best)?)?;
    }
    folder.write("metrics.csv", metrics(run, &outcome.evaluations).as_bytes())?;
    folder.write("report.json", report.as_bytes())?;
    folder.write(EVENTS, files::json(&outcome.recorded)?.as_bytes())?;
    Ok(())
}
