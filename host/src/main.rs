//! The `damper` command. Everything is in [`damper::cli`].

use damper::runtime::TF32_OVERRIDE;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::var_os(TF32_OVERRIDE).is_none() {
        // SAFETY: this is the program's first statement, and no other thread runs yet.
        unsafe { std::env::set_var(TF32_OVERRIDE, "0") };
    }
    damper::cli::main(std::env::args_os())
}
