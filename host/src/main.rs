//! The `damper` command. Everything is in [`damper::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    damper::cli::main(std::env::args_os())
}
