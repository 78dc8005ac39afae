//! What the boards run, on any system with a standard output: `console PROGRAM`. Fails if something is not as it must be.

use damper_firmware_program::{federated, methods::METHODS, personalise, replay, train};
use std::process::ExitCode;

fn main() -> ExitCode {
    let success = match std::env::args().nth(1).as_deref() {
        Some("replay") => replay::base(|line| println!("{line}")),
        Some("replay-further") => replay::further(|line| println!("{line}")),
        Some("replay-wide") => replay::wide(|line| println!("{line}")),
        Some("train") => train::run(|line| println!("{line}")),
        Some("federated") => federated::run(1, |line| println!("{line}")),
        Some("personalise") => personalise::run(|line| println!("{line}")),
        Some("methods") => METHODS.iter().all(|method| method.run() == Some(method.digest)),
        _ => {
            eprintln!("console replay|replay-further|replay-wide|train|federated|personalise|methods");
            false
        }
    };
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
