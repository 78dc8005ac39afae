//! `damper audit`: checks a run's privacy by its behaviour, on neighbouring data or with canaries.

use crate::cli::args::flags::with_flags;
use crate::cli::args::train::TrainArgs;
use crate::cli::session::charge::Charge;
use crate::cli::session::ranks::refuse_several;
use crate::cli::session::row_warnings::RowWarnings;
use crate::cli::{Failure, answer, answer_json};
use clap::{Args, Subcommand, ValueEnum};
use damper_accounting::upward;
use damper_audit::canary::{Canaries, CanaryAudit, CanaryOptions, canary};
use damper_audit::mechanism::{MechanismAudit, MechanismOptions, PRECISION, mechanism};
use damper_audit::neighbours::{NeighbourAudit, NeighbourOptions, neighbours};
use damper_audit::{CANARY, Claim, MECHANISM, NEIGHBOURS, check_claim, check_sampler};
use damper_onnx as onnx;
use damper_report::{create_ledger_folder, trained_model};
use damper_train::files::{self, Access, AtomicFile, MadeFolders};
use damper_train::write_model;
use damper_train::{Run, TrainConfig, TrainError, pay_all, rehearse};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// File of a canary audit's model, if it is stored.
const CANARY_MODEL: &str = "audit-canary-model.not-a-result.onnx";

const AFTER_HELP: &str = "\
All take the flags of damper train, or its file of flags, and are run on the
same model and data: what is audited is what damper train would do.

Examples:
  damper audit mechanism run.toml --out run
  damper audit neighbours run.toml --out run
  damper audit canary run.toml --out run
Each writes its record into the folder --out, which may be the folder of the
run itself: docs/audit.md says what it holds.";

const MECHANISM_HELP: &str = "\
Example, the run of the handwritten digits:
  damper audit mechanism onnx-models/digits-cnn.onnx \\
    --data idx:onnx-models/digits --epsilon 3 --delta 1e-5 --batch-size 128 \\
    --epochs 40 --optimizer momentum --lr 1 --clip 0.1 --out digits-run
It takes all flags of damper train, or its file of flags.

The trainer runs on made data, with your method, noise, clip, rate, optimizer
and ledger. Tested are: the noise of each step, coordinate, tensor and count
against the price, its tails, its independence over steps, purposes and
restarts, the rate of each of as many samples as you have, the divisor, the
clip, sums and counts against known gradients, payments against releases, and
the releases of --normalize-private, --release-non-finite and --test-metrics
private. All tests together refute a right mechanism with a probability of at
most 1e-6; beside each is the smallest violation that it finds. Your data is
read for its shapes and its number of samples alone.

Exit codes: 0 everything holds; 1 something does not, and the error says what.";

const NEIGHBOURS_HELP: &str = "\
Example, the run of the handwritten digits:
  damper audit neighbours onnx-models/digits-cnn.onnx \\
    --data idx:onnx-models/digits --epsilon 3 --delta 1e-5 --batch-size 128 \\
    --epochs 40 --optimizer momentum --lr 1 --clip 0.1 --out digits-run
It takes all flags of damper train, or its file of flags.

Each step is taken on the data and on its neighbours, from the same parameters
with the same randomness: one sample added, removed or replaced, among them a
duplicate, huge ones, NaNs and an infinity. Checked are steps, prices and
draws, the bits of the other samples' gradients, and in exact integers that
the clipped sum moves by at most the clip. Nothing is released.

Exit codes: 0 every law holds; 1 one is broken, and the error names step,
sample and coordinate.";

const CANARY_HELP: &str = "\
Example, the run of the handwritten digits:
  damper audit canary onnx-models/digits-cnn.onnx \\
    --data idx:onnx-models/digits --epsilon 3 --delta 1e-5 --batch-size 128 \\
    --epochs 40 --optimizer momentum --lr 1 --clip 0.1 --out digits-run
It takes all flags of damper train, or its file of flags.

The run is trained once with canaries in the data, each by a fair coin. What
was released is used to guess the coins; so many right guesses refute every
epsilon below a bound (Steinke, Nasr and Jagielski 2023). An audit that does
not refute a claim does not prove it. The canary model is no result, and is
not kept unless asked for.

Exit codes: 0 the claim is not refuted; 1 it is.";

/// Audits a run: compares its behaviour with its claims.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct AuditArgs {
    #[command(subcommand)]
    kind: Kind,
}

impl AuditArgs {
    /// Returns the settings of the run.
    pub(in crate::cli) fn train_args(&mut self) -> &mut TrainArgs {
        match &mut self.kind {
            Kind::Mechanism(args) => &mut args.train,
            Kind::Neighbours(args) => &mut args.train,
            Kind::Canary(args) => &mut args.train,
        }
    }
}

