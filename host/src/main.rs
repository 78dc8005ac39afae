//! The `damper` command. Everything is in [`damper::cli`].

use std::process::ExitCode;

/// NVIDIA's libraries read it when they are loaded. With 0 they round no product of floats to TF32's 11 bits.
const TF32: &str = "NVIDIA_TF32_OVERRIDE";

fn main() -> ExitCode {
    if std::env::var_os(TF32).is_none() {
        // SAFETY: this is the program's first statement, and no other thread runs yet.
        unsafe { std::env::set_var(TF32, "0") };
    }
    damper::cli::main(std::env::args_os())
}
