//! `damper report`: the privacy report of a run, for readers who must judge its claim.

use crate::cli::command::planning::epsilon::EVENTS;
use crate::cli::{Failure, answer, answer_json};
use clap::Args;
use damper_accounting::upward;
use damper_report::{Evidence, NotPrivateStatement, Statement, Unfinished, html};
use damper_train::files::{Access, write};
use std::path::{Path, PathBuf};

/// File of the page.
const PAGE: &str = "report.html";
/// File of the statement, the machine-readable form.
const STATEMENT: &str = "statement.json";

const AFTER_HELP: &str = "\
Reads report.json and events.json, and audit-canary.json and audit-neighbours.json
where damper audit left them; computes epsilon again from events.json alone, and
writes report.html and statement.json. docs/report.md says what each field means.

Of a run that was killed or failed it reads checkpoint/plan.json and
checkpoint/ledger.json: both files then give epsilon of the paid steps, an upper
bound, and say that the run is unfinished.

Of a run that is not private (damper train --not-private) both files say so, and
there is no epsilon.

Example:
  damper report run

Exit codes: 0 the claim is what the events say; 1 it is not, or an audit failed
(both files are written and say so), or a file is missing or damaged.";

/// Writes a run's privacy report: one page and one JSON.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(in crate::cli) struct ReportArgs {
    /// A run's folder, made by damper train --out
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Folder for the two files, which must exist [default: DIR]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Prints statement.json on standard output too, and nothing else there
    #[arg(long)]
    json: bool,
}

/// Writes the report on the run in `folder` to `out`.
pub(in crate::cli) fn write_report(folder: &Path, out: &Path) -> Result<Statement, Failure> {
    let evidence = Evidence::read(folder)?;
    let statement = Statement::new(evidence).map_err(|error| {
        let what = format!("its events cannot be priced: {error}; take the file that damper train wrote");
        Failure::in_file(&folder.join(EVENTS), what)
    })?;
    write(&out.join(PAGE), html(&statement).as_bytes(), Access::Public)?;
    write(&out.join(STATEMENT), statement.to_json().as_bytes(), Access::Public)?;
    Ok(statement)
}

/// Writes the report on a run that is not private to `out`.
pub(in crate::cli) fn write_not_private(found: &NotPrivateStatement, out: &Path) -> Result<(), Failure> {
    write(&out.join(PAGE), found.html().as_bytes(), Access::Public)?;
    Ok(write(&out.join(STATEMENT), found.to_json().as_bytes(), Access::Public)?)
}

/// Writes the same report, and prints its location.
fn of_not_private(args: &ReportArgs, out: &Path, found: &NotPrivateStatement) -> Result<(), Failure> {
    write_not_private(found, out)?;
    if args.json {
        return answer_json(found);
    }
    answer(&format!(
        "epsilon   none: NOT PRIVATE, trained without clipping and noise\nsteps     {}{}\npage      {}\njson      {}",
        found.steps.map_or("unknown".into(), |steps| steps.to_string()),
        if found.finished { "" } else { ": the run is unfinished" },
        out.join(PAGE).display(),
        out.join(STATEMENT).display(),
    ))
}

/// Writes the report on an unfinished run.
fn of_unfinished(args: &ReportArgs, out: &Path, found: &Unfinished) -> Result<(), Failure> {
    write(&out.join(PAGE), found.html().as_bytes(), Access::Public)?;
    write(&out.join(STATEMENT), found.to_json().as_bytes(), Access::Public)?;
    if args.json {
        return answer_json(found);
    }
    answer(&format!(
        "epsilon   {}{}\ndelta     {:e}\nsteps     {} paid of {}: the run is unfinished, and this is an upper bound\npage      \
         {}\njson      {}",
        upward(found.epsilon),
        if found.guaranteed { "" } else { "  NO GUARANTEE: the page says why" },
        found.delta,
        found.steps,
        found.planned_steps,
        out.join(PAGE).display(),
        out.join(STATEMENT).display(),
    ))
}

pub(in crate::cli) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let out = args.out.as_ref().unwrap_or(&args.folder);
    if let Some(found) = NotPrivateStatement::read(&args.folder)? {
        return of_not_private(args, out, &found);
    }
    if let Some(unfinished) = Unfinished::read(&args.folder)? {
        return of_unfinished(args, out, &unfinished);
    }
    let statement = write_report(&args.folder, out)?;
    if args.json {
        answer_json(&statement)?;
    } else {
        answer(&format!(
            "epsilon   {}{}\ndelta     {:e}\nsteps     {}\nclaim     {}\npage      {}\njson      {}",
            upward(statement.epsilon),
            if statement.guaranteed { "" } else { "  NO GUARANTEE: the page says why" },
            statement.delta,
            statement.steps,
            if statement.agrees { "the same" } else { "DIFFERS: do not rely on it" },
            out.join(PAGE).display(),
            out.join(STATEMENT).display(),
        ))?;
    }
    match statement.fault() {
        None => Ok(()),
        Some(fault) => Err(Failure::in_file(&args.folder, fault)),
    }
}