#[derive(Subcommand, Debug)]
enum Kind {
    Mechanism(Box<MechanismArgs>),
    Neighbours(Box<NeighbourArgs>),
    Canary(Box<CanaryArgs>),
}

/// Runs the trainer on made data and tests noise, draws, divisor, clip, counts and ledger against the accountant's
/// assumptions.
#[derive(Args, Debug)]
#[command(
    mut_arg("out", |arg| arg.help(OUT)), mut_arg("json", |arg| arg.help(JSON)), mut_arg("seed", |arg| arg.help(SEED)),
    mut_arg("record", |arg| arg.hide(true)), mut_arg("record_limit", |arg| arg.hide(true)), mut_arg("cache_frozen", |arg| arg.hide(true)),
    mut_arg("eval_every", |arg| arg.hide(true)), mut_arg("stop_early", |arg| arg.hide(true)), after_help = MECHANISM_HELP
)]
struct MechanismArgs {
    #[command(flatten)]
    train: TrainArgs,
    /// Smallest relative deviation of the noise that is found at each step and coordinate. Half of it takes four times
    /// as long
    #[arg(long, value_name = "SHARE", default_value_t = PRECISION, help_heading = "Audit")]
    precision: f64,
}

/// Replays steps of a run on neighbouring data and checks that a sample changes no more than the noise is made for.
#[derive(Args, Debug)]
#[command(
    mut_arg("out", |arg| arg.help(OUT)), mut_arg("json", |arg| arg.help(JSON)), mut_arg("seed", |arg| arg.help(REPLAY_SEED)),
    mut_arg("record", |arg| arg.hide(true)), mut_arg("record_limit", |arg| arg.hide(true)), mut_arg("cache_frozen", |arg| arg.hide(true)),
    mut_arg("eval_every", |arg| arg.hide(true)), mut_arg("stop_early", |arg| arg.hide(true)), after_help = NEIGHBOURS_HELP
)]
struct NeighbourArgs {
    #[command(flatten)]
    train: TrainArgs,
    /// Number of steps to replay, from the first, at most those of the run
    #[arg(long, value_name = "STEPS", default_value = "8", help_heading = "Audit")]
    steps: NonZeroU32,
}

