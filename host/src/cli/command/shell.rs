//! `damper completions` and `damper man`: shell completions and manual pages.

use crate::cli::{Failure, answer};
use clap::{Args, Command};
use clap_complete::Shell;
use damper_train::files::{Access, write};
use std::path::PathBuf;

const COMPLETIONS: &str = "\
Examples:
  damper completions bash > ~/.local/share/bash-completion/completions/damper
  damper completions zsh > ~/.zfunc/_damper
  damper completions fish > ~/.config/fish/completions/damper.fish";

const MAN: &str = "\
Example:
  damper man ~/.local/share/man/man1
  man damper-train";

/// Writes a script that completes subcommands and flags, on standard output
#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS)]
pub(in crate::cli) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Writes the manual pages, one for each subcommand
#[derive(Args, Debug)]
#[command(after_help = MAN)]
pub(in crate::cli) struct ManArgs {
    /// The folder to write them to, which must exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(in crate::cli) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "damper", &mut script);
    answer(String::from_utf8_lossy(&script).trim_end())
}

pub(in crate::cli) fn man(args: &ManArgs, mut command: Command) -> Result<(), Failure> {
    command.build();
    pages(&command, args)
}

/// Writes the page of `command`, and those of its subcommands.
fn pages(command: &Command, args: &ManArgs) -> Result<(), Failure> {
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    write(&args.folder.join(page.get_filename()), &text, Access::Public)?;
    command
        .get_subcommands()
        .filter(|part| !part.is_hide_set() && part.get_name() != "help")
        .try_for_each(|part| pages(part, args))
}
