//! What the boards run, on any system with a standard output: `console PROGRAM`, for `replay-recorded` with a file. Fails if
//! something is not as it must be.

use damper_core::replay::Memory;
use damper_firmware_program::{federated, methods::METHODS, personalise, replay, train};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let success = match std::env::args().nth(1).as_deref() {
        Some("replay") => replay::base(|line| println!("{line}")),
        Some("replay-further") => replay::further(|line| println!("{line}")),
        Some("replay-wide") => replay::wide(|line| println!("{line}")),
        Some("replay-recorded") => recorded(std::env::args_os().nth(2)),
        Some("train") => train::run(|line| println!("{line}")),
        Some("federated") => federated::run(1, |line| println!("{line}")),
        Some("personalise") => personalise::run(|line| println!("{line}")),
        Some("methods") => METHODS.iter().all(|method| method.run() == Some(method.digest)),
        _ => {
            eprintln!(
                "console replay|replay-further|replay-wide|replay-recorded FILE|train|federated|personalise|methods"
            );
            false
        }
    };
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Plays the recording in a file, of up to 100,000 parameters.
fn recorded(file: Option<OsString>) -> bool {
    let file = PathBuf::from(file.unwrap_or_default());
    match std::fs::read(&file) {
        Ok(bytes) => {
            let (mut floats, mut narrow, mut wide) = (vec![0.0; 2_000_000], vec![0; 100_000], vec![0; 100_000]);
            let memory = Memory { floats: &mut floats, narrow: &mut narrow, wide: &mut wide };
            replay::recorded(&mut &bytes[..], memory, |line| println!("{line}"))
        }
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            false
        }
    }
}