/// Trains once with canaries in the data and computes the epsilon that their traces refute.
#[derive(Args, Debug)]
#[command(
    mut_arg("out", |arg| arg.help(OUT)), mut_arg("json", |arg| arg.help(JSON)), mut_arg("seed", |arg| arg.help(SEED)),
    mut_arg("record", |arg| arg.hide(true)), mut_arg("record_limit", |arg| arg.hide(true)), mut_arg("cache_frozen", |arg| arg.hide(true)),
    mut_arg("eval_every", |arg| arg.hide(true)), mut_arg("stop_early", |arg| arg.hide(true)), after_help = CANARY_HELP
)]
struct CanaryArgs {
    #[command(flatten)]
    train: TrainArgs,
    /// Kind of canary. `dirac`: a gradient of one coordinate. `random`: a gradient of random signs, if there are fewer
    /// parameters than canaries
    #[arg(long, value_name = "KIND", default_value = "dirac", help_heading = "Audit")]
    canaries: CanariesArg,
    /// Number of canaries, at least 1000
    #[arg(long, alias = "count", value_name = "N", default_value_t = 1000, help_heading = "Audit")]
    num_canaries: u32,
    /// Number of guesses, half of them in and half out. The other canaries are not guessed [default: two in five
    /// canaries]
    #[arg(long, alias = "guesses", value_name = "N", help_heading = "Audit")]
    num_guesses: Option<u32>,
    /// Probability that the lower bound is right
    #[arg(long, value_name = "P", default_value_t = 0.999, help_heading = "Audit")]
    confidence: f64,
    /// Keeps the canary model in the folder, marked in its name and its metadata as not a result
    #[arg(long, help_heading = "Audit")]
    keep_model: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum CanariesArg {
    Dirac,
    Random,
}

const OUT: &str = "Folder for the audit's record: that of the run, or one of its own, which is made";
const JSON: &str = "Prints the record as one JSON object on standard output, and nothing else there";
const SEED: &str = "Makes the audit one that can be repeated [default: a key from the operating system]";
const REPLAY_SEED: &str = "Where the search for the replay's seed begins [default: from the operating system]";

pub(in crate::cli) fn run(args: &AuditArgs) -> Result<(), Failure> {
    match &args.kind {
        Kind::Mechanism(args) => run_mechanism(args),
        Kind::Neighbours(args) => run_neighbours(args),
        Kind::Canary(args) => run_canary(args),
    }
}

fn run_mechanism(args: &MechanismArgs) -> Result<(), Failure> {
    let (model, run, seed) = prepare(&args.train, check_claim)?;
    let record = Record::begin(args.train.out(), MECHANISM)?;
    let options = MechanismOptions { precision: args.precision, seed };
    let audit = mechanism(&run, options, &mut told(&args.train)).map_err(|error| Failure::in_model(model, error))?;
    record.write(&audit)?;
    if args.train.json {
        answer_json(&audit)?
    } else {
        answer(&findings(&audit, args.train.out()))?
    }
    match audit.findings.iter().find(|finding| !finding.holds) {
        None => Ok(()),
        Some(finding) => Err(Failure::new(format!(
            "{}: {}; the mechanism is not the one that is priced: do not release what it makes",
            finding.what,
            finding.detail.as_deref().unwrap_or("does not hold")
        ))),
    }
}

fn findings(audit: &MechanismAudit, out: &Path) -> String {
    let mut text = String::new();
    for finding in &audit.findings {
        let word = if finding.holds { "holds   " } else { "VIOLATED" };
        let tests = if finding.tests == 1 { "once".into() } else { format!("{} times", finding.tests) };
        let finds = finding.finds.as_deref().unwrap_or("a single violation");
        text += &format!("{word}  {} ({tests}; finds {finds})\n", finding.what);
        if let (false, Some(detail)) = (finding.holds, &finding.detail) {
            text += &format!("          {detail}\n");
        }
    }
    format!(
        "{text}tests     {}, which together refute a right mechanism with a probability of at most {:e}\nrecord    {}",
        audit.tests,
        audit.error_rate,
        out.join(MECHANISM).display()
    )
}

fn run_neighbours(args: &NeighbourArgs) -> Result<(), Failure> {
    if args.train.has_budget() {
        return Err(Failure::usage(
            "`budget`: what audit neighbours finds is exact, so no epsilon covers it; audit on public or made-up data and leave out \
             `budget`",
        ));
    }
    let (model, run, seed) = prepare(&args.train, check_sampler)?;
    let record = Record::begin(args.train.out(), NEIGHBOURS)?;
    let options = NeighbourOptions { steps: args.steps.get(), seed };
    let audit = neighbours(&run, options, &mut told(&args.train)).map_err(|error| Failure::in_model(model, error))?;
    record.write(&audit)?;
    if args.train.json {
        answer_json(&audit)?
    } else {
        answer(&lines(&audit, args.train.out()))?
    }
    let broken = audit.cases.iter().find_map(|case| Some((case, case.violation.as_ref()?)));
    match broken {
        None => Ok(()),
        Some((case, violation)) => Err(Failure::new(format!("{}: {violation}", case.case))),
    }
}

fn lines(audit: &NeighbourAudit, out: &Path) -> String {
    let mut text = String::new();
    for case in &audit.cases {
        let word = if case.violation.is_none() { "holds   " } else { "VIOLATED" };
        text += &format!("{word}  {} (sample {}, drawn {} times)\n", case.case, case.sample, case.drawn);
        if let Some(violation) = &case.violation {
            text += &format!("          {violation}\n");
        }
    }
    format!(
        "{text}steps     {} of {}, by seed {}; other samples' gradients {}\nrecord    {}",
        audit.steps,
        audit.claim.steps,
        audit.seed,
        audit.other_samples,
        out.join(NEIGHBOURS).display()
    )
}

fn run_canary(args: &CanaryArgs) -> Result<(), Failure> {
    refuse_several(args.train.alone)?;
    let charge = args.train.charge("audit canary", None)?;
    let mut paid = None;
    let result = charged_canary(args, &charge, &mut paid);
    if result.is_err() {
        charge.narrow(paid.as_deref());
    }
    result
}

/// Audits the charged run. `paid` becomes the folder of its ledger.
fn charged_canary(args: &CanaryArgs, charge: &Charge, paid: &mut Option<PathBuf>) -> Result<(), Failure> {
    let (model, run, seed) = prepare(&args.train, check_sampler)?;
    charge.check(&run)?;
    let record = Record::begin(args.train.out(), CANARY)?;
    let options = CanaryOptions {
        canaries: match args.canaries {
            CanariesArg::Dirac => Canaries::Dirac,
            CanariesArg::Random => Canaries::Random,
        },
        count: args.num_canaries,
        guesses: args.num_guesses,
        confidence: args.confidence,
        seed,
    };
    // The audit trains on the data, so all steps are charged before the first.
    options.check(&run).map_err(|error| Failure::in_model(model, error))?;
    rehearse(&run).map_err(|error| Failure::in_model(model, error))?;
    let checkpoint = create_ledger_folder(args.train.out())?;
    *paid = checkpoint.parent().map(Path::to_path_buf);
    pay_all(&run, &checkpoint)?;
    let (audit, params) =
        canary(&run, options, &mut told(&args.train)).map_err(|error| Failure::in_model(model, error))?;
    let model = args.keep_model.then(|| CANARY_MODEL.to_owned());
    let audit = CanaryAudit { model, ..audit };
    record.write(&audit)?;
    let out = args.train.out();
    if args.keep_model {
        let mut model = trained_model(&run, &params)?;
        onnx::mark(&mut model);
        write_model(&out.join(CANARY_MODEL), &model, Access::Private)?;
    }
    if args.train.json {
        answer_json(&audit)?;
    } else {
        let kept = audit.model.iter().map(|name| {
            format!(
                "\nmodel     {} (the canary model: NOT a result, and not to be given away)",
                out.join(name).display()
            )
        });
        answer(&format!("{audit}\nrecord    {}{}", out.join(CANARY).display(), kept.collect::<String>()))?;
    }
    if !audit.refuted {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the claim of epsilon {} at delta {:e} is refuted: the released gradients give away {} of {} canaries, which shows an \
         epsilon of at least {:.4} with {} % confidence; do not release this run",
        upward(audit.claim.epsilon),
        audit.claim.delta,
        audit.correct,
        audit.guesses,
        audit.epsilon_lower,
        audit.percent(),
    )))
}

