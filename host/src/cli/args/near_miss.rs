//! Flags of PyTorch, Opacus and others, and the equivalent flags here.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Common names elsewhere, and flags here. The first flag that the subcommand has is suggested.
const KNOWN: [(&[&str], &[&str]); 35] = [
    (&["learning-rate", "lr-rate", "learning_rate", "step-size", "eta"], &["lr"]),
    (
        &[
            "batchsize",
            "batch",
            "bs",
            "expected-batch-size",
            "lot-size",
            "train-batch-size",
            "per-device-train-batch-size",
            "gradient-accumulation-steps",
        ],
        &["batch-size"],
    ),
    (&["num-epochs", "n-epochs", "epoch", "max-epochs", "num-train-epochs"], &["epochs"]),
    (&["sigma", "noise-scale", "noise-std", "nm", "z", "noise-multipler"], &["noise-multiplier"]),
    (&["eps", "target-epsilon", "privacy-budget", "eps-target", "target-eps"], &["epsilon"]),
    (&["target-delta"], &["delta"]),
    (
        &[
            "max-grad-norm",
            "max-norm",
            "clipping-norm",
            "clip-norm",
            "l2-norm-clip",
            "grad-clip",
            "sensitivity",
            "max-per-sample-grad-norm",
        ],
        &["clip"],
    ),
    (&["sample-rate", "sampling-probability", "q"], &["sampling-rate", "batch-size"]),
    (&["max-physical-batch-size", "microbatch-size", "micro-batch-size", "num-microbatches"], &["physical-batch"]),
    (&["dataset", "data-path", "data-dir", "train-data", "train-file"], &["data"]),
    (
        &[
            "test-data",
            "val-data",
            "val",
            "validation",
            "val-split",
            "test-split",
            "eval-data",
            "eval-dataset",
            "validation-data",
            "test-size",
        ],
        &["test"],
    ),
    (&["output-dir", "out-dir", "save-dir", "save-path", "output-path", "save", "logdir"], &["out"]),
    (&["wd", "l2"], &["weight-decay"]),
    (&["patience", "early-stopping", "early-stopping-patience"], &["stop-early"]),
    (&["report-to", "log-dir", "logger"], &["tensorboard"]),
    (&["resume-from-checkpoint", "resume-from"], &["resume"]),
    (&["evaluation-strategy", "eval-strategy", "eval-steps", "logging-steps"], &["eval-every"]),
    (&["gradient-checkpointing"], &["checkpoint-activations"]),
    (&["target-column", "label-names"], &["label-column"]),
    (&["optim", "opt"], &["optimizer"]),
    (&["criterion", "loss-fn", "loss-function", "compute-loss-func", "objective"], &["loss"]),
    (&["device", "gpu", "cuda", "use-gpu", "runtime"], &["backend"]),
    (&["num-workers", "threads", "jobs", "num-threads", "n-jobs"], &["workers"]),
    (&["poisson-sampling", "sampling", "shuffle"], &["sampler"]),
    (&["secure-mode", "secure-rng", "noise-type", "mechanism"], &["noise"]),
    (&["grad-sample-mode", "ghost-clipping"], &["readout"]),
    (&["scheduler", "lr-scheduler", "lr-decay"], &["lr-schedule"]),
    (&["warmup-steps", "warmup-epochs", "warmup-ratio"], &["warmup"]),
    (&["accountant-type", "accounting"], &["accountant"]),
    (&["num-steps", "max-steps", "iterations", "steps", "n-steps"], &["steps", "epochs"]),
    (&["random-seed", "random-state", "manual-seed"], &["seed"]),
    (&["frozen", "freeze-layers", "no-train"], &["freeze"]),
    (&["trainable", "train-only", "unfreeze"], &["only", "train"]),
    (&["mean-std", "normalise", "standardize"], &["normalize"]),
    (&["num-samples", "n-samples", "dataset-len", "sample-size"], &["samples", "dataset-size"]),
];

/// Common names elsewhere, and subcommands here.
const KNOWN_COMMANDS: [(&[&str], &str); 6] = [
    (&["fit", "learn", "finetune", "fine-tune", "run", "dp-sgd"], "train"),
    (&["info", "show", "summary", "describe"], "inspect"),
    (&["eps", "accountant", "privacy", "spent"], "epsilon"),
    (&["sigma", "noise", "noise-multiplier"], "calibrate"),
    (&["tune", "search", "sweep", "benchmark"], "compare"),
    (&["convert", "validate", "repair"], "fix"),
];

/// Adds the probable flag or subcommand to an error about an unknown flag or subcommand.
pub(in crate::cli) fn suggest(error: &mut clap::Error, command: &Command, args: &[OsString]) {
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
    {
        if let Some((_, meant)) = KNOWN_COMMANDS.iter().find(|(names, _)| names.contains(&given.as_str())) {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![(*meant).to_owned()]));
        }
        return;
    }
    let given = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) => arg.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned(),
        _ => return,
    };
    let meant = match error.kind() {
        ErrorKind::UnknownArgument => flag(command, args, &given.replace('_', "-")),
        // `--noise 1.1` means the multiplier.
        ErrorKind::InvalidValue if given.starts_with("noise ") => number(error).then_some("noise-multiplier"),
        _ => None,
    };
    // An unknown option is probably not a file name.
    if let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) {
        let tips = tips.iter().filter(|tip| !tip.to_string().contains("as a value")).cloned().collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    if let Some(meant) = meant {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{meant}")));
    }
}

/// Returns the flag of the subcommand in `args` that `given` probably means.
fn flag(command: &Command, args: &[OsString], given: &str) -> Option<&'static str> {
    let subcommand = args.iter().skip(1).find_map(|arg| command.find_subcommand(arg))?;
    let of_audit = || args.iter().find_map(|arg| subcommand.find_subcommand(arg));
    let subcommand = of_audit().unwrap_or(subcommand);
    let has = |flag: &&&str| subcommand.get_arguments().any(|arg| arg.get_long() == Some(flag));
    let (_, meant) = KNOWN.iter().find(|(names, _)| names.contains(&given))?;
    meant.iter().find(has).copied()
}

fn number(error: &clap::Error) -> bool {
    matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn suggested_flags_exist() {
        let command = Cli::command();
        for (names, flags) in KNOWN {
            for flag in flags {
                let known =
                    command.get_subcommands().any(|one| one.get_arguments().any(|arg| arg.get_long() == Some(flag)));
                assert!(known, "--{flag}");
            }
            let train = command.find_subcommand("train").unwrap();
            for name in names {
                assert!(train.get_arguments().all(|arg| arg.get_long() != Some(name)), "--{name} is a flag");
            }
        }
    }
}