/// Returns the model's file, the run that the flags describe, and the audit's seed. An audit ignores settings of
/// recordings and evaluations.
fn prepare(
    args: &TrainArgs,
    check: fn(&TrainConfig) -> Result<(), TrainError>,
) -> Result<(&Path, Run, Option<u64>), Failure> {
    let model = args.model()?;
    let mut config = args.config()?;
    config.record = None;
    // An audit takes whole networks, because the mechanism is the same.
    config.cache_frozen = None;
    check(&config)?;
    let seed = config.seed.take();
    let run = args.prepare(model, config)?;
    check_folder(args.out(), &Claim::new(&run))?;
    for warning in &run.warnings.public {
        let _ = writeln!(io::stderr(), "warning: {warning}");
    }
    let of_rows = RowWarnings::new(args.quiet, args.json);
    run.warnings.of_data.iter().for_each(|warning| of_rows.warn(warning));
    Ok((model, run, seed))
}

/// Returns a progress callback that writes to standard error.
fn told(args: &TrainArgs) -> impl FnMut(&str) {
    let quiet = args.quiet;
    move |line| {
        if !quiet {
            let _ = writeln!(io::stderr(), "{}", with_flags(line));
        }
    }
}

/// Keys that a run's report and its claim share.
const SHARED: [&str; 6] = ["epsilon", "delta", "noise_multiplier", "sampling_rate", "steps", "accountant"];

/// Rejects a folder of a run with another claim.
fn check_folder(folder: &Path, claim: &Claim) -> Result<(), Failure> {
    if fs::metadata(folder).is_ok_and(|found| !found.is_dir()) {
        return Err(Failure::in_file(folder, "is a file: name a folder as `out`"));
    }
    let file = folder.join("report.json");
    let Ok(text) = fs::read_to_string(&file) else { return Ok(()) };
    let report: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Failure::in_file(&file, format!("is no report ({error})")))?;
    let claim = serde_json::to_value(claim)?;
    let method = |value: &serde_json::Value| value["training"]["method"].clone();
    let pairs = SHARED.iter().map(|key| (*key, report[key].clone(), claim[key].clone()));
    let all = pairs.chain([("method", method(&report), claim["method"].clone())]);
    for (key, there, here) in all {
        if there != here {
            return Err(Failure::in_file(
                &file,
                format!(
                    "is of a run with {key} {there}, and this one has {here}: give that run's flags, or another `out`"
                ),
            ));
        }
    }
    Ok(())
}

/// A record in progress. Its folder is created before the audit, which may take long. It is removed if the audit fails.
struct Record {
    file: AtomicFile,
    _made: MadeFolders,
}

impl Record {
    fn begin(folder: &Path, name: &str) -> Result<Self, Failure> {
        let made = MadeFolders::for_path(folder);
        fs::create_dir_all(folder)
            .map_err(|error| Failure::in_file(folder, format!("cannot be made ({error}): name another `out`")))?;
        Ok(Self { file: AtomicFile::create(&folder.join(name), Access::Public)?, _made: made })
    }

    fn write(mut self, record: &impl Serialize) -> Result<(), Failure> {
        let text = files::json(record)?;
        self.file.write_all(text.as_bytes()).map_err(|error| self.file.failed(&error))?;
        Ok(self.file.commit()?)
    }
}
